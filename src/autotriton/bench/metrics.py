"""Counting: from a run's attempts to its score. Pure functions; docs/report.md says what each number means.

Must stay true: every task of the suite is in the denominator unless it is excluded by name or the judge broke on it; a
number that was not measured is None or absent, never zero.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from autotriton.bench import tally as tallying
from autotriton.bench.intervals import bootstrap_mean, pass_at_k, wilson
from autotriton.bench.records import BenchRun
from autotriton.bench.score import Caught, Fast, Mean, Score, Share, Unscored
from autotriton.bench.tally import Row, accepted, called, executed, faster, ran, tally
from autotriton.judge.cheats import Cheat, kind_of
from autotriton.types import Attempt, Tier, Verdict

Claim = Callable[[Attempt], bool | None]
THRESHOLDS = (1.0, 1.2, 1.5, 2.0)
BASELINES = ("eager", "compile")
_USUAL_KS = (1, 2, 5, 10, 20, 50, 100)


def score(run: BenchRun) -> Score:
    """The run, counted in every way."""
    rows = tally(run)
    proved = [row for row in rows if not row.excluded]
    found = list(tallying.attempts(rows))
    verdicts = [attempt.verdict for attempt in found if attempt.verdict is not None]
    protocol = any(attempt.official is not None for attempt in found)
    info, suite = run.info, run.suite
    return Score(
        run_id=info.id,
        verb=info.verb,
        started=info.started,
        commit=info.commit,
        proposer=_proposer(run),
        policy=_policy(run, verdicts),
        tier=_tier(run, verdicts),
        suite=suite.name,
        suite_version=suite.version,
        judge_version=info.judge_version or next((v.judge_version for v in verdicts if v.judge_version), ""),
        machine=info.machine,
        versions=info.versions,
        tasks=len(rows),
        samples=tallying.samples(run),
        missing=sum(row.samples - len(row.attempts) for row in rows if row.task.id not in suite.skipped),
        answered=sum(bool(row.attempts) for row in rows),
        candidates=len(verdicts),
        unscored=tuple(_unscored(found)),
        excluded=run.excluded,
        skipped=suite.skipped,
        unanswered=tuple(row.task.id for row in rows if not row.attempts and row.task.id not in suite.skipped),
        called=rate(rows, called if protocol else ran),
        executed=rate(rows, executed) if protocol else None,
        checked=rate(proved, accepted),
        unproved=rate(proved, _unproved) if protocol else None,
        pass_at=_pass_at(proved, accepted),
        official_pass_at=_pass_at(rows, executed) if protocol else {},
        fast=tuple(fast_table(proved)),
        geometric_mean={name: mean for name in baselines(proved) if (mean := geometric_mean(proved, name)) is not None},
        outcomes=dict(Counter(verdict.outcome.value for verdict in verdicts)),
        cheats=tuple(cheats(verdicts)),
    )


def share(hits: float, of: int) -> Share:
    bounds = wilson(hits, of)
    return Share(hits=hits, of=of, value=hits / of if of else None, low=bounds.low, high=bounds.high)


def rate(rows: Iterable[Row], claim: Claim) -> Share:
    """Mean over tasks of the share of samples the claim holds for; tasks that are wholly unscored are left out."""
    parts = [part for row in rows if (part := row.share(claim)) is not None]
    return share(math.fsum(parts), len(parts))


def pass_at(rows: Iterable[Row], claim: Claim, k: int) -> Share:
    """Unbiased pass@k, averaged over the tasks with at least k scored samples."""
    counts = [row.scored(claim) for row in rows]
    parts = [pass_at_k(of, hits, k) for hits, of in counts if of >= k]
    return share(math.fsum(parts), len(parts))


def fast_table(rows: Sequence[Row]) -> Iterable[Fast]:
    """fast_p for every baseline that was timed and every threshold."""
    for baseline in baselines(rows):
        for p in THRESHOLDS:
            yield Fast(
                baseline=baseline,
                p=p,
                sure=rate(rows, faster(baseline, p, sure=True)),
                median=rate(rows, faster(baseline, p, sure=False)),
            )


def baselines(rows: Iterable[Row]) -> list[str]:
    """Baselines any candidate was timed against, the usual two first."""
    seen = {name for attempt in tallying.attempts(rows) if attempt.verdict for name in attempt.verdict.speedups}
    return [name for name in BASELINES if name in seen] + sorted(seen - {*BASELINES})


def geometric_mean(rows: Iterable[Row], baseline: str) -> Mean | None:
    """Speed-up over all tasks where a failed one is run eagerly; None where the judge broke on all of them."""
    factors = [found for row in rows if (found := _factors(row, baseline))]
    if not factors:
        return None
    logs = [_mean_log(found) for found in factors]
    bounds = bootstrap_mean(logs)
    value = math.exp(math.fsum(logs) / len(logs))
    assumed = sum(None in found for found in factors)
    return Mean(value=value, low=math.exp(bounds.low), high=math.exp(bounds.high), tasks=len(logs), assumed=assumed)


def log_speedup(row: Row, baseline: str) -> float | None:
    """Mean log factor of one task, as `geometric_mean` takes it; None where the judge broke on every sample."""
    factors = _factors(row, baseline)
    return _mean_log(factors) if factors else None


def cheats(verdicts: Sequence[Verdict]) -> Iterable[Caught]:
    """Candidates rejected for each kind of cheating, those kinds that occurred."""
    counts = Counter(kind for verdict in verdicts if (kind := kind_of(verdict)) is not None)
    for kind in Cheat:
        if counts[kind]:
            yield Caught(kind=kind, share=share(counts[kind], len(verdicts)))


def _factors(row: Row, baseline: str) -> list[float | None]:
    """How much faster the task runs with each scored sample, missing ones included; None where that is not known."""
    known = [_factor(attempt.verdict, row, baseline) for attempt in row.attempts if attempt.verdict is not None]
    missing = row.scored(accepted)[1] - len(known)
    return known + [_eager_instead(row, baseline)] * missing


def _mean_log(factors: Sequence[float | None]) -> float:
    return math.fsum(math.log(factor) for factor in factors if factor is not None) / len(factors)


def _factor(verdict: Verdict, row: Row, baseline: str) -> float | None:
    if not verdict.accepted:
        return _eager_instead(row, baseline)
    speedup = verdict.speedups.get(baseline)
    return speedup.ratio if speedup is not None and speedup.ratio > 0 else None


def _eager_instead(row: Row, baseline: str) -> float | None:
    """A task without a kernel runs eagerly: as fast as eager, and as much slower than another baseline as eager is."""
    if baseline == "eager":
        return 1.0
    for attempt in row.attempts:
        times = attempt.verdict.baselines if attempt.verdict is not None else {}
        if baseline in times and "eager" in times and times["eager"].median_ms > 0:
            return times[baseline].median_ms / times["eager"].median_ms or None
    return None


def _pass_at(rows: Sequence[Row], claim: Claim) -> dict[int, Share]:
    asked = max((row.samples for row in rows), default=0)
    ks = sorted({k for k in _USUAL_KS if k <= asked} | ({asked} if asked else set()))
    return {k: pass_at(rows, claim, k) for k in ks}


def _unproved(attempt: Attempt) -> bool | None:
    official, ours = executed(attempt), accepted(attempt)
    return None if official is None or ours is None else official and not ours


def _unscored(found: Iterable[Attempt]) -> Iterable[Unscored]:
    for attempt in found:
        if attempt.verdict is None:
            yield Unscored(task=attempt.task.id, sample=attempt.sample, error=attempt.error or "no reason recorded")


def _proposer(run: BenchRun) -> str:
    asked = run.info.config.get("proposer")
    if isinstance(asked, str):
        return asked
    if isinstance(asked, list | tuple) and asked:
        return ", ".join(map(str, asked))
    names = sorted({attempt.candidate.proposer for attempt in run.attempts})
    return ", ".join(names) or "unknown"


def _policy(run: BenchRun, verdicts: Sequence[Verdict]) -> str:
    used = sorted({verdict.policy.value for verdict in verdicts})
    return ", ".join(used) or str(run.info.config.get("policy", "unknown"))


def _tier(run: BenchRun, verdicts: Sequence[Verdict]) -> str:
    """As asked for; a run that does not say so was taken as far as the furthest of its verdicts."""
    asked = run.info.config.get("tier")
    if isinstance(asked, str):
        return asked
    reached = [tier.value for tier in Tier if any(verdict.tier is tier for verdict in verdicts)]
    return reached[-1] if reached else "unknown"
