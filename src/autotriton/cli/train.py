"""`autotriton train sft|grpo CONFIG`: real training, resumable. Exit 0 done, 1 stopped by itself.

`train compare` is in `train_compare.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotriton.cli import train_compare

if TYPE_CHECKING:
    from autotriton.data.rows import TaskRow
    from autotriton.store import Run
    from autotriton.train.config import Config
    from autotriton.train.running import Outcome

app = typer.Typer(help="Train a model to write kernels: SFT on verified pairs, then GRPO with the judge's word.")

_Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file; configs/train/ has examples.")]
_Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change one value of the config. Repeatable.")
]
_Runs = Annotated[Path, typer.Option(metavar="DIR", help="Where the run is recorded.")]
_Resume = Annotated[str | None, typer.Option(metavar="RUN", help="Go on with an interrupted run.")]
_Seconds = Annotated[
    int | None,
    typer.Option(metavar="S", min=0, help="Save a checkpoint and end after this long; go on with --resume."),
]
_Check = Annotated[bool, typer.Option("--check", help="Only check the config and the data.")]
_Json = Annotated[bool, typer.Option("--json", help="The result as JSON.")]


@app.command()
def sft(
    config: _Config, set: _Set = None, runs: _Runs = Path("runs"), resume: _Resume = None, seconds: _Seconds = None,
    check: _Check = False, as_json: _Json = False,
) -> None:  # fmt: skip
    """Supervised fine-tuning: the model learns from pairs the judge verified."""
    from autotriton.data.rows import Example
    from autotriton.train.config import SftConfig, load
    from autotriton.train.dataset import read

    wanted = load(SftConfig, config, set or ())
    if check:
        _checked(wanted, read(Example, wanted.data.train, wanted.data.limit), as_json)
        return
    from autotriton.train import sft as training

    with _run("sft", wanted, runs, resume) as run:
        _print(training.train(wanted, run, seconds), run, as_json)


@app.command()
def grpo(
    config: _Config, set: _Set = None, runs: _Runs = Path("runs"), resume: _Resume = None, seconds: _Seconds = None,
    check: _Check = False, as_json: _Json = False,
) -> None:  # fmt: skip
    """Reinforcement learning: groups of answers, rewarded where the judge finds rule AND execution fulfilled."""
    from autotriton.data.rows import TaskRow
    from autotriton.train.config import GrpoConfig, load
    from autotriton.train.dataset import read

    wanted = load(GrpoConfig, config, set or ())
    if check:
        _checked(wanted, read(TaskRow, wanted.data.train, wanted.data.limit), as_json)
        return
    from autotriton.train import grpo as training

    with _run("grpo", wanted, runs, resume) as run:
        _print(training.train(wanted, run, seconds), run, as_json)


app.command()(train_compare.compare)


def _run(verb: str, config: Config, runs: Path, resume: str | None) -> Run:
    """The run, new or gone on with. Of several processes the first makes it, and the others only look."""
    from autotriton.errors import UsageError
    from autotriton.judge import JUDGE_VERSION
    from autotriton.store import Store
    from autotriton.train import processes
    from autotriton.train.config import plain

    first: list[Run] = []

    def make() -> str:
        if resume is None:
            store = Store(runs)
            made = store.create(verb, plain(config), judge_version=JUDGE_VERSION)
            print(f"run {made.path}", file=sys.stderr)
        else:
            path = Path(resume)
            store = Store(path.parent if len(path.parts) > 1 else runs)  # a run is named by its id or by its folder
            made = store.open(path.name)
            if made.info.verb != verb:
                raise UsageError(f"run {made.id} is one of `{made.info.verb}`", hint=f"name one of `train {verb}`")
        first.append(store.resume(made.id, plain(config)))  # a new one too: nobody else may write it
        return str(first[0].path.absolute())

    path = Path(processes.made_once(make))
    return first[0] if first else Store(path.parent).open(path.name)


def _checked(config: Config, rows: Sequence[TaskRow], as_json: bool) -> None:
    from autotriton.train.config import plain
    from autotriton.train.dataset import apart

    used = apart(rows, config.data.held_out)
    if as_json:
        print(json.dumps({"config": plain(config), "rows": len(rows), "used": len(used)}))
    else:
        shared = f", {len(rows) - len(used)} of them share a program with a held-out task" if used != rows else ""
        print(f"the config is fine; {len(rows)} rows{shared}")


def _print(outcome: Outcome, run: Run, as_json: bool) -> None:
    from autotriton.train import processes

    if not processes.is_first():
        return
    if as_json:
        about = {
            "steps": outcome.steps,
            "whole": outcome.whole,
            "left_out": outcome.unused.long,
            "held_out": outcome.unused.held_out,
        }
        print(json.dumps({**about, "result": str(outcome.folder), "run": str(run.path)}))
        return
    print(f"{'done' if outcome.whole else 'paused'} after {outcome.steps} steps: {outcome.folder}")
    if outcome.unused.long:
        print(f"{outcome.unused.long} rows were too long and left out")
    if outcome.unused.held_out:
        print(f"{outcome.unused.held_out} rows share a program with a held-out task and were left out")
    if not outcome.whole:
        print(f"go on with --resume {run.path}")
