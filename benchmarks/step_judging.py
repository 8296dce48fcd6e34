"""Verdicts per second on what a step of reinforcement learning asks: groups of answers, half of them right.

    python benchmarks/step_judging.py [--tasks 16] [--group 16] [--tier compile] [--workers N] [--json FILE]

Right answers are verified ones of `data/`, each with a comment of its own, so that none is taken for another; wrong
ones have a line broken in one of four ways (an unknown function, another operator, a line missing, the end missing),
drawn with a fixed seed. Judged as `train grpo` judges, by the same options.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from autotriton.data.build import tables
from autotriton.data.rows import Example
from autotriton.judge import Judge, judge_many
from autotriton.train.config import JudgePart
from autotriton.train.grading import judge_options
from autotriton.types import Policy, Task, Tier

_ROOT = Path(__file__).resolve().parent.parent
_SETS = ("heavy", "plain", "networks", "wrappers")
_SEED = 5


def answers(tasks: int, group: int) -> list[tuple[Task, str]]:
    """`group` answers to each of `tasks` tasks, from all sets alike."""
    generator = random.Random(_SEED)
    jobs = []
    for name in _SETS:
        rows = tables.read(_ROOT / "data" / name, "sft", Example)
        for row in generator.sample(rows, -(-tasks // len(_SETS))):
            for number in range(group):
                code = row.code if number % 2 == 0 else broken(row.code, number // 2, generator)
                jobs.append((row.task(), f"{code}\n# answer {number}\n"))
    return jobs[: tasks * group]


def broken(code: str, number: int, generator: random.Random) -> str:
    """The program with one thing wrong."""
    lines = code.split("\n")
    place = generator.choice([i for i, line in enumerate(lines) if "tl." in line and "=" in line] or [len(lines) // 2])
    ways: tuple[Callable[[], list[str]], ...] = (
        lambda: [*lines[:place], lines[place].replace("tl.", "tl.un", 1), *lines[place + 1 :]],
        lambda: [*lines[:place], re.sub(r"[+*]", "-", lines[place], count=1), *lines[place + 1 :]],
        lambda: lines[:place] + lines[place + 1 :],
        lambda: lines[: len(lines) * 2 // 3],
    )
    return "\n".join(ways[number % len(ways)]())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--tier", default="compile", choices=["interpret", "compile"])
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    jobs = answers(args.tasks, args.group)
    part = JudgePart(policy=Policy.STRICT, tier=Tier(args.tier), device="cpu", timeout_s=10, cases=4)
    outcomes: Counter[str] = Counter()
    stages: dict[str, float] = defaultdict(float)
    with Judge(judge_options(part)) as judge:
        list(judge_many(jobs[:1], judge=judge))  # fork servers up, as in a running step
        started = time.perf_counter()
        for judgement in judge_many(jobs, judge=judge, workers=args.workers):
            outcomes[judgement.verdict.outcome.value if judgement.verdict else "unscored"] += 1
            for stage, seconds in (judgement.verdict.stage_seconds if judgement.verdict else {}).items():
                stages[stage] += seconds
        elapsed = time.perf_counter() - started
    result = {
        "answers": len(jobs),
        "workers": args.workers,
        "seconds": round(elapsed, 1),
        "per_second": round(len(jobs) / elapsed, 2),
        "outcomes": dict(outcomes.most_common()),
        "stage_s_per_answer": {stage: round(seconds / len(jobs), 3) for stage, seconds in stages.items()},
    }
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
