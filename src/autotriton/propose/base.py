"""What a proposer is: anything that turns a task, and what was tried on it so far, into candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from autotriton.types import Attempt, Candidate, Task


class Proposer(Protocol):
    """One method. A proposer that cannot propose raises `ProposerError`; it never judges its own candidates."""

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        """Candidates for the task, best guess first. `history` holds the attempts made so far."""
        ...
