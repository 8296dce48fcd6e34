"""The score of one run: every number with its interval, and everything that made it."""

from __future__ import annotations

from pydantic import Field

from autotriton.judge.cheats import Cheat
from autotriton.types import Machine, Record


class Share(Record):
    """A share with its 95% interval (Wilson)."""

    hits: float
    """Fractional where tasks have several samples: a task solved in 3 of 10 counts 0.3."""
    of: int
    value: float | None
    """None of nothing."""
    low: float
    high: float


class Mean(Record):
    """A geometric mean of speed-ups over tasks, with its 95% interval (bootstrap over tasks)."""

    value: float
    low: float
    high: float
    tasks: int
    assumed: int
    """Tasks whose factor was not measured and is taken as 1."""


class Fast(Record):
    """Share of all tasks that are correct and more than p times as fast as a baseline."""

    baseline: str
    p: float
    sure: Share
    """Counted by the lower end of the speed-up's interval."""
    median: Share
    """Counted by the plain ratio of medians, as published numbers are."""


class Caught(Record):
    """Candidates rejected for one kind of cheating, as a share of all candidates judged."""

    kind: Cheat
    share: Share


class Unscored(Record):
    """An attempt the judge or the proposer broke on; left out of every share."""

    task: str
    sample: int
    error: str


class Score(Record):
    """One run, counted."""

    run_id: str
    verb: str
    started: str
    commit: str
    proposer: str
    policy: str
    tier: str
    """How far candidates were taken; up to `rules`, none of them was run."""
    suite: str
    suite_version: str
    judge_version: str
    machine: Machine
    versions: dict[str, str]

    tasks: int
    samples: int
    """Answers asked for per task; shares are means over them, so the expectation of one."""
    missing: int = 0
    """Answers that never came, of tasks that were not skipped: the proposer had no more, or the run was interrupted."""
    answered: int
    """Tasks with at least one attempt; fewer than `tasks` in an interrupted run."""
    candidates: int
    """Attempts with a verdict."""
    unscored: tuple[Unscored, ...] = ()
    excluded: dict[str, str] = Field(default_factory=dict)
    skipped: dict[str, str] = Field(default_factory=dict)
    unanswered: tuple[str, ...] = ()
    """Tasks without an attempt that were not skipped."""

    called: Share
    """The suite's Call or Comp over all tasks; where it has no protocol, ran to an answer in our judge."""
    executed: Share | None = None
    """The suite's own Exec over all tasks; None where it has no protocol."""
    checked: Share
    """Accepted by our judge, excluded tasks left out."""
    unproved: Share | None = None
    """Passed the suite's own Exec but not our judge, over the tasks of `checked`."""
    pass_at: dict[int, Share] = Field(default_factory=dict)
    """Unbiased pass@k of `checked`."""
    official_pass_at: dict[int, Share] = Field(default_factory=dict)
    fast: tuple[Fast, ...] = ()
    """Empty where nothing was timed."""
    geometric_mean: dict[str, Mean] = Field(default_factory=dict)
    """By baseline. A failed task counts as run eagerly."""
    outcomes: dict[str, int] = Field(default_factory=dict)
    """Candidates by outcome."""
    cheats: tuple[Caught, ...] = ()

    def faster(self, p: float, baseline: str = "eager") -> Fast | None:
        return next((fast for fast in self.fast if fast.p == p and fast.baseline == baseline), None)
