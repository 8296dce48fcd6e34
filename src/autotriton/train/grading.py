"""Verdicts for a training run: answers go in while others are still being written, verdicts come back when ready.

Must stay true: one bad answer, or a judge that dies, never ends the run; such an answer has no verdict and no reward.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from autotriton.child import child_command, python_path
from autotriton.judge import JudgeOptions
from autotriton.propose.prompt import wanted
from autotriton.train.config import JudgePart, RewardPart
from autotriton.train.grading_child import CHILD
from autotriton.types import Policy, Task, Verdict

_LATE_CALLS_S = 0.3
"""Spent on further calls of each right answer: a whole batch waits for its verdicts, and for cores to make them."""
PATIENCE = 20.0
"""Deadlines of one answer that may pass without any verdict before the judge counts as dead."""


@dataclass(frozen=True)
class Grade:
    """What became of one answer."""

    number: int
    verdict: Verdict | None
    error: str | None = None


def judge_options(judge: JudgePart, reward: RewardPart | None = None) -> JudgeOptions:
    """How answers are judged. Without the rule reward the rules are off too: a program without Triton may then pass."""
    # Tasks were admitted when the data was built; what is random or degenerate is not among them.
    options = JudgeOptions(
        policy=judge.policy,
        tier=judge.tier,
        device=judge.device,
        timeout_s=judge.timeout_s,
        cases=judge.cases,
        late_calls_s=_LATE_CALLS_S,
        allow_degenerate=True,
        admit=False,
        targets=("sm_90",),
        repetitions=1,
        timing_s=0.3,
        baselines=("eager",),
    )
    if reward is not None and not reward.rule:
        return replace(options, policy=Policy.PAPER, trust_candidate=True)
    return options


class Grader:
    """The judge's process and the answers that are with it. Started with the first answer, and again if it dies."""

    def __init__(self, options: JudgeOptions, workers: int | None = None) -> None:
        self._options, self._workers = options, workers
        self._process: subprocess.Popen[bytes] | None = None
        self._grades: queue.SimpleQueue[Grade | None] = queue.SimpleQueue()
        self._waiting: set[int] = set()
        self._early: dict[int, Grade] = {}
        """Grades that came before anybody asked for them."""
        self.busy_s = 0.0
        """Seconds `collect` waited: what judging costs beyond generation."""

    def submit(self, number: int, task: Task, code: str) -> None:
        """Hands one answer over; `number` comes back with its grade."""
        line = message(self._options, number, task, code)
        for _ in range(2):
            self._waiting.add(number)
            process = self._process or self._start()
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError, OSError):
                process.stdin.write(line)
                process.stdin.flush()
                return
            self._lose()

    def collect(self, numbers: Iterable[int] | None = None) -> list[Grade]:
        """A grade for each of these answers, by default for all that were handed over and not collected yet."""
        wanted = self._waiting | self._early.keys() if numbers is None else set(numbers)
        started = time.monotonic()
        while wanted & self._waiting:
            grade = self._next()
            if grade is None:
                self._lose()
            elif grade.number in self._waiting:
                self._waiting.discard(grade.number)
                self._early[grade.number] = grade
        self.busy_s += time.monotonic() - started
        return [self._early.pop(number) for number in list(self._early) if number in wanted]

    def _lose(self) -> None:
        """The judge is gone: nobody should wait for what it had."""
        self._early |= {number: Grade(number, None, "the judge's process ended") for number in self._waiting}
        self._waiting.clear()
        self._drop_process()

    def close(self) -> None:
        self._drop_process()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> Grade | None:
        """The next grade; None when the process ended, or says nothing for far longer than an answer may take."""
        try:
            return self._grades.get(timeout=PATIENCE * self._options.timeout_s)
        except queue.Empty:
            return None

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = process = launch(self._options, self._workers)
        self._grades = queue.SimpleQueue()
        threading.Thread(target=_read, args=(process, self._grades), daemon=True).start()
        return process

    def _drop_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end(process)


def message(options: JudgeOptions, number: int, task: Task, code: str) -> bytes:
    """One answer as the judge's process reads it."""
    if options.trust_candidate and code:
        # Where its rules are off, the judge looks for the reference's own name.
        code += f"\n\n{task.entry} = {wanted(task).name}\n"
    return json.dumps({"number": number, "task": task.model_dump(mode="json"), "code": code}).encode() + b"\n"


def launch(
    options: JudgeOptions, workers: int | None = None, environment: Mapping[str, str] = os.environ
) -> subprocess.Popen[bytes]:
    """The judge's process."""
    asked = json.dumps({"options": asdict(options), "workers": workers})
    # The judge's children make CUDA contexts of their own; the trainer's allocator settings are not for them.
    kept = {name: value for name, value in environment.items() if name != "PYTORCH_CUDA_ALLOC_CONF"}
    return subprocess.Popen(
        child_command(CHILD, asked),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**kept, "PYTHONPATH": python_path()},
    )


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()  # the judge then ends its own processes
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def grades(process: subprocess.Popen[bytes]) -> Iterator[Grade]:
    """What the judge's process says, until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        answer = json.loads(line)
        verdict = None if answer["verdict"] is None else Verdict.model_validate(answer["verdict"])
        yield Grade(answer["number"], verdict, answer["error"])


def _read(process: subprocess.Popen[bytes], found: queue.SimpleQueue[Grade | None]) -> None:
    for grade in grades(process):
        found.put(grade)
    found.put(None)
