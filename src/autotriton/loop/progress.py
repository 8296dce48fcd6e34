"""What the loop tells whoever watches it, while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotriton.types import Attempt


@dataclass(frozen=True)
class Doing:
    """What happens right now."""

    proposer: str
    number: int
    """Of the candidate, from 1."""
    what: str
    """proposing, judging, comparing, tuning or timing."""
    detail: str = ""
    """The judge's stage, or the tuner's own words."""


@dataclass(frozen=True)
class Judged:
    """An attempt is recorded; `best` is the best of all so far."""

    attempt: Attempt
    best: Attempt | None


@dataclass(frozen=True)
class Failed:
    """A proposer or the tuner gave up; the others go on."""

    who: str
    error: Exception

    @property
    def cause(self) -> str:
        """On one line, with the kind of an error that is not ours."""
        text = " ".join(str(self.error).split())
        return text if hasattr(self.error, "hint") else f"{type(self.error).__name__}: {text}"


Event = Doing | Judged | Failed
Progress = Callable[[Event], None]
