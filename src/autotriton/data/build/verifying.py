"""Every form of every candidate before the judge; what it accepts becomes a row. One line per answer.

Needs nothing but the folder, so that proposals made on one machine are verified on another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotriton.data.build import judging, routes
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.folder import Folder
from autotriton.data.build.forming import Wish, formed
from autotriton.data.build.progress import Progress, Watcher
from autotriton.data.build.questions import example
from autotriton.data.build.records import Judged, Selected, answer_key
from autotriton.judge import Judge
from autotriton.judge.pool import Judgement, judge_many
from autotriton.propose.prompt import wanted
from autotriton.types import Candidate, Task

UNJUDGED, NO_FORM = "unjudged", "no form"
_AT_ONCE = 1024
"""Candidates whose forms are made before they are judged."""


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
    done = {judged.key for judged in folder.judged}
    proposed = [one for one in _proposed(folder, shard) if not _finished(one, folder.config, done)]
    # Little work first: without a GPU a convolution takes as long as twenty other answers, and may be left to a machine
    # that has one.
    proposed.sort(key=lambda one: one.chosen.task.flops)
    progress = Progress("verify", total=sum(_most_forms(one, folder.config) for one in proposed), before=len(done))
    with Judge(judging.options(folder.config, device)) as judge:
        # A part at a time: forms cost time too, and what is not judged yet is formed again after a kill.
        for start in range(0, len(proposed), _AT_ONCE):
            part = proposed[start : start + _AT_ONCE]
            answers = [one for one in _answers(part, folder.config, workers) if one.key not in done]
            progress.total = (progress.total or 0) - sum(_most_forms(one, folder.config) for one in part) + len(answers)
            for failed in [one for one in answers if isinstance(one, Judged)]:
                _record(folder, failed, progress, watch)
            waiting = [one for one in answers if isinstance(one, Answer)]
            jobs: list[tuple[Task, str]] = [(answer.chosen.task.task, answer.code) for answer in waiting]
            for judgement in judge_many(jobs, workers=workers, judge=judge):
                _record(folder, _judged(waiting[judgement.index], judgement, folder.config), progress, watch)
    progress.ended = time.monotonic()
    return progress


def _proposed(folder: Folder, shard: tuple[int, int]) -> Iterator[Proposed]:
    """Every candidate of this machine's share of the tasks."""
    which, shards = shard
    tasks = {chosen.key: chosen for chosen in folder.selected}
    for proposal in folder.proposals:
        chosen = tasks.get(proposal.task_hash)
        if chosen is not None and routes.shard_of(chosen.task.task, shards) == which:
            for candidate in proposal.candidates:
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
        if one.candidate.completion is not None:  # a language model's own words
            yield Answer(one.chosen, one.route, one.candidate.id, 0, one.candidate.code, one.candidate.completion)
    wishes = [
        Wish(one.candidate, _most_forms(one, config), str(config.seed), _function(one.chosen.task.task))
        for one in compiled
    ]
    for one, made in zip(compiled, formed(wishes, workers or os.cpu_count() or 1), strict=True):
        if isinstance(made, str):
            yield _formless(one.chosen, one.route, one.candidate, made)
            continue
        for number, form in enumerate(made):
            yield Answer(one.chosen, one.route, one.candidate.id, number, form.code, form.completion)


def _function(task: Task) -> str | None:
    want = wanted(task)
    return want.name if want.is_function else None


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
