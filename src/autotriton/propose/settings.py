"""How a language model is asked: frozen records that are stored with the run. A wrong value is one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from autotriton.errors import UsageError


class Settings(BaseModel):
    """What every language model proposer is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(default=4, ge=1)
    """Independent first answers per task (best of n)."""
    turns: int = Field(default=3, ge=1)
    """Answers in a row that may build on each other: 1 never refines."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    top_p: float = Field(default=0.95, gt=0, le=1)
    max_tokens: int = Field(default=8192, ge=1)
    """Of one answer, reasoning included."""
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """For one answer."""
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    """Answer number i of a task gets seed + i; None leaves it to chance."""
    template: Path | None = None
    """Own template instead of `prompts/rewrite.md`, or of the `prompt.md` that lies beside a trained model."""
    refine_template: Path | None = None
    """Own template instead of `prompts/refine.md`."""

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError("more than one sample needs a temperature above 0: at 0 all of them are the same")
        return self


class EndpointSettings(Settings):
    retries: int = Field(default=4, ge=0)
    """Further tries after a rate limit, a failing server or a lost connection."""
    concurrency: int = Field(default=4, ge=1)
    """Requests under way at the same time."""


class ModelSettings(Settings):
    batch: int | None = Field(default=None, ge=1)
    """Answers generated together, 256 on a GPU and 8 without by default; halved while they don't fit into memory."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""


AnySettings = TypeVar("AnySettings", bound=Settings)


def checked(kind: type[AnySettings], values: dict[str, Any]) -> AnySettings:
    """The settings, or one line about the first value that is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        text = str(first["msg"]).removeprefix("Value error, ")
        known = ", ".join(sorted(kind.model_fields))
        hint = f"known settings: {known}" if first["type"] == "extra_forbidden" else None
        raise UsageError(f"setting {where}: {text}" if where else text, hint=hint) from None
