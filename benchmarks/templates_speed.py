"""Emitted kernels against eager PyTorch, at their first settings: where the templates are slow, by family, in minutes.

    python benchmarks/templates_speed.py --root CHECKOUT --kernels DIR --out results.jsonl --levels 1,2
    python benchmarks/templates_speed.py --root CHECKOUT --kernels DIR --emit-only
    python benchmarks/templates_speed.py --out results.jsonl --report

Not a verdict: outputs are compared with eager's once, and nothing is tuned (`kernelbench_speed.py` does both). One
process per problem; they compile side by side, and each has the GPU alone while it is timed, cold L2, fp32 without
TF32. Files missing in DIR are emitted first, which a machine without a GPU can do beforehand. One line of JSON per
problem; a second call goes on where the first stopped, and does those again whose file has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import kernelbench_table as table
from templates_timing import Gate, Work, measure

Row = dict[str, Any]
_BAD_ERROR = 1e-3
"""Relative rms error from which on a result does not count."""


@dataclass(frozen=True)
class Problem:
    level: int
    path: Path

    def kernels(self, folder: Path) -> Path:
        return folder / f"level{self.level}_{self.path.name}"


def find(root: Path, levels: list[int], only: list[str]) -> list[Problem]:
    base = root / "KernelBench" if (root / "KernelBench").is_dir() else root
    paths = [(level, path) for level in levels for path in (base / f"level{level}").glob("*.py")]
    ordered = sorted(paths, key=lambda one: (one[0], table.number_of(one[1].stem)))
    wanted = [Problem(level, path) for level, path in ordered]
    return [p for p in wanted if not only or f"{p.level}/{table.number_of(p.path.stem)}" in only]


def emit(problems: list[Problem], folder: Path, jobs: int) -> None:
    """Writes the files that are missing; a task the templates cannot express has none."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [problem for problem in problems if not problem.kernels(folder).exists()]
    if not missing:
        return
    from autotriton.errors import AutoTritonError
    from autotriton.propose.compiler.proposer import CompilerProposer
    from autotriton.types import Task

    def one(problem: Problem) -> str:
        task = Task(id=problem.path.stem, source=problem.path.read_text(encoding="utf-8"))
        try:
            candidate = next(CompilerProposer(engines=("templates",)).propose(task, []))
        except AutoTritonError as error:
            return f"{problem.path.stem}: {error}"
        problem.kernels(folder).write_text(candidate.code, encoding="utf-8")
        return f"{problem.path.stem}: emitted"

    with ThreadPoolExecutor(jobs) as pool:
        for line in pool.map(one, missing):
            print(line, flush=True)


def _child(pipe: Connection, work: Work) -> None:
    try:
        pipe.send(("row", {"status": "timed", **measure(work, Gate(pipe))}))
    except Exception as error:  # noqa: BLE001 - one problem must not cost the others
        text = f"{type(error).__name__}: {error}".strip().splitlines()
        pipe.send(("row", {"status": "failed", "reason": " ".join(text)[:300]}))


@dataclass
class Running:
    """A process, and what it holds."""

    problem: Problem
    process: Any
    started: float
    memory: int = 0
    holds: str = ""


class Board:
    """Starts processes, gives them memory and the GPU in the order of asking, and writes down what they find."""

    def __init__(self, waiting: list[Problem], args: argparse.Namespace) -> None:
        self.waiting, self.args = waiting, args
        self.running: dict[Connection, Running] = {}
        self.memory = self.free = int(args.memory * 2**30)
        self.asked: dict[str, list[tuple[Connection, str, int]]] = {"memory": [], "gpu": []}
        self.context = multiprocessing.get_context("fork")

    def work(self) -> None:
        with self.args.out.open("a") as file:
            while self.waiting or self.running:
                while self.waiting and len(self.running) < self.args.workers:
                    self._start(self.waiting.pop(0))
                for pipe in wait(list(self.running), timeout=1.0):
                    assert isinstance(pipe, Connection)
                    if (row := self._heard(pipe)) is not None:
                        file.write(json.dumps(row) + "\n")
                        file.flush()
                        print(line_of(row), flush=True)
                for one in self.running.values():
                    if time.monotonic() - one.started > self.args.timeout:
                        one.process.kill()
                self._grant()

    def _start(self, problem: Problem) -> None:
        ours, theirs = self.context.Pipe()
        work = Work(problem.path, problem.kernels(self.args.kernels), self.args.seconds, self.args.compile)
        process = self.context.Process(target=_child, args=(theirs, work), daemon=True)
        process.start()
        theirs.close()
        self.running[ours] = Running(problem, process, time.monotonic())

    def _heard(self, pipe: Connection) -> Row | None:
        """A finished problem's row."""
        try:
            kind, value = pipe.recv()
        except (EOFError, ConnectionResetError):
            kind, value = "row", {"status": "failed", "reason": "the process died or took too long"}
        if kind == "free":
            self.running[pipe].holds = ""
        elif kind == "memory":
            self.asked["memory"].append((pipe, kind, min(value, self.memory)))
        elif kind != "row":
            self.asked["gpu"].append((pipe, kind, 0))
        return self._finished(pipe, value) if kind == "row" else None

    def _finished(self, pipe: Connection, found: Row) -> Row:
        one = self.running.pop(pipe)
        one.process.join()
        pipe.close()
        self.free += one.memory
        self.asked = {kind: [ask for ask in asks if ask[0] is not pipe] for kind, asks in self.asked.items()}
        level, name, file = key(one.problem, self.args.kernels)
        family = table.family(name, one.problem.path.read_text(encoding="utf-8"))
        seconds = round(time.monotonic() - one.started, 1)
        return {"level": level, "name": name, "file": file, "family": family, **found, "seconds": seconds}

    def _grant(self) -> None:
        """First come, first served: who wants the GPU alone is not passed by those who share it."""
        while (asks := self.asked["memory"]) and asks[0][2] <= self.free:
            pipe, _, amount = asks.pop(0)
            self.running[pipe].memory = amount
            self.free -= amount
            pipe.send(True)
        while asks := self.asked["gpu"]:
            held = {one.holds for one in self.running.values()} - {""}
            if held and (asks[0][1] == "alone" or "alone" in held):
                return
            pipe, kind, _ = asks.pop(0)
            self.running[pipe].holds = kind
            pipe.send(True)


