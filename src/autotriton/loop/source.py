"""One proposer's place in the loop: its candidates one at a time, turn after turn."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from autotriton.propose import Proposer
from autotriton.types import Attempt, Candidate, Task

_MOST_REPEATS = 100
"""Known candidates in a row after which a proposer is taken to have nothing new."""


class Source:
    """Asks its proposer again after every turn of model answers, with the verdicts on them in the history."""

    def __init__(self, proposer: Proposer) -> None:
        self.proposer = proposer
        self.name = name_of(proposer)
        self._stream: Iterator[Candidate] | None = None
        self._refinable = False
        self._repeats = 0

    def take(self, task: Task, history: Sequence[Attempt], known: Container[str]) -> Candidate | None:
        """The next candidate; None at the end. A known one is left out, unless it is a model's answer: those count."""
        while True:
            if self._stream is None:
                self._stream, self._refinable = iter(self.proposer.propose(task, tuple(history))), False
            for candidate in self._stream:
                if candidate.id not in known:
                    # Only an answer cut out of a completion can be refined; asking a compiler again is wasted time.
                    self._refinable |= candidate.completion is not None
                    self._repeats = 0
                    return candidate
                self._repeats += 1
                if self._repeats > _MOST_REPEATS:
                    return None
                if candidate.completion is not None:
                    return candidate
            self._stream = None
            if not self._refinable:
                return None


def name_of(proposer: Proposer) -> str:
    """Its own name, else its class: `CompilerProposer` is `compiler`."""
    given = getattr(proposer, "name", None)
    return str(given) if given else type(proposer).__name__.removesuffix("Proposer").lower() or "proposer"
