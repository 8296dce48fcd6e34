"""KernelBench on this GPU: propose, judge under `strict`, tune, time against eager and torch.compile, in one command.

    python benchmarks/kernelbench_speed.py --root CHECKOUT --out results/speed.jsonl --tune-seconds 10
    python benchmarks/kernelbench_speed.py --out results/speed.jsonl --report

One line of JSON per problem, on disk before the next one ends; a second call goes on where the first stopped, and
`--seconds` makes a call stop before a limit. Correctness and compiling run side by side, what is timed has the GPU to
itself. Every failure is a line, never a crash. Without a GPU (`--device cpu`) everything but the times is there, at
reduced shapes.

Candidates can be made ahead on a machine without a GPU, and used from there:

    python benchmarks/kernelbench_speed.py --root CHECKOUT --proposals DIR --propose-only --workers 2
    python benchmarks/kernelbench_speed.py --root CHECKOUT --proposals DIR --out results/speed.jsonl --seconds 560

Times of eager and torch.compile are kept in `baselines.jsonl` beside the results, and used again on the same machine
(rows say so); `--fresh-baselines` measures them anew, which a published table needs.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import statistics
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kernelbench_table as table
from kernelbench_baselines import BaselineCache
from kernelbench_proposals import Shelf, ShelfProposer, make_ahead
from kernelbench_solve import Solver, SolverOptions

from autotriton import machine, store
from autotriton.errors import AutoTritonError, UsageError
from autotriton.judge import JUDGE_VERSION
from autotriton.propose.base import Proposer
from autotriton.propose.proposers import parse
from autotriton.types import Task

_LAST_WORDS_S = 8.0
"""Before the deadline, to stop and print the table."""


@dataclass(frozen=True)
class Problem:
    level: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    def task(self, suite: str) -> Task:
        return Task(id=self.name, source=self.path.read_text(encoding="utf-8"), suite=suite)


def find(root: Path, levels: list[int], only: list[str], limit: int | None) -> list[Problem]:
    """Problems of a checkout in their own order; `only` names them by number, name or a part of it."""
    base = root / "KernelBench" if (root / "KernelBench").is_dir() else root
    found: list[Problem] = []
    for level in levels:
        folder = base / f"level{level}"
        if not folder.is_dir():
            raise UsageError(f"{root} has no level {level}", hint="--root is a checkout of KernelBench")
        paths = sorted(folder.glob("*.py"), key=lambda path: (table.number_of(path.stem), path.stem))
        named = [path for path in paths if not only or any(_named(path.stem, text) for text in only)]
        found += [Problem(level, path) for path in named[:limit]]
    return found


def _named(stem: str, text: str) -> bool:
    return str(table.number_of(stem)) == text if text.isdigit() else text.lower() in stem.lower()


class Board:
    """Results on disk and lines on the screen, from any thread."""

    def __init__(self, path: Path, total: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._mutex = threading.Lock()
        self.total, self.done = total, 0
        self.seconds: list[float] = []
        self.closed = False

    def write(self, row: dict[str, Any]) -> None:
        """When this returns the line is on disk."""
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self, row: table.Row) -> None:
        with self._mutex:
            if self.closed:  # its processes were ended under it: no result
                return
            self.write(row)
            self.done += 1
            self.seconds.append(row["seconds"]["all"] - row["seconds"].get("wait", 0.0))
            say(f"[{self.done}/{self.total}] {line_of(row)}")

    def expected_s(self) -> float:
        """How long a problem takes, not counting its wait for memory."""
        return statistics.median(self.seconds) if self.seconds else 0.0

    def close(self) -> None:
        with self._mutex:
            self.closed = True


def line_of(row: table.Row) -> str:
    """A problem's result on one line."""
    place = f"L{row['level']} {row['name']}: {row['status']}"
    took = f"({row['seconds']['all']:.0f} s)"
    if row["status"] != table.CORRECT:
        return f"{place} {took} {row.get('reason')}"
    speeds = [
        f"{found['ratio']:.2f}x [{found['low']:.2f}, {found['high']:.2f}] {name}"
        for name in table.BASELINES
        if (found := row["speedups"].get(name))
    ]
    ms = [f"{row['ms']:.4g} ms"] if row.get("ms") is not None else []
    return " ".join([place, ", ".join([*ms, *speeds]), str(row["proposer"]), took])


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def run(args: argparse.Namespace, proposer: Proposer) -> int:
    """Works through what is not done yet; 0 when nothing is left, 1 when the time was up."""
    problems = find(args.root, args.levels, args.only, args.limit)
    by_place = {(problem.level, problem.name): problem for problem in problems}
    waiting = table.pending(by_place, table.load(args.out), args.engine, retry_failed=args.retry_failed)
    board = Board(args.out, len(waiting))
    board.write(about(args))
    say(f"{len(waiting)} of {len(problems)} problems to do")
    if not waiting:
        return 0
    deadline = time.monotonic() + args.seconds if args.seconds else None
    cache = BaselineCache(args.out.with_name("baselines.jsonl"), machine.describe())
    with Solver(solver_options(args), cache) as solver:
        finished = work_through([by_place[place] for place in waiting], solver, proposer, board, args, deadline)
        board.close()
    say("done" if finished else f"the time is up; {board.total - board.done} are left for the next call")
    return 0 if finished else 1


