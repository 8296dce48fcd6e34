"""One proposer over a suite: answers drawn ahead, judged as they come, every attempt on disk at once.

Must stay true: nothing is judged twice, by task and sample; a task whose judging breaks costs that task only; and
whatever ends a run early (a kill, a full disk, an interrupt) leaves a run that can be resumed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from autotriton.bench import screening
from autotriton.bench.answers import Answer, Shelf
from autotriton.bench.examine import Examined, Examiner, Job
from autotriton.bench.proposing import Item, Missing, Proposing, on_this_gpu, only_missing, threads_for
from autotriton.bench.records import BenchRun, Suite, load, save_suite
from autotriton.bench.turns import Turns
from autotriton.errors import AutoTritonError
from autotriton.judge import JUDGE_VERSION
from autotriton.propose import Proposer
from autotriton.store import Run
from autotriton.types import Attempt, Candidate, Official, Outcome, Policy, Task, Tier, Verdict

_RANDOM = "random by itself"
_MEMORY = ("does not fit into memory", "too much memory")
"""How the judge says that a task, not a candidate, is at fault."""


@dataclass(frozen=True)
class Begun:
    """Samples in all, and how many of them an earlier, interrupted run has done."""

    total: int
    done: int
    accepted: int = 0


@dataclass(frozen=True)
class Came:
    """So many answers came, or will never come."""

    count: int


@dataclass(frozen=True)
class Finished:
    """An attempt is on disk."""

    attempt: Attempt


@dataclass(frozen=True)
class Dropped:
    """So many samples will have no attempt."""

    task_id: str
    count: int
    why: str


Event = Begun | Came | Finished | Dropped
Tell = Callable[[Event], None]


class Stage(StrEnum):
    """What one call does of a run; a run may be begun, screened and finished on different machines."""

    ALL = "all"
    ANSWER = "answer"
    """Ask the proposer, judge nothing."""
    SCREEN = "screen"
    """Judge without a GPU what answers are there, and keep the verdicts that no GPU would change."""
    JUDGE = "judge"
    """Judge what answers are there, ask for none."""


@dataclass(frozen=True)
class RunnerOptions:
    samples: int = 1
    policy: Policy = Policy.STRICT
    tier: Tier | None = None
    proposal_workers: int | None = None
    """Tasks a proposer is asked about at once; None: what suits the proposer."""
    turns: Turns = field(default_factory=Turns)
    """With other runs on the same GPU."""
    stage: Stage = Stage.ALL


def bench(
    run: Run,
    suite: Suite,
    tasks: Sequence[Task],
    proposer: Proposer | None,
    examiner: Examiner,
    options: RunnerOptions,
    tell: Tell | None = None,
) -> BenchRun:
    """Judges what is missing of the run, and gives the whole of it back. `suite` says which tasks are skipped; without
    a proposer only answers that are there are judged.
    """
    _Runner(run, suite, tasks, proposer, examiner, options, tell or (lambda _: None)).go()
    return load(run)


class _Nobody:
    """Has no answers."""

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        return iter(())


class _Runner:
    def __init__(
        self,
        run: Run,
        suite: Suite,
        tasks: Sequence[Task],
        proposer: Proposer | None,
        examiner: Examiner,
        options: RunnerOptions,
        tell: Tell,
    ) -> None:
        self.run, self.examiner, self.options = run, examiner, options
        self.proposer: Proposer = proposer or _Nobody()
        self.suite, self._mutex, self._tell = suite, threading.RLock(), tell
        left_out = {*suite.skipped, *suite.excluded}
        self.tasks = {task.id: task for task in tasks if task.id not in left_out}
        earlier = [attempt for attempt in run.attempts() if attempt.verdict is not None]
        self.done = {(attempt.task.id, attempt.sample) for attempt in earlier if attempt.task.id in self.tasks}
        self.accepted = sum(attempt.verdict.accepted for attempt in earlier if attempt.verdict is not None)
        self._shelf = Shelf(run.path)
        self._jobs: dict[int, Answer] = {}
        self._broke: AutoTritonError | None = None

    def go(self) -> None:
        save_suite(self.run, self.suite)
        samples = self.options.samples
        self._say(Begun(len(self.tasks) * samples, len(self.done), self.accepted))
        kept = self._kept()
        tasks = list(self.tasks.values())
        if self.options.tier in (Tier.RUN, Tier.TIME):
            # Large tasks follow each other in a suite, and only few of those fit into a GPU's memory at once.
            tasks.sort(key=lambda task: task.hash)
        asked_for = tasks if self.options.stage in (Stage.ALL, Stage.ANSWER) else []
        missing = only_missing(asked_for, self.done | {(one.task.id, one.sample) for one in kept}, samples)
        self._say(Came(len(kept)))
        order = {task.id: place for place, task in enumerate(tasks)}
        # A task's answers one after another: what they are compared with is held for a few tasks at a time.
        kept.sort(key=lambda one: order[one.task.id])
        self._draw_and_judge(kept, missing, order)
        if self._broke is not None:
            raise self._broke

    def _draw_and_judge(
        self, kept: Sequence[Answer], missing: Mapping[str, frozenset[int]], order: Mapping[str, int]
    ) -> None:
        turns, stage = self.options.turns, self.options.stage
        after = stage is Stage.ANSWER or (
            stage is Stage.ALL and on_this_gpu(self.proposer) and self.options.tier in (Tier.RUN, Tier.TIME)
        )
        with contextlib.ExitStack() as stack:
            stack.callback(self._shelf.close)
            turn = stack.enter_context(contextlib.ExitStack())
            turn.enter_context(turns.answering() if after else turns.judging())
            proposing = self._proposing(missing)
            stack.callback(proposing.close)
            if stage is Stage.ANSWER:
                self._only_answers(proposing)
                return
            if after:
                proposing.wait()  # nothing else runs on a GPU that measures, and tasks need its memory
                self._free_gpu()
                turn.close()
                turn.enter_context(turns.judging())
            came = sorted(proposing, key=lambda item: order[item.task.id]) if after else proposing
            for examined in self.examiner.examine(self._judgeable(kept, came)):
                self._take(examined)

    def _only_answers(self, proposing: Proposing) -> None:
        """They are on disk as they come; a proposer that failed is told of, and asked again by the next call."""
        for item in proposing:
            if isinstance(item, Missing):
                self._say(Dropped(item.task.id, item.count, "the proposer has no more"))
            elif item.error is not None:
                self._record(item, None, None, item.error)

    def _proposing(self, missing: Mapping[str, frozenset[int]]) -> Proposing:
        samples = self.options.samples
        return Proposing(
            self.proposer,
            {id: (self.tasks[id], numbers) for id, numbers in missing.items()},
            self._shelf,
            samples=samples,
            threads=self.options.proposal_workers or threads_for(self.proposer, samples),
            came=lambda count: self._say(Came(count)),
        )

    def _kept(self) -> list[Answer]:
        """Answers an earlier run got and did not judge; of two for the same sample the first counts."""
        found: dict[tuple[str, int], Answer] = {}
        for one in self._shelf.known(self.tasks):
            key = (one.task.id, one.sample)
            if key not in self.done and one.sample < self.options.samples:
                found.setdefault(key, one)
        return list(found.values())

    def _free_gpu(self) -> None:
        close = getattr(self.proposer, "close", None)
        if close is not None:
            close()

    def _judgeable(self, kept: Sequence[Answer], came: Iterable[Item]) -> Iterator[Job]:
        """Jobs for the examiner, which may draw them in any of its threads; what needs no judge is recorded here."""
        try:
            for item in chain(kept, came):
                if self._broke is not None:
                    return
                if isinstance(item, Missing):
                    self._say(Dropped(item.task.id, item.count, "the proposer has no more"))
                elif (job := self._job(item)) is not None:
                    yield job
        except AutoTritonError as error:  # a full disk, met outside the thread that waits for verdicts
            self._broke = error

    def _job(self, answer: Answer) -> Job | None:
        if answer.task.id in self.suite.excluded or answer.task.id in self.suite.skipped:
            self._say(Dropped(answer.task.id, 1, "the task cannot be judged"))
            return None
        if answer.error is not None:
            self._record(answer, None, None, answer.error)
            return None
        if answer.refusal is not None:
            self._record(answer, self._refused(answer.refusal), Official(called=False, executed=False))
            return None
        with self._mutex:
            number = len(self._jobs)
            self._jobs[number] = answer
        return Job(number, answer.task, answer.candidate)

    def _refused(self, why: str) -> Verdict:
        return Verdict(
            outcome=Outcome.NO_CODE,
            message=why,
            policy=self.options.policy,
            tier=Tier.RULES,
            judge_version=JUDGE_VERSION,
        )

    def _take(self, examined: Examined) -> None:
        answer = self._jobs[examined.job.number]
        if self.options.stage is Stage.SCREEN:
            screened = screening.screened(examined)
            if screened is None:
                self._say(Dropped(answer.task.id, 1, "not decided without a GPU"))
                return
            examined = screened
        if examined.verdict is None:
            self._look_at_the_task(answer.task, examined.error or "")
        self._record(answer, examined.verdict, examined.official, examined.error)

    def _look_at_the_task(self, task: Task, error: str) -> None:
        """A task that no answer can be judged on is left out, with the reason; the others go on."""
        line = " ".join(error.split())
        with self._mutex:
            if _RANDOM in error:
                excluded = {**self.suite.excluded, task.id: line}
                self.suite = self.suite.model_copy(update={"excluded": excluded})
            elif any(words in error for words in _MEMORY):
                skipped = {**self.suite.skipped, task.id: line}
                self.suite = self.suite.model_copy(update={"skipped": skipped})
            else:
                return
            save_suite(self.run, self.suite)

    def _record(
        self, answer: Answer, verdict: Verdict | None, official: Official | None, error: str | None = None
    ) -> None:
        attempt = Attempt(
            run_id=self.run.id,
            task=answer.task,
            candidate=answer.candidate,
            verdict=verdict,
            error=error if verdict is None else None,
            sample=answer.sample,
            official=official,
        )
        self.run.append(attempt)
        self._say(Finished(attempt))

    def _say(self, event: Event) -> None:
        with self._mutex:
            self._tell(event)
