"""The judge judged: references wrapped as candidates must come out correct at about 1.0x, and an A/A interval must
hold 1.0.

    python benchmarks/judge_self.py TASK.py ... [--repeat 40] [--workers 4] [--json FILE]

Needs a GPU. Uses the test-only switch that turns rules and the work test off, since the candidate here is torch itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from autotriton.judge import JudgeOptions, judge_many
from autotriton.types import Task, Tier


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=1, help="time each task this often (A/A)")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--cases", type=int, default=8, help="inputs per task")
    parser.add_argument("--json", type=Path, default=None, help="written after each; what it holds is not timed again")
    args = parser.parse_args()
    options = JudgeOptions(
        tier=Tier.TIME,
        trust_candidate=True,
        baselines=("eager",),
        allow_degenerate=True,
        admit=False,
        repetitions=args.repetitions,
        timing_s=args.seconds,
        timeout_s=240,
        cases=args.cases,
    )
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    done = {row["task"] for row in rows}
    jobs = []
    for path in args.tasks:
        if path.stem in done:
            continue
        source = path.read_text()
        # A comment makes each repetition a job of its own; equal jobs are judged once.
        jobs += [(Task(id=path.stem, source=source), f"{source}\n# {number}\n") for number in range(args.repeat)]
    before, started = len(rows), time.perf_counter()
    for judgement in judge_many(jobs, options, workers=args.workers):
        verdict = judgement.verdict
        speed = verdict.speedups.get("eager") if verdict else None
        row = {
            "task": judgement.task.id,
            "outcome": verdict.outcome if verdict else None,
            "error": judgement.error,
            "message": verdict.message if verdict else None,
            "notes": list(verdict.notes) if verdict else [],
            "ratio": speed.ratio if speed else None,
            "low": speed.low if speed else None,
            "high": speed.high if speed else None,
            "ms": verdict.timing.median_ms if verdict and verdict.timing else None,
            "stages": verdict.stage_seconds if verdict else {},
            "roofline": verdict.roofline_share if verdict else None,
            "errors": [[c.inputs, c.max_error, c.reference_max_error, c.allowed_error] for c in verdict.checks]
            if verdict
            else [],
        }
        rows.append(row)
        measured = f"{speed.ratio:.4f} [{speed.low:.4f}, {speed.high:.4f}] {row['ms']:.4f} ms" if speed else ""
        trouble = row["error"] or ("" if row["outcome"] == "correct" else row["message"])
        print(f"[{len(rows) - before}/{len(jobs)}] {row['task']}: {row['outcome']} {measured} {trouble}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
    timed = [row for row in rows if row["ratio"]]
    correct = sum(row["outcome"] == "correct" for row in rows)
    near = sum(abs(row["ratio"] - 1) <= 0.03 for row in timed)
    holds = sum(row["low"] <= 1.0 <= row["high"] for row in timed)
    print(
        f"{len(rows)} timed in {time.perf_counter() - started:.0f} s: {correct} correct, {near} within 3% of 1.0x, "
        f"interval holds 1.0 in {holds} of {len(timed)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
