"""Every form of every candidate before the judge; what it accepts becomes a row. One line per answer.

Needs nothing but the folder, so that proposals made on one machine are verified on another.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotriton.data.build import judging, routes
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.folder import Folder
from autotriton.data.build.forming import Wish, formed
from autotriton.data.build.progress import Progress, Watcher
from autotriton.data.build.questions import example
from autotriton.data.build.records import Judged, Selected, answer_key
from autotriton.data.quality.sizes import sizes_are_fixed
from autotriton.data.quality.split import unit
from autotriton.judge import Judge
from autotriton.judge.pool import Judgement, judge_many
from autotriton.propose.compiler.templates.options import PLAIN
from autotriton.propose.prompt import wanted
from autotriton.types import Candidate, Task

UNJUDGED, NO_FORM = "unjudged", "no form"
_KEPT_NAMES = 0.5
_AT_ONCE, _FEW = 1024, 64
"""Candidates whose forms are made before they are judged: at most, and at least."""


@dataclass(frozen=True)
class Proposed:
    """A candidate with its task and who proposed it."""

    chosen: Selected
    route: str
    candidate: Candidate


@dataclass(frozen=True)
class Answer:
    """One program as it is taught."""

    chosen: Selected
    route: str
    candidate: str
    form: int
    code: str
    completion: str

    @property
    def key(self) -> str:
        return answer_key(self.chosen.key, self.route, self.candidate, self.form)

    @property
    def name(self) -> str:
        """The row's id: task, author and form."""
        author = self.route.partition(":")[0]
        return f"{self.chosen.task.task.id}/{author}-{self.candidate[:6]}-{self.form}"


def verify(
    folder: Folder,
    *,
    workers: int | None = None,
    shard: tuple[int, int] = (0, 1),
    device: str = "auto",
    watch: Watcher = lambda _: None,
) -> Progress:
    """`device="auto"`: on a GPU machine the GPU and Triton's interpreter at once, `workers` for each."""
    done = {judged.key for judged in folder.judged}
    proposed = [one for one in _proposed(folder, shard) if not _finished(one, folder.config, done)]
    progress = Progress("verify", total=sum(_most_forms(one, folder.config) for one in proposed), before=len(done))
    with Judge(judging.options(folder.config, device)) as judge:
        devices = _devices(judge, device)
        with _Sides(folder.config, proposed, done, workers, by_work=len(devices) > 1) as sides:
            for number, side in enumerate(devices):
                own = Judge(judging.options(folder.config, side), processes=judge.processes)
                sides.start(own, heaviest_first=number > 0)
            for told in sides.told():
                if isinstance(told, int):
                    progress.total = (progress.total or 0) + told
                else:
                    _record(folder, told, progress, watch)
    progress.ended = time.monotonic()
    return progress


def _devices(judge: Judge, device: str) -> list[str]:
    """What judges side by side. The interpreter first: it begins with the least work."""
    chosen = judge.processes.device(device)
    return ["cpu", "cuda"] if device == "auto" and chosen == "cuda" else [chosen]


