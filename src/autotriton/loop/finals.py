"""The second half of the loop, on a GPU: the most promising verified candidates are tuned, judged again and timed.

Must stay true: tuned code is new code. It gets a verdict of its own, and an untuned one never stands for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autotriton.errors import AutoTritonError
from autotriton.loop.budget import Allowance
from autotriton.loop.progress import Doing
from autotriton.loop.search import TUNED, Search
from autotriton.types import Attempt, Candidate, Tier

if TYPE_CHECKING:
    from autotriton.loop.court import Court
    from autotriton.loop.loop import OptimizeOptions

_LEAST_TUNING_S = 2.0
"""With less than this left, tuning is not begun."""


def finals(search: Search, court: Court, options: OptimizeOptions, allowance: Allowance) -> None:
    """Tunes and times the finalists, the first one whatever the time."""
    chosen = _finalists(search, court, options.finalists)
    tuning_s = options.tune_s
    for place, (number, candidate) in enumerate(chosen):
        if place and allowance.seconds_left() <= 0:
            break
        share_s = min(tuning_s, allowance.seconds_left()) / (len(chosen) - place)
        tuned = _tune(search, court, options, candidate, number, share_s)
        attempt = _time(search, court, tuned, number)
        if tuned is not candidate and not _accepted(attempt):
            _time(search, court, candidate, number)
        tuning_s -= share_s


def _finalists(search: Search, court: Court, most: int) -> list[tuple[int, Candidate]]:
    """Accepted candidates with their numbers; where there are too many, the fastest by a rough timing."""
    timed = {a.candidate.parent_id for a in search.attempts if a.candidate.proposer.endswith(TUNED) and _timed(a)}
    timed |= {a.candidate.id for a in search.attempts if _timed(a)}
    numbered: dict[str, tuple[int, Candidate]] = {}
    for attempt in search.attempts:
        if attempt.candidate.id not in numbered and not attempt.candidate.proposer.endswith(TUNED):
            numbered[attempt.candidate.id] = (len(numbered) + 1, attempt.candidate)
    waiting = [pair for id, pair in numbered.items() if id not in timed and _correct(search, id)]
    room = most - len(timed & set(numbered))
    if len(waiting) <= room:
        return waiting
    rough = [(_rough_ms(search, court, number, candidate), number, candidate) for number, candidate in waiting]
    return [(number, candidate) for _, number, candidate in sorted(rough, key=lambda r: r[:2])[: max(room, 0)]]


def _rough_ms(search: Search, court: Court, number: int, candidate: Candidate) -> float:
    """Infinite where it cannot be timed: it may still be timed properly when nothing else is left."""
    search.tell(Doing(candidate.proposer, number, "comparing"))
    try:
        verdict = court.roughly(search.task, candidate.code, lambda _: None)
    except AutoTritonError:
        return math.inf
    return verdict.timing.median_ms if verdict.accepted and verdict.timing is not None else math.inf


def _tune(
    search: Search, court: Court, options: OptimizeOptions, candidate: Candidate, number: int, seconds: float
) -> Candidate:
    """The candidate with constants chosen for this GPU; itself where there is nothing to choose or tuning failed."""
    if not candidate.choices or seconds < _LEAST_TUNING_S:
        return candidate

    def progress(text: str) -> None:
        search.tell(Doing(candidate.proposer, number, "tuning", text))

    from autotriton.tune import tune

    court.rest(search.task)
    progress("")
    try:
        tuned = tune(search.task, candidate, budget_s=seconds, retune=options.retune, progress=progress)
    except Exception as error:  # noqa: BLE001 - an untuned kernel is better than none, whatever went wrong on the device
        search.fail("tuner", error)
        return candidate
    if tuned.code == candidate.code:
        return candidate
    return tuned.model_copy(update={"parent_id": candidate.id, "proposer": candidate.proposer + TUNED})


def _time(search: Search, court: Court, candidate: Candidate, number: int) -> Attempt | None:
    """The full verdict, unless it is there. What fails here costs the timing only: a verified candidate stays one."""
    if (known := search.verdicts.get(candidate.id)) is not None and (known.tier is Tier.TIME or not known.accepted):
        return next(a for a in reversed(search.attempts) if a.candidate.id == candidate.id and a.verdict is known)
    try:
        return search.judge(candidate, court.timed, "timing", number)
    except AutoTritonError as error:
        search.fail(candidate.proposer, error)
        return None


def _timed(attempt: Attempt) -> bool:
    return attempt.verdict is not None and attempt.verdict.timing is not None


def _accepted(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.verdict is not None and attempt.verdict.accepted


def _correct(search: Search, candidate_id: str) -> bool:
    verdict = search.verdicts.get(candidate_id)
    return verdict is not None and verdict.accepted
