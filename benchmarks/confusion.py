"""The confusion matrix: every cheat and every honest kernel before the judge, one command.

    python benchmarks/confusion.py [--folder DIR ...] [--device auto|cpu|cuda] [--only PATTERN] [--json FILE]

Runs `tests/cheats` and any folder in the NAME/{reference.py,candidate.py,meta.json} format. Exits 1 when a cheat is
accepted or an honest kernel rejected.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "cheats"))

import corpus

from autotriton.errors import AutoTritonError
from autotriton.judge import Judgement, JudgeOptions, judge_many
from autotriton.types import Task, Tier


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", action="append", type=Path, default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default="*")
    parser.add_argument("--tier", default=None)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--timeout", type=float, default=30.0)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()

    cases = [*corpus.load(), *(case for folder in args.folder for case in corpus.load_folder(folder))]
    cases = [case for case in cases if fnmatch.fnmatch(case.name, args.only)]
    if args.device == "cpu":
        cases = [case for case in cases if not case.gpu_only]
    tier = Tier(args.tier) if args.tier else None
    options = JudgeOptions(
        device=args.device, timeout_s=args.timeout, allow_degenerate=True, tier=tier, sandbox=args.sandbox
    )
    jobs = [
        (Task(id=case.task_path.stem, source=case.task_path.read_text()), case.code_path.read_text()) for case in cases
    ]
    return report(cases, list(_judged(jobs, options, args.workers, cases)), args.json)


def _judged(jobs, options, workers, cases):
    done: dict[int, Judgement] = {}
    started = time.perf_counter()
    for judgement in judge_many(jobs, options, workers=workers):
        done[judgement.index] = judgement
        case = cases[judgement.index]
        text = judgement.verdict.outcome if judgement.verdict else f"ERROR {judgement.error}"
        right = judgement.verdict is not None and judgement.verdict.accepted == (case.expected == "accept")
        print(f"{'   ' if right else '!!!'} [{len(done)}/{len(jobs)}] {case.name}: {text}", file=sys.stderr, flush=True)
        if not right and judgement.verdict:
            print(f"        {judgement.verdict.message[:400]}", file=sys.stderr, flush=True)
    print(f"{len(jobs)} candidates in {time.perf_counter() - started:.1f} s", file=sys.stderr)
    return [done[index] for index in range(len(jobs))]


def report(cases, judgements, out: Path | None) -> int:
    table: Counter[tuple[str, str]] = Counter()
    wrong, rows = [], []
    for case, judgement in zip(cases, judgements, strict=True):
        verdict = judgement.verdict
        answer = "no verdict" if verdict is None else "accept" if verdict.accepted else "reject"
        table[case.family, answer] += 1
        rows.append(
            {
                "name": case.name,
                "family": case.family,
                "expected": case.expected,
                "answer": answer,
                "outcome": verdict.outcome if verdict else None,
                "message": verdict.message if verdict else judgement.error,
            }
        )
        if answer != case.expected:
            wrong.append(f"{case.name} ({case.family}): expected {case.expected}, got {answer}")
    print(f"{'family':12} {'accepted':>9} {'rejected':>9} {'no verdict':>11}")
    for family in sorted({case.family for case in cases}):
        counts = [table[family, answer] for answer in ("accept", "reject", "no verdict")]
        print(f"{family:12} {counts[0]:9} {counts[1]:9} {counts[2]:11}")
    print("all as expected" if not wrong else "\n".join(wrong))
    if out is not None:
        out.write_text(json.dumps(rows, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AutoTritonError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
