"""What goes on beside the steps of either trainer: metrics to disk, the guard, the time limit, held-out tasks."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotriton.train import checkpoints
from autotriton.train.guard import Guard
from autotriton.train.journal import Journal
from autotriton.train.processes import agreed, is_first


class AllStepsMade(Exception):
    """Said instead of a first step by a run that has made its last one: its weights are loaded, nothing is trained."""


class Watch:
    """State the callback shares with the run: why it stopped, if it did."""

    def __init__(
        self,
        journal: Journal,
        guard: Guard,
        *,
        seconds: float | None = None,
        saving: Callable[[Path], None] | None = None,
        solve: Callable[[], dict[str, float]] | None = None,
        solve_every: int = 0,
        keep: int = 1,
    ) -> None:
        self.journal, self.guard = journal, guard
        self.stopped: str | None = None
        """Why the run should not go on."""
        self.out_of_time = False
        """It can: it was asked to end after so many seconds."""
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._longest_step = 0.0
        self._step_began = time.monotonic()
        self._last_step = 0.0
        self._saving, self._solve, self._solve_every = saving, solve, solve_every
        self._keep = keep

    def train(self, state: Any) -> None:
        """The trainer looks at its number of steps after a step only, and would make one too many."""
        if state.global_step >= state.max_steps:
            raise AllStepsMade

    def begin(self) -> None:
        self._step_began = time.monotonic()

    def step(self, state: Any, control: Any) -> None:
        """A step that would not end in time is not begun."""
        self._last_step = time.monotonic() - self._step_began
        self._longest_step = max(self._longest_step, self._last_step)
        if self._solve is not None and self._solve_every and state.global_step % self._solve_every == 0:
            self._write(state.global_step, self._solve())
        if self._deadline is not None and agreed(time.monotonic() + 1.5 * self._longest_step > self._deadline):
            self.out_of_time = state.global_step < state.max_steps
            control.should_save = self.stopped is None
            control.should_training_stop = True

    def log(self, state: Any, control: Any, metrics: dict[str, Any]) -> None:
        if state.global_step == 0 or "train_runtime" in metrics:
            return
        if is_first():
            self._write(state.global_step, {**metrics, "seconds/step": round(self._last_step, 3)})
        numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float | str)
                   and _is_number(value)}  # fmt: skip
        reason = self.guard.look(numbers)
        if reason is not None and self.stopped is None:
            self.stopped = f"{reason} at step {state.global_step}"
            control.should_training_stop = True
            control.should_save = False  # the checkpoint before is the last good one

    def save(self, arguments: Any, state: Any) -> None:
        """After the trainer's own files: what is ours, then the mark that nothing is missing."""
        folder = checkpoints.at(Path(arguments.output_dir), state.global_step)
        with checkpoints.writing(self.journal.path.parent):
            if self._saving is not None:
                self._saving(folder)
            checkpoints.seal(folder, self._keep)

    def _write(self, step: int, metrics: dict[str, Any]) -> None:
        with checkpoints.writing(self.journal.path.parent):
            self.journal.write(step, metrics)


def callback(watch: Watch) -> Any:
    """The watch as transformers wants it."""
    base: Any = importlib.import_module("transformers").TrainerCallback

    class Watching(base):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch.train(state)

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch.step(state, control)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            watch.log(state, control, dict(logs or {}))

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch.save(args, state)

    return Watching()


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
