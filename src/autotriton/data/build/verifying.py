"""Every form of every candidate before the judge; what it accepts becomes a row. One line per answer.

Needs nothing but the folder, so that proposals made on one machine are verified on another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from autotriton.data.build import judging, routes
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.folder import Folder
from autotriton.data.build.forming import Wish, formed
from autotriton.data.build.progress import Progress, Watcher
from autotriton.data.build.questions import example
from autotriton.data.build.records import Judged, Selected, answer_key
from autotriton.judge.pool import Judgement, judge_many
from autotriton.types import Candidate, Task

UNJUDGED, NO_FORM = "unjudged", "no form"


@dataclass(frozen=True)
class Answer:
    """One program as it is taught."""

    chosen: Selected
    route: str
    candidate: str
    form: int
    code: str
    completion: str
    formulas: tuple[str, ...] = ()

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
    progress = Progress("verify", before=len(done))
    waiting: list[Answer] = []
    for answer in _answers(folder, shard, workers or os.cpu_count() or 1):
        if isinstance(answer, Judged):
            if answer.key not in done:
                _record(folder, answer, progress, watch)
        elif answer.key not in done:
            waiting.append(answer)
    progress.total = len(waiting) + progress.done
    jobs: list[tuple[Task, str]] = [(answer.chosen.task.task, answer.code) for answer in waiting]
    if jobs:
        for judgement in judge_many(jobs, judging.options(folder.config, device), workers=workers):
            _record(folder, _judged(waiting[judgement.index], judgement, folder.config), progress, watch)
    progress.ended = time.monotonic()
    return progress


def _answers(folder: Folder, shard: tuple[int, int], workers: int) -> Iterator[Answer | Judged]:
    """Every form of what the routes proposed; of a candidate nothing true can be said about, why."""
    which, shards = shard
    tasks = {chosen.key: chosen for chosen in folder.selected}
    compiled: list[tuple[Selected, str, Candidate]] = []
    for proposal in folder.proposals:
        chosen = tasks.get(proposal.task_hash)
        if chosen is None or routes.shard_of(chosen.task.task, shards) != which:
            continue
        for candidate in proposal.candidates:
            if candidate.completion is not None:  # a language model's own words
                yield Answer(chosen, proposal.route, candidate.id, 0, candidate.code, candidate.completion)
            else:
                compiled.append((chosen, proposal.route, candidate))
    seed, most = str(folder.config.seed), folder.config.propose.forms
    wishes = [Wish(candidate, most if route == routes.TEMPLATES else 1, seed) for _, route, candidate in compiled]
    for (chosen, route, candidate), made in zip(compiled, formed(wishes, workers), strict=True):
        if isinstance(made, str):
            yield _formless(chosen, route, candidate, made)
            continue
        for number, form in enumerate(made):
            yield Answer(chosen, route, candidate.id, number, form.code, form.completion, form.formulas)


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
            formulas=answer.formulas,
            verdict=verdict,
        )
    message = "" if row is not None else verdict.message[:400]
    return Judged.model_validate({**about, "outcome": verdict.outcome.value, "message": message, "example": row})


def _record(folder: Folder, judged: Judged, progress: Progress, watch: Watcher) -> None:
    folder.judged.append(judged)
    progress.done += 1
    progress.counts[judged.outcome] += 1
    watch(progress)
