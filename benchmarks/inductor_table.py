"""What the inductor engine makes of KernelBench: one line per problem, and a table.

    python benchmarks/inductor_table.py --root CHECKOUT --level 1 --out inductor.jsonl [--variants] [--limit N]
    python benchmarks/inductor_table.py --out inductor.jsonl --report

Per problem: whether a file came out, its variants, kernels and settings, what was left outside Triton, and seconds. On
a GPU each variant is also judged under `strict` and timed against torch.compile. One line of JSON per problem, on disk
before the next one begins; a second call goes on where the first stopped, with `--retry-failed` also over failures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import kernelbench_table as table

from autotriton import machine
from autotriton.errors import AutoTritonError, ProposerError
from autotriton.judge import JudgeOptions, judge
from autotriton.propose.compiler import CompilerProposer
from autotriton.types import Candidate, Task, Tier

Row = dict[str, Any]
_OUTSIDE = re.compile(r"no Triton kernel for (\S+?):")


def problems(root: Path, level: int) -> list[Path]:
    base = root / "KernelBench" if (root / "KernelBench").is_dir() else root
    return sorted((base / f"level{level}").glob("*.py"), key=lambda path: (table.number_of(path.stem), path.stem))


def load(path: Path) -> list[Row]:
    """The last line of each problem; torn lines are left out."""
    rows: dict[tuple[int, str], Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            rows[int(row["level"]), str(row["name"])] = row
        except (ValueError, KeyError, TypeError):
            continue
    return list(rows.values())


def measured(task: Task, level: int, args: argparse.Namespace) -> Row:
    """Everything there is to say about one problem."""
    started = time.monotonic()
    row: Row = {"level": level, "name": task.id, "emitted": False, "outside": None, "reason": None, "variants": []}
    proposer = CompilerProposer(timeout_s=args.timeout, engines=("inductor",), on_gpu=args.on_gpu)
    try:
        for candidate in islice(proposer.propose(task, []), None if args.variants else 1):
            row["variants"].append(_variant(candidate) | (_timed(task, candidate) if args.gpu else {}))
            row["emitted"] = True
    except ProposerError as error:
        row["reason"] = str(error)
        row["outside"] = found[1] if (found := _OUTSIDE.search(str(error))) else None
    row["seconds"] = round(time.monotonic() - started, 1)
    return row


def _variant(candidate: Candidate) -> Row:
    name = candidate.proposer.removeprefix("compiler:inductor").strip(":") or "default"
    kernels = len(re.findall(r"^def \w+_kernel\(", candidate.code, re.MULTILINE))
    return {"name": name, "kernels": kernels, "settings": sum(map(len, candidate.choices.values()))}


def _timed(task: Task, candidate: Candidate) -> Row:
    options = JudgeOptions(tier=Tier.TIME, baselines=("compile",), allow_degenerate=True, timeout_s=300)
    try:
        verdict = judge(task, candidate.code, options)
    except AutoTritonError as error:
        return {"accepted": False, "message": str(error)}
    speedup = verdict.speedups.get("compile")
    ratio = speedup.model_dump() if speedup else None
    return {"accepted": verdict.accepted, "message": verdict.message, "over_compile": ratio}


def report(rows: Iterable[Row]) -> str:
    """Counts per level, then what is missing, by name."""
    lines = [
        "| level | problems | emitted | outside Triton | variants | kernels (median) | s (median) | over compile |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = sorted(rows, key=lambda row: (row["level"], table.number_of(row["name"])))
    for level in sorted({row["level"] for row in rows}):
        own = [row for row in rows if row["level"] == level]
        good = [row for row in own if row["emitted"]]
        ratios = [best for row in good if (best := _best_ratio(row)) is not None]
        mean = table.geometric_mean(ratios)
        cells = [
            level,
            len(own),
            len(good),
            sum(row["outside"] is not None for row in own),
            sum(len(row["variants"]) for row in good),
            f"{statistics.median(row['variants'][0]['kernels'] for row in good):g}" if good else "-",
            f"{statistics.median(row['seconds'] for row in own):.1f}",
            f"{mean:.2f}x (of {len(ratios)})" if mean is not None else "-",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    missing = [row for row in rows if not row["emitted"]]
    return "\n".join([*lines, "", *(f"- L{row['level']} {row['name']}: {row['reason']}" for row in missing)])


def _best_ratio(row: Row) -> float | None:
    found = [v["over_compile"]["ratio"] for v in row["variants"] if v.get("accepted") and v.get("over_compile")]
    return max(found, default=None)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="a checkout of KernelBench")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("inductor.jsonl"))
    parser.add_argument("--limit", type=int, help="at most so many problems in this call")
    parser.add_argument("--step", type=int, default=1, help="every so manieth problem only")
    parser.add_argument("--seconds", type=float, help="begin no problem after this time")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one problem's lowering")
    parser.add_argument("--variants", action="store_true", help="all variants instead of the first")
    parser.add_argument("--no-gpu-choices", dest="on_gpu", action="store_false", help="choose by rule even on a GPU")
    parser.add_argument("--retry-failed", action="store_true")
    parser.add_argument("--report", action="store_true", help="only print the table")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    if not args.report:
        if args.root is None or not problems(args.root, args.level):
            print(f"error: {args.root} has no level {args.level}; --root is a checkout of KernelBench", file=sys.stderr)
            return 2
        args.gpu = machine.describe().gpu is not None
        _work(args)
    print(report(load(args.out)))
    return 0


def _work(args: argparse.Namespace) -> None:
    done = {(row["level"], row["name"]) for row in load(args.out) if row["emitted"] or not args.retry_failed}
    waiting = [path for path in problems(args.root, args.level)[:: args.step] if (args.level, path.stem) not in done]
    started = time.monotonic()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("a", encoding="utf-8") as out:
        for number, path in enumerate(waiting[: args.limit], 1):
            if args.seconds and time.monotonic() - started > args.seconds:
                break
            row = measured(Task(id=path.stem, source=path.read_text(encoding="utf-8")), args.level, args)
            out.write(json.dumps(row) + "\n")
            out.flush()
            os.fsync(out.fileno())
            names = ", ".join(variant["name"] for variant in row["variants"]) or row["reason"]
            print(f"[{number}/{len(waiting)}] {row['name']}: {names} ({row['seconds']} s)", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
