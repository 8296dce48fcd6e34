"""`endpoint:URL#MODEL`: a language model behind an OpenAI-compatible server, asked through the `openai` client.

One request per sample, never `n=`: every server understands it, each answer has its own retries and token usage, and
servers keep the common prompt in their prefix cache. Candidates come in the order they were asked for.
Must stay true: the key appears in no message, no record and no name.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from autotriton.errors import PrerequisiteError, ProposerError, UsageError
from autotriton.propose import refine
from autotriton.propose.background import Background
from autotriton.propose.complaints import Refused, complaint, said
from autotriton.propose.completion import Answer, NotACompletion, read
from autotriton.propose.prompt import Prompts
from autotriton.propose.refine import Ask
from autotriton.propose.settings import EndpointSettings, checked
from autotriton.types import Attempt, Candidate, Task

FORM = "endpoint:URL#MODEL"
KEY_VARIABLES = ("AUTOTRITON_API_KEY", "OPENAI_API_KEY")
_LONGEST_PAUSE_S = 130.0
"""Between two tries: the client honours Retry-After up to two minutes."""
_SLACK_S = 2.0
_MODELS_TIMEOUT_S = 5.0
_UNSUPPORTED = re.compile(r"unsupported|not support|unexpected|unrecogni[sz]ed|not permitted|extra input|unknown", re.I)
_log = logging.getLogger(__name__)


class EndpointProposer:
    """Asks for `samples` programs per task, then for corrections of those the judge refused, for `turns` turns."""

    def __init__(self, url: str, model: str, **settings: Any) -> None:
        self.settings = checked(EndpointSettings, settings)
        self.url = _checked_url(url)
        if not model:
            raise UsageError("the endpoint's model is missing", hint=f"write {FORM}")
        if importlib.util.find_spec("openai") is None:
            raise PrerequisiteError(
                "the endpoint proposer needs the `openai` package", hint="pip install 'autotriton[endpoint]'"
            )
        self.model = model
        self.name = f"endpoint:{self.url}#{model}"
        self._prompts = Prompts(self.settings.template, self.settings.refine_template)
        self._parameters = self._first_parameters()

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        """Every answer that comes, as a candidate; then an error if some did not come."""
        questions = refine.asks(task, history, self.name, self.settings, self._prompts)
        if not questions:
            return
        lost: list[ProposerError] = []
        with self._asked(questions) as coming:
            for ask, answered in zip(questions, coming, strict=True):
                try:
                    answer = answered.result()
                except Refused:
                    raise
                except ProposerError as error:
                    lost.append(error)
                    continue
                yield refine.candidate(task, self.name, ask, answer.text, answer.usage)
        if lost:
            share = f"{len(lost)} of {len(questions)} answers did not come: " if len(lost) < len(questions) else ""
            raise ProposerError(f"{share}{lost[0].args[0]}", hint=lost[0].hint)

    @contextlib.contextmanager
    def _asked(self, questions: list[Ask]) -> Iterator[list[Future[Answer]]]:
        """All questions under way; whoever stops listening cancels the rest."""
        openai: Any = importlib.import_module("openai")
        with Background() as background:
            client = openai.AsyncOpenAI(
                base_url=self.url,
                api_key=_key() or "none",  # local servers take any, but the client insists on one
                timeout=self.settings.timeout_s,
                max_retries=self.settings.retries,
            )
            background.at_end(client.close)
            gate = asyncio.Semaphore(self.settings.concurrency)
            yield [background.submit(self._answer(openai, client, gate, ask)) for ask in questions]

    async def _answer(self, openai: Any, client: Any, gate: asyncio.Semaphore, ask: Ask) -> Answer:
        tries = self.settings.retries + 1
        # The client's own timeout is for silence; an answer that trickles in must end too.
        deadline_s = tries * self.settings.timeout_s + self.settings.retries * _LONGEST_PAUSE_S + _SLACK_S
        try:
            async with gate, asyncio.timeout(deadline_s):
                return read(await self._request(openai, client, ask))
        except TimeoutError:
            text = f"{self.url} did not finish its answer within {deadline_s:g} s"
            raise ProposerError(text, hint="raise timeout_s, or lower max_tokens") from None
        except NotACompletion as error:
            raise ProposerError(
                f"{self.url} answers something that is no chat completion: {_redacted(str(error))}",
                hint="is it an OpenAI-compatible server, and does its URL end in /v1?",
            ) from None
        except openai.OpenAIError as error:
            served = await self._served(openai, client) if getattr(error, "status_code", 0) in (400, 404) else []
            found = complaint(error, self.url, self.model, tries, served)
            raise type(found)(_redacted(found.args[0]), hint=found.hint) from None

    async def _request(self, openai: Any, client: Any, ask: Ask) -> bytes:
        messages = [{"role": "user", "content": ask.prompt}]
        while True:
            sent = {**self._parameters, **({"seed": ask.seed} if ask.seed is not None and self._seeds else {})}
            try:
                create = client.chat.completions.with_raw_response.create
                raw = await create(model=self.model, messages=messages, **sent)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self._adapted(said(error), getattr(error, "param", None), sent):
                    raise
            else:
                content: bytes = raw.http_response.content
                return content

    def _first_parameters(self) -> dict[str, Any]:
        """What every server knows; `_adapted` learns what this one does not."""
        self._seeds = True
        settings = self.settings
        return {"temperature": settings.temperature, "top_p": settings.top_p, "max_tokens": settings.max_tokens}

    def _adapted(self, text: str, parameter: str | None, sent: dict[str, Any]) -> bool:
        """Whether the request is worth another try without the parameter the server does not know."""
        named = [name for name in sent if name == parameter or re.search(rf"\b{name}\b", text)]
        if not named or not _UNSUPPORTED.search(text):
            return False
        name = named[0]
        if name not in self._parameters and name != "seed":
            return True  # another request has learnt it meanwhile
        if name == "max_tokens" and "max_completion_tokens" in text:  # newer OpenAI models renamed it
            self._parameters = {**self._parameters, "max_completion_tokens": self.settings.max_tokens}
        else:
            _log.warning("%s does not take `%s`; the server's own value is used", self.url, name)
        self._parameters = {key: value for key, value in self._parameters.items() if key != name}
        self._seeds = self._seeds and name != "seed"
        return True

    async def _served(self, openai: Any, client: Any) -> list[str]:
        """Names of the models the server offers; it need not say."""
        with contextlib.suppress(openai.OpenAIError, AttributeError, TypeError, ValueError):
            page = await client.with_options(timeout=_MODELS_TIMEOUT_S, max_retries=0).models.list()
            return [str(model.id) for model in page.data]
        return []


def _key() -> str | None:
    """The first key the environment holds. One that no header can carry is told apart here, without being shown."""
    for name in KEY_VARIABLES:
        if key := os.environ.get(name, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise UsageError(f"{name} holds characters that no key has", hint="set it again")
            return key
    return None


def _redacted(text: str) -> str:
    key = _key()
    return text.replace(key, "***") if key else text


def _checked_url(url: str) -> str:
    """The server's base URL; `/v1` is where servers put it when no path is given."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # brackets that do not close, a port out of range
        parts, host, port = urlsplit(""), None, None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(f"the endpoint's URL {url!r} is not one", hint="write for example http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise UsageError("the endpoint's URL holds a user name or password", hint="put the key into AUTOTRITON_API_KEY")
    if parts.query:
        raise UsageError(f"the endpoint's URL {url!r} has a query", hint="leave everything from the `?` on out")
    place = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, place + (f":{port}" if port else ""), parts.path.rstrip("/") or "/v1", "", ""))
