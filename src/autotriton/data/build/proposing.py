"""Candidates for every teaching task, by every route that is asked about it. One line per task and route.

Must stay true: a task that hangs costs its deadline, a server that fails costs its answers, and neither ends the stage.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autotriton.data import wrappers
from autotriton.data.build import routes
from autotriton.data.build.asking import distil, reject_sample
from autotriton.data.build.folder import Folder
from autotriton.data.build.progress import Progress, Watcher
from autotriton.data.build.records import Proposal, Selected
from autotriton.data.quality.split import TEACH
from autotriton.data.records import SourceKind
from autotriton.errors import ProposerError
from autotriton.propose.base import Proposer
from autotriton.propose.compiler import CompilerProposer
from autotriton.propose.compiler.serving import TemplatesServer
from autotriton.types import Candidate


@dataclass(frozen=True)
class Job:
    chosen: Selected
    route: str


def propose(
    folder: Folder, *, workers: int = 1, shard: tuple[int, int] = (0, 1), watch: Watcher = lambda _: None
) -> Progress:
    """What the folder does not have yet. `shard` is (which, of how many) machines."""
    done = {proposal.key for proposal in folder.proposals}
    jobs = [job for job in _jobs(folder, shard) if f"{job.chosen.key}:{job.route}" not in done]
    progress = Progress("propose", total=len(jobs), before=len(done))
    record = _recorder(folder, progress, watch)
    for job in jobs:
        if job.route == routes.WRAPPERS:
            record(_own_answer(job))
    compiler = [job for job in jobs if job.route in (routes.TEMPLATES, routes.INDUCTOR)]
    if compiler:
        _compile(compiler, folder, workers, record)
    part = folder.config.propose
    asked = [job.chosen for job in jobs if job.route == routes.distilled(part.distil) and part.distil.share]
    if asked:
        failed = distil(asked, folder.config, record, workers)
        if failed:
            progress.notes.append(f"the endpoint failed on {len(failed)} tasks, to be asked again: {failed[0]}")
    sampled = [job.chosen for job in jobs if job.route == routes.own(part.own) and part.own.share]
    if sampled:
        reject_sample(sampled, folder.config, record)
    progress.ended = time.monotonic()
    return progress


def _jobs(folder: Folder, shard: tuple[int, int]) -> Iterator[Job]:
    which, shards = shard
    for chosen in folder.selected:
        if chosen.side == TEACH and routes.shard_of(chosen.task.task, shards) == which:
            for route in routes.routes(chosen, folder.config):
                yield Job(chosen, route)


def _recorder(folder: Folder, progress: Progress, watch: Watcher) -> Callable[[Proposal], None]:
    mutex = threading.Lock()

    def record(proposal: Proposal) -> None:
        folder.proposals.append(proposal)
        with mutex:
            progress.done += 1
            progress.counts[proposal.failure or proposal.route] += 1
            watch(progress)

    return record


def _own_answer(job: Job) -> Proposal:
    """A wrapper's own, made again from where it came."""
    made = wrappers.again(job.chosen.task.origin)
    candidate = Candidate(
        task_id=job.chosen.task.task.id, code=made.code, completion=made.completion, proposer=job.route
    )
    return Proposal(task_hash=job.chosen.key, route=job.route, candidates=(candidate,))


def _compile(jobs: list[Job], folder: Folder, workers: int, record: Callable[[Proposal], None]) -> None:
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    failures: list[BaseException] = []

    def work() -> None:
        templates = TemplatesServer(folder.config.propose.deadline_s, folder.config.propose.way)
        inductor = CompilerProposer(folder.config.propose.deadline_s, ("inductor",), on_gpu=False)
        try:
            while not failures:
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                record(_proposed(job, templates if job.route == routes.TEMPLATES else inductor))
                if job.chosen.task.kind is SourceKind.HARVEST:
                    templates.renew()  # foreign code may leave torch changed behind it
        except BaseException as error:  # noqa: BLE001 - kept and raised in the caller's thread
            failures.append(error)
        finally:
            templates.close()

    threads = [threading.Thread(target=work, name=f"propose-{number}") for number in range(max(1, workers))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        failures.append(error)  # the workers stop after the task they have
        for thread in threads:
            thread.join()
        raise
    if failures:
        raise failures[0]


def _proposed(job: Job, proposer: Proposer) -> Proposal:
    """The first candidate: a compiler's others are the same program with other tiles."""
    started = time.monotonic()
    candidates: tuple[Candidate, ...] = ()
    failure = detail = ""
    try:
        candidates = tuple(_first(proposer, job.chosen))
        failure = "" if candidates else f"{job.route}: nothing proposed"
    except ProposerError as error:
        detail = str(error.args[0])
        failure = f"{job.route}: {_class_of(detail)}"
    return Proposal(
        task_hash=job.chosen.key,
        route=job.route,
        candidates=candidates,
        failure=failure,
        detail=detail[:400],
        seconds=round(time.monotonic() - started, 3),
    )


def _first(proposer: Proposer, chosen: Selected) -> Iterator[Candidate]:
    for candidate in proposer.propose(chosen.task.task, ()):
        yield candidate
        return


def _class_of(detail: str) -> str:
    """Short enough to count by."""
    if "not supported" in detail:
        return "not supported"
    if "was stopped after" in detail:
        return "deadline"
    return "crashed" if "and no answer" in detail else "could not be captured"