def run(problems: list[Problem], args: argparse.Namespace) -> None:
    """Processes are forked with torch and triton imported and CUDA untouched."""
    import torch  # noqa: F401 - the children have it from here
    import triton  # noqa: F401

    done = {(row["level"], row["name"], row["file"]) for row in load(args.out)}
    waiting = [p for p in problems if p.kernels(args.kernels).exists() and key(p, args.kernels) not in done]
    print(f"{len(waiting)} of {len(problems)} problems to time", flush=True)
    Board(waiting, args).work()


def key(problem: Problem, folder: Path) -> tuple[int, str, str]:
    text = problem.kernels(folder).read_bytes()
    return problem.level, problem.path.stem, hashlib.sha256(text).hexdigest()[:12]


def load(path: Path) -> list[Row]:
    """The last line of every problem."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.strip()]
    return list({(row["level"], row["name"]): row for row in rows}.values())


def ratio(row: Row, baseline: str = "eager") -> float | None:
    """Baseline's time over ours; None where there is none to stand behind."""
    if row["status"] != "timed" or not row["error"] < _BAD_ERROR or row.get(f"{baseline}_ms") is None:
        return None
    return float(row[f"{baseline}_ms"] / row["ms"])


def line_of(row: Row) -> str:
    place = f"L{row['level']} {row['name']}"
    if row["status"] != "timed":
        return f"{place}: {row['reason']}"
    speeds = [f"{found:.2f}x {name}" for name in ("eager", "compile") if (found := ratio(row, name)) is not None]
    return f"{place}: {row['ms']:.4g} ms, {', '.join(speeds) or 'wrong'}, error {row['error']:.1e}"


def mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def report(rows: list[Row]) -> str:
    """Geometric means by level and family, and the slowest of each family."""
    lines = ["| level | family | timed | over eager | over compile | slowest |", "|---|---|---|---|---|---|"]
    for level in sorted({row["level"] for row in rows}):
        of_level = [row for row in rows if row["level"] == level]
        for family in [*sorted({row["family"] for row in of_level}), ""]:
            some = [row for row in of_level if not family or row["family"] == family]
            timed = sorted((found, row["name"]) for row in some if (found := ratio(row)) is not None)
            compiled = [found for row in some if (found := ratio(row, "compile")) is not None]
            slowest = ", ".join(f"{table.number_of(name)}: {found:.2f}" for found, name in timed[:5]) if family else ""
            means = [f"{mean(found):.2f}" if found else "" for found in ([one for one, _ in timed], compiled)]
            count = f"{len(timed)} of {len(some)}"
            lines.append(f"| {level} | {family or 'all'} | {count} | {' | '.join(means)} | {slowest} |")
    failed = [row for row in rows if ratio(row) is None]
    reasons = [f"L{row['level']} {row['name']}: {row.get('reason') or 'wrong, ' + line_of(row)}" for row in failed]
    return "\n".join([*lines, *(["", "Not counted:", *reasons] if reasons else [])])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--root", type=Path, help="a checkout of KernelBench")
    made.add_argument("--kernels", type=Path, help="folder of emitted files; those missing are emitted")
    made.add_argument("--out", type=Path, help="results, one JSON line per problem; added to")
    made.add_argument("--levels", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    made.add_argument("--only", nargs="*", default=[], metavar="LEVEL/NUMBER", help="e.g. 1/55 2/65")
    made.add_argument("--emit-only", action="store_true", help="no GPU needed")
    made.add_argument("--report", action="store_true", help="only print the table of what is in --out")
    made.add_argument("--workers", type=int, default=max(2, len(os.sched_getaffinity(0)) - 2), help="processes at once")
    made.add_argument("--seconds", type=float, default=0.25, help="of timing per problem")
    made.add_argument("--memory", type=float, default=110.0, help="GiB of GPU memory to share out")
    made.add_argument("--timeout", type=float, default=120.0, help="seconds for one problem")
    made.add_argument("--compile", action="store_true", help="time torch.compile too; takes minutes more")
    return made


def main(argv: list[str] | None = None) -> int:
    made = parser()
    args = made.parse_args(argv)
    if not args.report:
        if args.root is None or args.kernels is None or (args.out is None and not args.emit_only):
            made.error("--root, --kernels and --out are needed")
        problems = find(args.root, args.levels, args.only)
        emit(problems, args.kernels, args.workers)
        if args.emit_only:
            return 0
        run(problems, args)
    elif args.out is None:
        made.error("--out is needed")
    print(report(load(args.out)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
