"""`autotriton judge TASK CANDIDATE`: one verdict. Exit 0 accepted, 1 rejected."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotriton.errors import AutoTritonError, UsageError
from autotriton.types import Attempt, Candidate, Mode, Policy, Task, Tier, Verdict

if TYPE_CHECKING:
    from autotriton.store import Run


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class SandboxKind(StrEnum):
    AUTO = "auto"
    BWRAP = "bwrap"
    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"


class Baseline(StrEnum):
    EAGER = "eager"
    COMPILE = "compile"


def judge(
    task: Annotated[str, typer.Argument(metavar="TASK", help="file.py with Model and get_inputs, or file.py:Name.")],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="The Triton program to be judged.")],
    policy: Annotated[Policy, typer.Option(help="How much torch may compute.")] = Policy.STRICT,
    tier: Annotated[Tier | None, typer.Option(help="How far to go; by default as far as the machine allows.")] = None,
    device: Annotated[Device, typer.Option(help="Where candidates run.")] = Device.AUTO,
    mode: Annotated[Mode, typer.Option(help="The module's mode before forward.")] = Mode.TRAIN,
    tf32: Annotated[bool, typer.Option("--tf32", help="TF32 matmuls are permitted.")] = False,
    allow_degenerate: Annotated[
        bool, typer.Option("--allow-degenerate", help="Judge a task whose verdicts prove little, and say so.")
    ] = False,
    sandbox: Annotated[SandboxKind, typer.Option(help="What holds the candidate.")] = SandboxKind.AUTO,
    target: Annotated[
        list[str] | None, typer.Option(help="Also compile for this architecture, e.g. sm_80. Repeatable.")
    ] = None,
    baseline: Annotated[list[Baseline] | None, typer.Option(help="What to time against. Repeatable.")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes the secret inputs, to repeat a verdict.")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="For each run of the candidate.")] = None,
    input: Annotated[
        list[str] | None, typer.Option(help='"8x1024:float32", "8:int64<1000", "0.5", "name=8x16:bf16". Repeatable.')
    ] = None,
    init: Annotated[list[str] | None, typer.Option(help="Constructor argument, e.g. 64. Repeatable.")] = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", "--store", metavar="DIR", help="Record the attempt in a new run here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The verdict as JSON.")] = False,
) -> None:
    """Judge one candidate: does it do the task's work, in Triton, and how fast?"""
    from autotriton.cli import show
    from autotriton.tasks import source

    options = {
        **judging(policy, tier, device, allow_degenerate, sandbox, target, timeout),
        "seed": seed,
        **({"baselines": tuple(b.value for b in baseline)} if baseline else {}),
    }
    loaded = source.load(task, mode=mode, tf32=tf32, inputs=input or (), init=init or ())
    code = source.read(candidate, "candidate")
    if sandbox is SandboxKind.NONE:
        print("warning: without a sandbox the candidate can do whatever you can do", file=sys.stderr)
    run = _new_run(runs, {"task": task, "candidate": str(candidate), "mode": mode, "tf32": tf32, **options})
    with _progress() as report:
        verdict = _judge(loaded, code, options, run, report)
    if as_json:
        print(json.dumps(show.finite(verdict.to_json()), allow_nan=False))
    else:
        show.verdict(verdict, task=loaded.id, run=str(run.path) if run else None)
    raise typer.Exit(0 if verdict.accepted else 1)


def judging(
    policy: Policy,
    tier: Tier | None,
    device: Device,
    allow_degenerate: bool,
    sandbox: SandboxKind,
    target: list[str] | None,
    timeout: float | None,
) -> dict[str, Any]:
    """Options of the judge from those of a verb. What is not given stays at the judge's own default."""
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise UsageError(f"--timeout must be a positive number of seconds, not {timeout}")
    return {
        "policy": policy,
        "tier": tier,
        "device": device.value,
        "allow_degenerate": allow_degenerate,
        "sandbox": sandbox.value,
        **({"targets": tuple(target)} if target else {}),
        **({"timeout_s": timeout} if timeout is not None else {}),
    }


def _judge(task: Task, code: str, options: dict[str, Any], run: Run | None, report: Callable[[str], None]) -> Verdict:
    """The verdict, recorded in the run when there is one; a judge that broke is recorded as such."""
    from autotriton.judge import JudgeOptions
    from autotriton.judge import judge as decide

    candidate = Candidate(task_id=task.id, code=code)
    try:
        verdict = decide(task, code, JudgeOptions(**options), progress=report)
    except AutoTritonError as error:
        if run is not None and not isinstance(error, UsageError):
            run.append(Attempt(run_id=run.id, task=task, candidate=candidate, verdict=None, error=str(error)))
        raise
    if run is not None:
        run.append(Attempt(run_id=run.id, task=task, candidate=candidate, verdict=verdict))
    return verdict


def _new_run(root: Path | None, config: dict[str, Any]) -> Run | None:
    if root is None:
        return None
    from autotriton.judge import JUDGE_VERSION
    from autotriton.store import Store

    return Store(root).create("judge", config, judge_version=JUDGE_VERSION)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A spinner with the current stage, on stderr; nothing where that is not a terminal."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda stage: None
        return
    with console.status("starting") as status:
        yield lambda stage: status.update(escape(stage))
