"""The judge at the depths the loop needs: correct? roughly how fast? and, for the finalists, exactly how fast?

All of them share processes and the secret inputs. Only `correct` and `timed` give verdicts that are recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from autotriton.errors import PrerequisiteError, TaskError, UsageError
from autotriton.judge import Judge, JudgeOptions
from autotriton.judge.channel import ChannelError
from autotriton.judge.processes import Processes
from autotriton.judge.sandbox.limits import Limits
from autotriton.types import Task, Tier, Verdict

Stages = Callable[[str], None]
_LOOK_S = 120.0
_MEMORY = re.compile("allocate memory|out of memory|into memory|too much memory|tried to allocate", re.IGNORECASE)
"""How torch and the judge say that there is not enough of it."""
_WANTED = re.compile(r"tried to allocate ([\d.]+ \w+)", re.IGNORECASE)


class Court(Protocol):
    """What the loop asks about candidates."""

    times: bool
    """There is a GPU, and timing is wanted."""

    def look(self, task: Task) -> None:
        """Raises UsageError for a task that is hopeless before anything is proposed."""

    def correct(self, task: Task, code: str, progress: Stages) -> Verdict: ...

    def roughly(self, task: Task, code: str, progress: Stages) -> Verdict: ...

    def timed(self, task: Task, code: str, progress: Stages) -> Verdict: ...

    def rest(self, task: Task) -> None:
        """Gives the GPU's memory back between verdicts."""


class JudgeCourt(AbstractContextManager["JudgeCourt"]):
    """The real judge."""

    def __init__(self, options: JudgeOptions) -> None:
        if options.tier is Tier.RULES:
            raise UsageError("the tier `rules` verifies nothing", hint="use interpret, compile, run or time")
        self._processes = Processes(options.sandbox)
        try:
            self.times = self._can_time(options)
            tier = Tier.RUN if self.times else options.tier
            self._correct = Judge(replace(options, tier=tier), processes=self._processes)
            rough = replace(options, tier=Tier.TIME, repetitions=1, timing_s=0.3, baselines=())
            self._roughly = self._beside(rough)
            self._timed = self._beside(replace(options, tier=Tier.TIME))
        except BaseException:
            self.close()
            raise

    def _can_time(self, options: JudgeOptions) -> bool:
        if options.tier not in (None, Tier.TIME):
            return False
        found = self._processes.device(options.device) == "cuda"
        if options.tier is Tier.TIME and not found:
            raise PrerequisiteError("timing needs a CUDA device and none was found", hint="leave --tier out")
        return found

    def _beside(self, options: JudgeOptions) -> Judge:
        return Judge(options, processes=self._processes, seed=self._correct.seed)

    def look(self, task: Task) -> None:
        size = self._input_bytes(task)
        if size == 0:
            raise UsageError(
                f"task {task.id} has no tensor inputs, and a kernel needs some to work on",
                hint="let get_inputs return the tensors that change between calls",
            )
        if size is not None and size > self._memory_bytes():
            text = f"its inputs alone take {size / 2**30:,.0f} GiB, and there are {self._memory_bytes() / 2**30:,.0f}"
            raise _does_not_fit(task, text)

    def _input_bytes(self, task: Task) -> int | None:
        """None where they cannot be drawn, which others will explain."""
        readable = (task.import_root,) if task.import_root else ()
        limits = Limits(deadline_s=_LOOK_S, allow_processes=True, readable=readable)
        process = self._processes.server(interpret=False).spawn("reference", limits)
        try:
            process.channel.send({"do": "size", "task": task.model_dump(mode="json")})
            answer = process.channel.receive(_LOOK_S)[0]
        except ChannelError:
            answer = {}
        finally:
            process.end()
        size: int | None = answer.get("bytes")
        return size

    def _memory_bytes(self) -> int:
        gpu = self._processes.gpu() if self._correct.options.device != "cpu" else None
        return gpu.memory_bytes if gpu is not None else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def correct(self, task: Task, code: str, progress: Stages) -> Verdict:
        try:
            return self._correct.judge(task, code, progress)
        except TaskError as error:
            if _MEMORY.search(str(error)) is None:
                raise
            wanted = _WANTED.search(str(error))
            how = f"it needs {wanted[1]} at once" if wanted else str(error.args[0])
            raise _does_not_fit(task, how) from error

    def roughly(self, task: Task, code: str, progress: Stages) -> Verdict:
        """One repetition and no baselines: enough to see who is worth tuning, not to claim a speed."""
        return self._roughly.judge(task, code, progress)

    def timed(self, task: Task, code: str, progress: Stages) -> Verdict:
        return self._timed.judge(task, code, progress)

    def rest(self, task: Task) -> None:
        self._processes.references.forget(task)

    def close(self) -> None:
        self._processes.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _does_not_fit(task: Task, how: str) -> UsageError:
    return UsageError(f"task {task.id} does not fit into memory: {how}", hint="make its shapes smaller")
