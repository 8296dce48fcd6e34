"""Verdicts per second over a mixed batch of small-task candidates, what each stage costs, and (with --soak) what leaks.

    python benchmarks/judge_throughput.py [--count 500] [--workers N] [--device auto|cpu|cuda] [--soak] [--json FILE]

The batch is drawn from `tests/cheats` with a fixed seed: honest kernels, wrong ones, delegating ones, rule breakers,
crashes, hangs and bombs, a few exact duplicates. Correctness only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "cheats"))

import corpus

from autotriton.judge import Judge, JudgeOptions, judge_many
from autotriton.types import Task

_MIX = {
    "honest": 0.45,
    "numerics": 0.2,
    "delegation": 0.12,
    "replay": 0.05,
    "tamper": 0.04,
    "steal": 0.03,
    "forge": 0.03,
    "timing": 0.02,
}
_DENIAL = 0.02
_DUPLICATES = 0.04


def batch(count: int, seed: int, device: str) -> list[tuple[Task, str]]:
    """`count` jobs; each copy of a corpus file carries a comment of its own, so only the stated share is
    deduplicated.
    """
    by_family = defaultdict(list)
    for case in corpus.load():
        if not (case.gpu_only and device == "cpu"):
            by_family[case.family].append(case)
    generator = random.Random(seed)
    families, weights = zip(*{**_MIX, "denial": _DENIAL}.items(), strict=True)
    jobs: list[tuple[Task, str]] = []
    for number in range(count):
        if jobs and generator.random() < _DUPLICATES:
            jobs.append(generator.choice(jobs))
            continue
        case = generator.choice(by_family[generator.choices(families, weights)[0]])
        task = Task(id=case.task_path.stem, source=case.task_path.read_text())
        jobs.append((task, f"{case.code_path.read_text()}\n# copy {number}\n"))
    return jobs


def gpu_memory_mib() -> int | None:
    try:
        text = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return int(text.split()[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return None


def processes() -> list[str]:
    """Python processes of this user other than this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if b"autotriton.judge.zygote" in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--timeout", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--soak", action="store_true", help="also report leaked processes, GPU memory and resident memory"
    )
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    jobs = batch(args.count, args.seed, args.device)
    memory_before, rss = gpu_memory_mib(), [resident_mib()]
    outcomes: Counter[str] = Counter()
    stages: dict[str, list[float]] = defaultdict(list)
    options = JudgeOptions(device=args.device, timeout_s=args.timeout, allow_degenerate=True)
    with Judge(options) as judge:
        list(judge_many(jobs[:1], judge=judge))  # fork servers up, as in a running service
        started = time.perf_counter()
        for number, judgement in enumerate(judge_many(jobs, judge=judge, workers=args.workers)):
            outcomes[judgement.verdict.outcome if judgement.verdict else f"unscored: {judgement.error}"[:100]] += 1
            for stage, seconds in (judgement.verdict.stage_seconds if judgement.verdict else {}).items():
                stages[stage].append(seconds)
            if number % 100 == 99:
                rss.append(resident_mib())
                print(
                    f"{number + 1}/{len(jobs)} after {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True
                )
        elapsed = time.perf_counter() - started
    time.sleep(1)
    result = {
        "candidates": len(jobs),
        "verdicts": sum(outcomes.values()),
        "seconds": elapsed,
        "per_second": len(jobs) / elapsed,
        "outcomes": dict(outcomes),
        "stage_ms_median": {s: 1e3 * statistics.median(v) for s, v in stages.items()},
        "stage_s_total": {s: sum(v) for s, v in stages.items()},
        "leaked_processes": len(processes()),
        "gpu_memory_mib": [memory_before, gpu_memory_mib()],
        "resident_mib": [round(rss[0]), round(max(rss)), round(rss[-1])],
    }
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
