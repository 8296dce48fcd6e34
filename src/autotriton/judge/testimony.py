"""What a candidate's process says, checked before anybody reads it: malformed means crashed, never a judge error."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class _Resources(BaseModel):
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None


class _Evidence(BaseModel):
    """Counts and lines that can only speak against the candidate."""

    model_config = ConfigDict(extra="allow")

    launches: dict[str, int] = {}
    kernels: dict[str, _Resources] = {}
    types: list[list[str]] = []
    described: list[dict[str, Any]] = []
    blocked: list[tuple[str, int | None]] = []
    violations: list[str] = []
    casts: list[str] = []
    operators: dict[str, int] = {}
    moved_bytes: dict[str, int] = {}
    torch_cost: tuple[float, float] = (0.0, 0.0)
    broken_fences: int = 0


class _Error(_Evidence):
    kind: str = "raised"
    type: str = ""
    text: str = ""
    line: int | None = None
    out_of_memory: bool = False


class _Answer(_Evidence):
    error: _Error | None = None
    leaves: list[dict[str, Any]] = []
    state: list[tuple[str, list[Any]]] = []
    aliases: list[str | None] = []
    device_ms: list[float] = []
    latency_ms: float = 0.0
    enqueue_ms: float = 0.0
    peak_bytes: int = 0


def heard(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The answer with every known field of its kind; None when one is not."""
    try:
        return _Answer.model_validate(answer).model_dump()
    except (ValidationError, RecursionError):
        return None
