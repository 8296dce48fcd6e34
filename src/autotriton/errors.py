"""The error tree: each class says who can fix it, and the CLI turns it into one line and an exit code.

A bad candidate is never an exception here: it is a `Verdict`. These classes are for everything else.
"""

from __future__ import annotations


class AutoTritonError(Exception):
    """What happened (`str(error)`), what to do next (`hint`), and the exit code of the CLI contract."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.hint})" if self.hint else message


class UsageError(AutoTritonError):
    """The call is wrong: an unknown name, a missing file, a file that is not what it should be."""


class PrerequisiteError(AutoTritonError):
    """The machine lacks something: a GPU, a sandbox, an optional package."""

    exit_code = 3


class TaskError(AutoTritonError):
    """The task cannot be judged: it is degenerate, random by itself, or its own forward raises."""

    exit_code = 4


class ProposerError(AutoTritonError):
    """A proposer could not propose: an endpoint is down, weights are missing."""

    exit_code = 1


class JudgeError(AutoTritonError):
    """The judge itself broke. Never the candidate's fault, and never counted as a verdict."""

    exit_code = 3


class TrainError(AutoTritonError):
    """A training run stopped by itself: it diverged or ran out of memory. What it had saved stays."""

    exit_code = 1
