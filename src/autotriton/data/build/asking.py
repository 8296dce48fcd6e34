"""Language models as authors: distillation from a server, and rejection sampling from a model of one's own.

Both go through the proposers' interface. Where answers may be refined, the judge's word on each goes back with the next
question; what it refused is counted here already and not proposed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from autotriton.data.build import routes
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.judging import options
from autotriton.data.build.records import Proposal, Selected
from autotriton.errors import AutoTritonError, ProposerError
from autotriton.judge import Judge
from autotriton.propose.base import Proposer
from autotriton.propose.endpoint import EndpointProposer
from autotriton.propose.model import ModelProposer
from autotriton.types import Attempt, Candidate, Verdict

Record = Callable[[Proposal], None]
_SERVER = ": endpoint failed"
_MOST_FAILURES = 20
"""Tasks in a row a server may fail on before it counts as down: the others are left for another day."""


def distil(tasks: Sequence[Selected], config: BuildConfig, record: Record, workers: int) -> list[str]:
    """Returns what kept the server from answering, task by task: those are asked again on resume."""
    part = config.propose.distil
    proposer = EndpointProposer(part.url, part.model, **routes.settings(part, config.seed))
    route = routes.distilled(part)
    failed: list[str] = []
    in_a_row = 0
    with Judge(options(config)) as judge, ThreadPoolExecutor(max(1, workers)) as pool:
        coming = [pool.submit(_answers, proposer, judge, task, route, part.turns) for task in tasks]
        for future in as_completed(coming):
            proposal = future.result()
            if not proposal.failure.endswith(_SERVER):
                in_a_row = 0
                record(proposal)
                continue
            in_a_row += 1
            failed.append(proposal.detail)
            if in_a_row >= _MOST_FAILURES:
                pool.shutdown(wait=True, cancel_futures=True)
                raise ProposerError(
                    f"the endpoint {proposer.url} failed {in_a_row} times in a row: {proposal.detail}",
                    hint="start again when it answers: what it gave so far stays",
                )
    return failed


def reject_sample(tasks: Sequence[Selected], config: BuildConfig, record: Record) -> None:
    """All first answers in one continuous batch; the judge rejects later."""
    part = config.propose.own
    route = routes.own(part)
    proposer = ModelProposer(part.path, **routes.settings(part, config.seed))
    waiting = {task.task.task.id: task for task in tasks}
    found: dict[str, list[Candidate]] = {name: [] for name in waiting}
    try:
        for candidate in proposer.propose_many(task.task.task for task in tasks):
            answers = found[candidate.task_id]
            answers.append(candidate)
            if len(answers) == part.samples:
                record(_of(waiting[candidate.task_id].key, route, answers, 0.0))
    finally:
        proposer.close()


def _answers(proposer: Proposer, judge: Judge, chosen: Selected, route: str, turns: int) -> Proposal:
    started = time.monotonic()
    history: list[Attempt] = []
    task = chosen.task.task
    for _ in range(turns):
        coming, trouble = _coming(proposer, chosen, history)
        for candidate in coming:
            verdict = _verdict(judge, chosen, candidate) if turns > 1 else None
            history.append(Attempt(run_id=route, task=task, candidate=candidate, verdict=verdict))
        if trouble and not history:
            return Proposal(task_hash=chosen.key, route=route, failure=f"{route}{_SERVER}", detail=trouble)
        if trouble or not coming:
            break
    good = [attempt.candidate for attempt in history if attempt.verdict is None or attempt.verdict.accepted]
    made = _of(chosen.key, route, good, time.monotonic() - started)
    if made.failure and any(attempt.candidate.code.strip() for attempt in history):
        last = history[-1].verdict
        return made.model_copy(
            update={"failure": f"{route}: refused by the judge", "detail": last.message[:400] if last else ""}
        )
    return made


def _coming(proposer: Proposer, chosen: Selected, history: Sequence[Attempt]) -> tuple[list[Candidate], str]:
    """The answers that came, and what kept the others."""
    coming: list[Candidate] = []
    try:
        coming.extend(proposer.propose(chosen.task.task, history))
    except ProposerError as error:
        return coming, str(error)[:400]
    return coming, ""


def _verdict(judge: Judge, chosen: Selected, candidate: Candidate) -> Verdict | None:
    try:
        return judge.judge(chosen.task.task, candidate.code)
    except AutoTritonError:  # no verdict, no refinement; verifying says it again with its reason
        return None


def _of(task_hash: str, route: str, candidates: Sequence[Candidate], seconds: float) -> Proposal:
    """Different programs only; an answer without one is nonsense."""
    useful = {candidate.code: candidate for candidate in candidates if candidate.code.strip()}
    failure = "" if useful else f"{route}: no usable answer"
    return Proposal(
        task_hash=task_hash,
        route=route,
        candidates=tuple(useful.values()),
        failure=failure,
        seconds=round(seconds, 3),
    )