def propose(args: argparse.Namespace, proposer: Proposer) -> int:
    """Candidates for every problem on the shelf, nothing judged; 0 when all are there, 1 when the time was up."""
    problems = find(args.root, args.levels, args.only, args.limit)
    deadline = time.monotonic() + args.seconds if args.seconds else None
    finished = make_ahead(
        [(problem.level, problem.task(args.suite)) for problem in problems],
        Shelf(args.proposals, args.engine),
        proposer,
        most=args.candidates,
        workers=args.workers,
        late=lambda: deadline is not None and time.monotonic() > deadline - _LAST_WORDS_S,
        say=say,
    )
    return 0 if finished else 1


def work_through(
    problems: list[Problem],
    solver: Solver,
    proposer: Proposer,
    board: Board,
    args: argparse.Namespace,
    deadline: float | None,
) -> bool:
    """Threads take problems until there are none or no time; true when all are done."""
    waiting: queue.SimpleQueue[Problem] = queue.SimpleQueue()
    # Large problems follow each other in the levels, and only few of those fit into memory at once.
    for problem in random.Random(0).sample(problems, len(problems)):
        waiting.put(problem)
    # Daemons: at the deadline what is not finished is left behind, and done again the next time.
    tools = {"solver": solver, "proposer": proposer, "board": board}
    loop = {"waiting": waiting, **tools, "args": args, "deadline": deadline}
    threads = [threading.Thread(target=_take, kwargs=loop, daemon=True) for _ in range(args.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(None if deadline is None else max(0.0, deadline - _LAST_WORDS_S - time.monotonic()))
    return board.done == board.total


def _take(
    waiting: queue.SimpleQueue[Problem],
    solver: Solver,
    proposer: Proposer,
    board: Board,
    args: argparse.Namespace,
    deadline: float | None,
) -> None:
    """One problem after another while there is time for one more; the first one whatever the time."""
    while True:
        try:
            problem = waiting.get_nowait()
        except queue.Empty:
            return
        board.finish(one(problem, solver, proposer, args))
        if deadline is not None and time.monotonic() + board.expected_s() > deadline - _LAST_WORDS_S:
            return


def one(problem: Problem, solver: Solver, proposer: Proposer, args: argparse.Namespace) -> table.Row:
    """A problem's line, whatever happens."""
    started = time.perf_counter()
    row: table.Row = {
        "level": problem.level,
        "name": problem.name,
        "engine": args.engine,
        "family": "unknown",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        task = problem.task(args.suite)
        row["family"] = table.family(problem.name, task.source)
        if args.proposals is not None:
            proposer = ShelfProposer(Shelf(args.proposals, args.engine), problem.level, proposer)
        found = solver.solve(task, proposer)
        save(args.save, problem, found.pop("code", None))
        row |= found
    except Exception as error:  # noqa: BLE001 - one problem must not cost the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error) if isinstance(error, AutoTritonError) else f"{type(error).__name__}: {error}"
        where = "" if isinstance(error, AutoTritonError) else f" ({Path(last.filename).name}:{last.lineno})"
        row |= {"status": table.ERROR, "reason": text + where}
    row["seconds"] = {**row.get("seconds", {}), "all": round(time.perf_counter() - started, 2)}
    return row


def save(folder: Path | None, problem: Problem, code: str | None) -> None:
    if folder is not None and code is not None:
        place = folder / f"level{problem.level}"
        place.mkdir(parents=True, exist_ok=True)
        (place / problem.path.name).write_text(code, encoding="utf-8")


def about(args: argparse.Namespace) -> dict[str, Any]:
    """What makes the numbers that follow."""
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items()}
    return {
        "run": {
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": store.commit(),
            "judge_version": JUDGE_VERSION,
            "machine": machine.describe().model_dump(mode="json"),
            "options": settings,
        }
    }


def suite_of(root: Path) -> str:
    """KernelBench and its commit, where the checkout says which."""
    head = root / ".git" / "HEAD"
    text = head.read_text().strip() if head.is_file() else ""
    if text.startswith("ref: "):
        ref = root / ".git" / text.removeprefix("ref: ")
        text = ref.read_text().strip() if ref.is_file() else ""
    return f"kernelbench@{text[:12] or 'unknown'}"


def solver_options(args: argparse.Namespace) -> SolverOptions:
    return SolverOptions(
        device=args.device,
        tune_s=args.tune_seconds,
        retune=args.retune,
        jobs=args.jobs or max(2, 2 * len(os.sched_getaffinity(0)) // args.workers),
        races=args.races,
        candidates=args.candidates,
        kernels=args.kernels,
        repetitions=args.repetitions,
        timing_s=args.timing_seconds,
        timeout_s=args.timeout,
        cache=args.cache,
        fresh_baselines=args.fresh_baselines,
        tune_on_cpu=args.tune_on_cpu,
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--root", type=Path, help="a checkout of KernelBench")
    made.add_argument("--levels", type=_levels, default=[1, 2, 3], help="e.g. 1,2,3")
    made.add_argument("--out", type=Path, help="results, one JSON line per problem; added to")
    made.add_argument("--report", action="store_true", help="only print the table of what is in --out")
    made.add_argument("--only", nargs="*", default=[], metavar="NAME", help="numbers, names or parts of names")
    made.add_argument("--limit", type=int, default=None, help="at most this many problems per level")
    made.add_argument("--engine", choices=("auto", "templates", "inductor"), default="auto")
    made.add_argument("--proposer", default=None, help="instead of the compiler, e.g. files:DIR; replaces --engine")
    made.add_argument("--proposals", type=Path, default=None, metavar="DIR", help="candidates made ahead; used first")
    made.add_argument("--propose-only", action="store_true", help="fill --proposals and judge nothing")
    made.add_argument("--retry-failed", action="store_true", help="also do problems again that had no correct kernel")
    made.add_argument("--seconds", type=float, default=None, help="stop cleanly before this many have passed")
    made.add_argument("--workers", type=int, default=8, help="problems at once")
    made.add_argument("--fresh-baselines", action="store_true", help="time eager and torch.compile anew")
    made.add_argument("--jobs", type=int, default=None, help="kernels compiled at once, per problem")
    made.add_argument("--races", type=int, default=8, help="problems tuned at once; others are judged or wait")
    made.add_argument("--candidates", type=int, default=4, help="at most this many per problem")
    made.add_argument("--kernels", type=int, default=60, help="fewer candidates where they have more, all together")
    made.add_argument("--tune-seconds", type=float, default=10.0, help="per candidate; 0 leaves tuning out")
    made.add_argument("--retune", action="store_true", help="ignore the tile cache")
    made.add_argument("--cache", default=None, metavar="DIR", help="of the tile cache, if not the user's")
    made.add_argument("--tune-on-cpu", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--repetitions", type=int, default=3, help="fresh processes per timing")
    made.add_argument("--timing-seconds", type=float, default=0.6, help="timed blocks per repetition")
    made.add_argument("--timeout", type=float, default=180.0, help="seconds for each run of a candidate")
    made.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    made.add_argument("--save", type=Path, default=None, metavar="DIR", help="write the kernels that won there")
    return made


def _levels(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        if args.out is None and not args.propose_only:
            raise UsageError("--out is missing", hint="name a file for the results")
        if args.report:
            print(table.report(table.load(args.out)))
            return 0
        if args.root is None:
            raise UsageError("--root is missing", hint="name a checkout of KernelBench, or use --report")
        if args.propose_only and args.proposals is None:
            raise UsageError("--propose-only needs a folder", hint="name it with --proposals DIR")
        args.suite = suite_of(args.root)
        spec = args.proposer or ("compiler" if args.engine == "auto" else f"compiler:{args.engine}")
        args.engine = args.proposer or args.engine
        proposer = parse(spec, on_gpu=False)  # the GPU is shared: only what is timed has it to itself
        if args.propose_only:
            return propose(args, proposer)
        status = run(args, proposer)
    except AutoTritonError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(table.report(table.load(args.out)), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
