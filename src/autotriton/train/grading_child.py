"""The judge beside a training run, in a process of its own: one JSON line in per answer, one line out per verdict.

`python -m autotriton.train.grading_child OPTIONS`. The trainer has torch and the weights; the process that judges has
neither, and a judge that dies does not take the training with it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from autotriton.errors import AutoTritonError
from autotriton.judge import Judge, JudgeOptions
from autotriton.judge.pool import Beside
from autotriton.types import Policy, Task, Tier, Verdict

CHILD = "autotriton.train.grading_child"
_IDLE_TASKS = 64
"""Tasks nobody waits for whose reference stays at hand: more answers to them may follow."""


def options(values: dict[str, Any]) -> JudgeOptions:
    """What the parent wrote, with its enumerations again."""
    return JudgeOptions(**{**values, "policy": Policy(values["policy"]), "tier": Tier(values["tier"])})


class Desk:
    """Answers come in one by one; equal ones to the same task are judged once."""

    def __init__(self, judge: Judge, workers: int, out: TextIO) -> None:
        self._judge, self._out = judge, out
        self._lock, self._beside = threading.Lock(), Beside(workers)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="judge")
        self._same: dict[tuple[str, str], list[int]] = {}
        """Who waits for the verdict on this code."""
        self._tasks: OrderedDict[str, tuple[Task, int]] = OrderedDict()
        """Open tasks with the number of their answers under way, the longest idle first."""

    def take(self, number: int, task: Task, code: str) -> None:
        key = (task.hash, code)
        with self._lock:
            if key in self._same:
                self._same[key].append(number)
                return
            self._same[key] = [number]
            self._count(task, 1)
        self._pool.submit(self._one, task, code)

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _one(self, task: Task, code: str) -> None:
        verdict, error = self._verdict(task, code)
        with self._lock:
            waiting = self._same.pop((task.hash, code))
            idle = self._count(task, -1)
            for number in waiting:
                told = None if verdict is None else verdict.model_dump(mode="json")
                self._out.write(json.dumps({"number": number, "verdict": told, "error": error}) + "\n")
            self._out.flush()
        for old in idle:
            self._judge.processes.references.forget(old)

    def _verdict(self, task: Task, code: str) -> tuple[Verdict | None, str | None]:
        try:
            return self._beside.verdict(self._judge, task, code), None
        except AutoTritonError as failure:
            return None, str(failure)
        except BaseException as failure:  # noqa: BLE001 - a bug of ours costs this answer its verdict, never the others
            return None, f"judge error: {type(failure).__name__}: {failure}"

    def _count(self, task: Task, change: int) -> list[Task]:
        """Keeps count, and says which references can go."""
        _, before = self._tasks.pop(task.hash, (task, 0))
        self._tasks[task.hash] = (task, before + change)
        idle = [key for key, (_, count) in self._tasks.items() if count == 0]
        return [self._tasks.pop(key)[0] for key in idle[: max(0, len(idle) - _IDLE_TASKS)]]


def main() -> None:
    # Libraries print; what reaches the parent must be ours alone.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.loads(sys.argv[1])
    workers = asked["workers"] or max(1, min(os.cpu_count() or 1, 16))
    with Judge(options(asked["options"])) as judge:
        desk = Desk(judge, workers, out)
        for line in sys.stdin:
            job = json.loads(line)
            desk.take(job["number"], Task.model_validate(job["task"]), job["code"])
        desk.close()


if __name__ == "__main__":
    main()
