"""What SFT and GRPO runs have in common: where files go, how a run resumes, ends, and says why it ended."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotriton.errors import TrainError
from autotriton.propose.prompt import TRAINED_ON, shipped_prompt
from autotriton.store import Run
from autotriton.train import checkpoints, processes
from autotriton.train.config import Config
from autotriton.train.curves import CURVES_FILE, draw
from autotriton.train.guard import Guard
from autotriton.train.journal import Journal
from autotriton.train.watching import AllStepsMade, Watch, callback

CHECKPOINTS, RESULT = "checkpoints", "adapter"
_CURVES = ("loss", "reward", "grad_norm", "learning_rate", "entropy", "solve/pass@1", "attempts/cheated",
           "completions/mean_length", "seconds/judge", "seconds/generate")  # fmt: skip


@dataclass(frozen=True)
class Unused:
    """Rows that were not trained on."""

    long: int = 0
    held_out: int = 0
    """They share a program with a held-out task."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    steps: int
    whole: bool
    """All steps were made; else the run can be gone on with."""
    folder: Path
    """The adapter, or the whole model where none is trained."""
    unused: Unused = Unused()


def start(run: Run) -> Path | None:
    """The checkpoint a run goes on from."""
    return checkpoints.start(run.path / CHECKPOINTS)


def arguments(config: Config, run: Run) -> dict[str, Any]:
    """What both of TRL's trainers are told."""
    torch: Any = importlib.import_module("torch")
    cuda = torch.cuda.is_available()
    return {
        "output_dir": str(run.path / CHECKPOINTS),
        "per_device_train_batch_size": config.micro_batch,
        "learning_rate": config.optim.learning_rate,
        "lr_scheduler_type": config.optim.schedule,
        "warmup_steps": config.optim.warmup_steps,
        "weight_decay": config.optim.weight_decay,
        "max_grad_norm": config.optim.clip_norm,
        "seed": config.optim.seed,
        "bf16": cuda,
        "use_cpu": not cuda,
        "gradient_checkpointing": config.recompute,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # the guard must see them
        "report_to": "none",
        "save_strategy": "steps",
        "save_steps": config.save_every,
        "save_total_limit": None,  # `checkpoints.seal` removes old ones, once the new one is whole
        "disable_tqdm": not sys.stderr.isatty(),
    }


def watch(config: Config, run: Run, seconds: float | None, **more: Any) -> Watch:
    every, keep = config.solve.every, config.keep
    return Watch(Journal(run.path), Guard(config.guard), seconds=seconds, solve_every=every, keep=keep, **more)


def go(config: Config, run: Run, watch: Watch, start: Path | None, build: Callable[[], Any], unused: Unused) -> Outcome:
    """Trains, from the checkpoint to go on from if there is one; then writes the result and the curves."""
    if processes.is_first():
        with checkpoints.writing(run.path):
            watch.journal.rewind(0 if start is None else checkpoints.step_of(start))
    with _clear(config):
        trainer = build()
        trainer.add_callback(callback(watch))
        # It prints every step's metrics as a dict; they are in the journal.
        trainer.remove_callback(importlib.import_module("transformers").PrinterCallback)
        trainer._save_checkpoint = checkpoints.writing(run.path)(trainer._save_checkpoint)
        with contextlib.suppress(AllStepsMade):
            trainer.train(resume_from_checkpoint=None if start is None else str(start))
    if watch.stopped is not None:
        raise TrainError(f"the run was stopped: {watch.stopped}", hint=_last_good(run))
    steps = int(trainer.state.global_step)
    result = run.path / RESULT
    with checkpoints.writing(run.path):
        _replace(result, trainer)
        if processes.is_first():
            draw(watch.journal.rows(), _CURVES, run.path / CURVES_FILE, config.name or run.id)
    return Outcome(steps, not watch.out_of_time, result, unused)


def _replace(result: Path, trainer: Any) -> None:
    """The old result stays until the new one is whole. Beside the weights lie the questions they were trained on."""
    fresh = result.with_suffix(".new")
    if processes.is_first():
        shutil.rmtree(fresh, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    trainer.save_model(str(fresh))  # by all: each may hold a part
    trainer.accelerator.wait_for_everyone()
    if not processes.is_first():
        return
    trainer.processing_class.save_pretrained(str(fresh))
    for file, shipped in TRAINED_ON.items():
        (fresh / file).write_text(shipped_prompt(shipped) + "\n", encoding="utf-8")
    shutil.rmtree(result, ignore_errors=True)
    fresh.rename(result)


def _last_good(run: Run) -> str:
    found = checkpoints.newest(run.path / CHECKPOINTS)
    return (
        f"the last good checkpoint is {found}" if found else "no checkpoint was saved before; lower the learning rate"
    )


@contextlib.contextmanager
def _clear(config: Config) -> Any:
    """Too little memory becomes one line that says what to lower."""
    torch: Any = importlib.import_module("torch")
    try:
        yield
    except torch.OutOfMemoryError as error:
        smaller = config.micro_batch // 2
        advice = f"try micro_batch = {smaller}" if smaller else "set recompute = true, or shorten the sequences"
        raise TrainError(f"the GPU ran out of memory: {str(error).split('. ')[0]}", hint=advice) from None
