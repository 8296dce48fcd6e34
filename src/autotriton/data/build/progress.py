"""What a stage tells whoever watches: how far it is, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

Watcher = Callable[["Progress"], None]


@dataclass
class Progress:
    """One stage of one call."""

    stage: str
    total: int | None = None
    """None where nobody knows yet."""
    done: int = 0
    """Made by this call."""
    before: int = 0
    """Made by earlier calls."""
    counts: Counter[str] = field(default_factory=Counter)
    """What came of them, by class."""
    started: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)
    """What a person should know: broken packages, failing servers."""
    ended: float | None = None

    @property
    def seconds(self) -> float:
        return (self.ended if self.ended is not None else time.monotonic()) - self.started

    def line(self) -> str:
        """For people, at the end."""
        rate = f" at {self.done / self.seconds:.1f}/s" if self.done and self.seconds else ""
        again = f", {self.before} done before" if self.before else ""
        classes = "; " + ", ".join(f"{count} {name}" for name, count in self.counts.most_common(8))
        return f"{self.stage}: {self.done} in {self.seconds:.0f} s{rate}{again}" + (classes if self.counts else "")
