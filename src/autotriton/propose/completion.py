"""An OpenAI-compatible server's answer, read strictly where it matters and leniently elsewhere.

Must stay true: an answer without text (a refusal, no choices) is an empty answer, and bytes that are no chat completion
at all are an error. Servers differ in everything else, so unknown fields are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError, field_validator

from autotriton.types import TokenUsage

_MOST_QUOTED = 200


class NotACompletion(Exception):
    """Says what came instead."""


@dataclass(frozen=True)
class Answer:
    text: str
    usage: TokenUsage | None


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    """What reasoning models thought, by the name most servers give it."""
    reasoning: str | None = None

    @field_validator("content", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        """Some servers send a list of parts."""
        if isinstance(value, list):
            return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
        return value


class _Choice(BaseModel):
    message: _Message | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(BaseModel):
    choices: list[_Choice] | None
    usage: _Usage | None = None


def read(body: bytes) -> Answer:
    """The first choice and what it cost."""
    try:
        found = _Completion.model_validate_json(body)
    except ValidationError:
        raise NotACompletion(quoted(body)) from None
    message = (found.choices[0].message if found.choices else None) or _Message()
    return Answer(_text(message), _usage(found.usage))


def quoted(body: bytes) -> str:
    """The start of it on one line."""
    text = " ".join(body.decode("utf-8", "replace").split())
    return repr(text[:_MOST_QUOTED] + ("..." if len(text) > _MOST_QUOTED else ""))


def _text(message: _Message) -> str:
    """The answer as a model would write it itself: its reasoning in `<think>` tags before it."""
    said = message.content or message.refusal or ""
    thought = message.reasoning_content or message.reasoning
    return f"<think>\n{thought.strip()}\n</think>\n\n{said}" if thought and thought.strip() else said


def _usage(usage: _Usage | None) -> TokenUsage | None:
    if usage is None or usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return TokenUsage(prompt=usage.prompt_tokens, completion=usage.completion_tokens)