class _Sides:
    """Judges that work off one list of candidates; two of them from the least work and from the most until they meet.

    In the interpreter a convolution takes as long as twenty other answers; on a GPU it does not, but there every
    candidate waits for a CUDA context. So each gets what it is best at. One judge alone goes by no order of work: a
    build that the clock stops must not hold little work only. A part at a time: forms cost time too, and what is not
    judged yet is formed again after a kill.
    """

    def __init__(
        self, config: BuildConfig, proposed: list[Proposed], done: set[str], workers: int | None, *, by_work: bool
    ) -> None:
        self._config, self._done, self._workers = config, done, workers
        # Keys are hashes: no order of anything.
        self._left = deque(sorted(proposed, key=lambda one: one.chosen.task.flops if by_work else one.chosen.key))
        self._taking = threading.Lock()
        self._stop = threading.Event()
        self._told: queue.SimpleQueue[Judged | int | BaseException | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> _Sides:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def start(self, judge: Judge, *, heaviest_first: bool) -> None:
        thread = threading.Thread(target=self._work, args=(judge, heaviest_first), name="verify")
        self._threads.append(thread)
        thread.start()

    def told(self) -> Iterator[Judged | int]:
        """Every answer's result, and by how much the number of answers differs from what was expected."""
        working = len(self._threads)
        while working:
            told = self._told.get()
            if isinstance(told, BaseException):
                raise told
            if told is None:
                working -= 1
            else:
                yield told

    def _work(self, judge: Judge, heaviest_first: bool) -> None:
        try:
            while part := self._part(heaviest_first):
                for told in self._judged(judge, part):
                    if self._stop.is_set():
                        return
                    self._told.put(told)
            self._told.put(None)
        except BaseException as error:  # noqa: BLE001 - raised where the results are read
            self._told.put(error)

    def _part(self, heaviest_first: bool) -> list[Proposed]:
        with self._taking:
            # Smaller parts towards the end, so that nobody is left alone with a large one.
            count = min(len(self._left), max(_FEW, min(_AT_ONCE, len(self._left) // 4)))
            take = self._left.pop if heaviest_first else self._left.popleft
            return [take() for _ in range(count)]

    def _judged(self, judge: Judge, part: list[Proposed]) -> Iterator[Judged | int]:
        answers = [one for one in _answers(part, self._config, self._workers) if one.key not in self._done]
        yield len(answers) - sum(_most_forms(one, self._config) for one in part)
        yield from (one for one in answers if isinstance(one, Judged))
        waiting = [one for one in answers if isinstance(one, Answer)]
        jobs: list[tuple[Task, str]] = [(answer.chosen.task.task, answer.code) for answer in waiting]
        for judgement in judge_many(jobs, workers=self._workers, judge=judge):
            yield _judged(waiting[judgement.index], judgement, self._config)


def _proposed(folder: Folder, shard: tuple[int, int]) -> Iterator[Proposed]:
    """Every candidate of this machine's share of the tasks."""
    which, shards = shard
    plain = folder.config.propose.way == PLAIN.name
    tasks = {chosen.key: chosen for chosen in folder.selected}
    for proposal in folder.proposals:
        chosen = tasks.get(proposal.task_hash)
        if chosen is not None and routes.shard_of(chosen.task.task, shards) == which:
            for candidate in proposal.candidates:
                if not (plain and sizes_are_fixed(candidate.code)):  # not worth a judge's time: never taught
                    yield Proposed(chosen, proposal.route, candidate)


def _most_forms(one: Proposed, config: BuildConfig) -> int:
    return config.propose.forms if one.route == routes.TEMPLATES and one.candidate.completion is None else 1


def _finished(one: Proposed, config: BuildConfig, done: set[str]) -> bool:
    forms = range(_most_forms(one, config))
    return all(answer_key(one.chosen.key, one.route, one.candidate.id, form) in done for form in forms)


def _answers(part: Sequence[Proposed], config: BuildConfig, workers: int | None) -> Iterator[Answer | Judged]:
    """Every form of these candidates; of one nothing true can be said about, why."""
    compiled = [one for one in part if one.candidate.completion is None]
    for one in part:
        if one.candidate.completion is not None:  # with words of its own
            yield Answer(one.chosen, one.route, one.candidate.id, 0, one.candidate.code, one.candidate.completion)
    wishes = [
        Wish(one.candidate, _most_forms(one, config), str(config.seed), asked_name(one.chosen.task.task))
        for one in compiled
    ]
    for one, made in zip(compiled, formed(wishes, workers or os.cpu_count() or 1), strict=True):
        if isinstance(made, str):
            yield _formless(one.chosen, one.route, one.candidate, made)
            continue
        for number, form in enumerate(made):
            yield Answer(one.chosen, one.route, one.candidate.id, number, form.code, form.completion)


def asked_name(task: Task) -> str | None:
    """Half of the functions keep their name, as benchmarks that describe a wrapper want it; half get a new one."""
    want = wanted(task)
    if not want.is_function:
        return None
    return task.entry if unit(f"name:{task.hash}") < _KEPT_NAMES else want.name


def _formless(chosen: Selected, route: str, candidate: Candidate, why: str) -> Judged:
    return Judged(
        task_hash=chosen.key,
        route=route,
        candidate=candidate.id,
        form=0,
        outcome=NO_FORM,
        message=why,
    )


def _judged(answer: Answer, judgement: Judgement, config: BuildConfig) -> Judged:
    verdict = judgement.verdict
    about = {
        "task_hash": answer.chosen.key,
        "route": answer.route,
        "candidate": answer.candidate,
        "form": answer.form,
    }
    if verdict is None:
        return Judged.model_validate({**about, "outcome": UNJUDGED, "message": (judgement.error or "")[:400]})
    row = None
    if verdict.accepted and not verdict.torch_ops:
        row = example(
            answer.chosen.task,
            config,
            name=answer.name,
            route=answer.route,
            code=answer.code,
            completion=answer.completion,
            verdict=verdict,
        )
    message = "" if row is not None else verdict.message[:400]
    return Judged.model_validate({**about, "outcome": verdict.outcome.value, "message": message, "example": row})


def _record(folder: Folder, judged: Judged, progress: Progress, watch: Watcher) -> None:
    folder.judged.append(judged)
    progress.done += 1
    progress.counts[judged.outcome] += 1
    watch(progress)
