"""What went wrong at an endpoint, in one line that says what to do: every error of the `openai` client ends here."""

from __future__ import annotations

from typing import Any

from autotriton.errors import ProposerError

_MOST_TEXT = 300
_MOST_MODELS = 8
KEY_HINT = "set AUTOTRITON_API_KEY to a key the server accepts"


class Refused(ProposerError):
    """The server will not take any request like this one: wrong key, URL or model."""


def complaint(error: Exception, url: str, model: str, tries: int, served: list[str]) -> ProposerError:
    """The error for the user. `served` are the models the server offers, if it says so."""
    status = getattr(error, "status_code", None)
    if status is None:
        return _unreachable(error, url, tries)
    text = said(error)
    if status in (401, 403):
        return Refused(f"{url} refuses the key (HTTP {status})", hint=KEY_HINT)
    if status == 404:
        return Refused(f"{url} has no model {model!r}, or is no chat endpoint (HTTP 404)", hint=_models(served))
    if status == 429:
        return ProposerError(
            f"{url} limits the rate or the quota is spent (HTTP 429, tried {tries} times): {text}",
            hint="lower the concurrency, or wait",
        )
    if status >= 500:
        return ProposerError(f"{url} fails (HTTP {status}, tried {tries} times): {text}", hint="see the server's log")
    # Perhaps only this one: a refinement's prompt can be too long where the first one was not.
    return ProposerError(f"{url} refuses the request (HTTP {status}): {text}", hint=_models(served) if served else None)


def said(error: Exception) -> str:
    """The server's own words, on one line."""
    body = getattr(error, "body", None)
    for key in ("message", "detail", "error"):
        if isinstance(body, dict) and body.get(key):
            return _one_line(body[key])
    return _one_line(body or error)


def _unreachable(error: Exception, url: str, tries: int) -> ProposerError:
    cause: BaseException = error
    while (deeper := cause.__cause__ or cause.__context__) is not None:
        cause = deeper
    if "Timeout" in type(error).__name__:
        return ProposerError(
            f"{url} did not answer in time (tried {tries} times)", hint="raise timeout_s, or lower max_tokens"
        )
    reason = _one_line(cause) or type(cause).__name__
    return ProposerError(
        f"cannot reach {url} (tried {tries} times): {reason}", hint="check the URL, and that the server runs"
    )


def _models(served: list[str]) -> str:
    if not served:
        return "check the URL (it usually ends in /v1) and the model's name"
    more = ", ..." if len(served) > _MOST_MODELS else ""
    return f"it serves: {', '.join(served[:_MOST_MODELS])}{more}"


def _one_line(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "..."
