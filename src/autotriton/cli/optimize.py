"""`autotriton optimize TASK`: the best verified kernel for a task, as files. Exit 0 written, 1 none found."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotriton.cli.judge import Device, SandboxKind, judging
from autotriton.errors import AutoTritonError
from autotriton.types import Attempt, Mode, Policy, Task, Tier

if TYPE_CHECKING:
    from autotriton.loop import OptimizeOptions, Result
    from autotriton.propose import Proposer
    from autotriton.store import Run

DEFAULT_PROPOSER = "auto"


def optimize(
    task: Annotated[str, typer.Argument(metavar="TASK", help="file.py with Model and get_inputs, or file.py:Name.")],
    proposer: Annotated[
        list[str] | None,
        typer.Option(help="auto | compiler | model[:PATH] | endpoint:URL#MODEL | files:DIR. Repeatable.", metavar="P"),
    ] = None,
    budget: Annotated[str | None, typer.Option(metavar="N|60s", help="Candidates, or time: 8, 60s, 2m.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write; optimized/<task> by default.")
    ] = None,
    policy: Annotated[Policy, typer.Option(help="How much torch may compute.")] = Policy.STRICT,
    tier: Annotated[Tier | None, typer.Option(help="How far to go; by default as far as the machine allows.")] = None,
    device: Annotated[Device, typer.Option(help="Where candidates run.")] = Device.AUTO,
    mode: Annotated[Mode, typer.Option(help="The module's mode before forward.")] = Mode.TRAIN,
    tf32: Annotated[bool, typer.Option("--tf32", help="TF32 matmuls are permitted.")] = False,
    allow_degenerate: Annotated[
        bool, typer.Option("--allow-degenerate", help="Go on with a task whose verdicts prove little, and say so.")
    ] = False,
    sandbox: Annotated[SandboxKind, typer.Option(help="What holds the candidates.")] = SandboxKind.AUTO,
    target: Annotated[
        list[str] | None, typer.Option(help="Compile for this architecture, e.g. sm_80. Repeatable.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="For each run of a candidate.")] = None,
    input: Annotated[
        list[str] | None, typer.Option(help='"8x1024:float32", "8:int64<1000", "0.5", "name=8x16:bf16". Repeatable.')
    ] = None,
    init: Annotated[list[str] | None, typer.Option(help="Constructor argument, e.g. 64. Repeatable.")] = None,
    samples: Annotated[int | None, typer.Option(help="First answers asked of a language model.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of a language model.")] = None,
    retune: Annotated[bool, typer.Option("--retune", help="Tune again what was tuned before.")] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Also write a package that registers the kernels as a custom op.")
    ] = False,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where attempts are recorded.")] = Path("runs"),
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with an interrupted run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Find a verified Triton kernel for a task; on a GPU also tune and time it."""
    from autotriton.report import folder
    from autotriton.tasks import source

    asked = judging(policy, tier, device, allow_degenerate, sandbox, target, timeout)
    specs = _specs(proposer or [DEFAULT_PROPOSER])
    asking = {k: v for k, v in (("samples", samples), ("temperature", temperature)) if v is not None}
    options = _options(asked, budget, retune)
    loaded = source.load(task, mode=mode, tf32=tf32, inputs=input or (), init=init or ())
    proposers = _proposers(specs, asking)
    place = out or Path("optimized", folder.stem(loaded))
    folder.require_writable(place)
    if sandbox is SandboxKind.NONE:
        print("warning: without a sandbox candidates can do whatever you can do", file=sys.stderr)
    config = {"task": loaded.id, "task_hash": loaded.hash, "proposers": specs, **asking, **asked, "budget": budget}
    with _run(runs, resume, config) as run:
        result = _optimize(loaded, proposers, options, run, place)
        files = folder.write(place, result, run.info)
        exit_code = 0 if result.winner is not None else 1
        if export and result.winner is not None:
            result, exit_code = _export(result, result.winner, files, place / "package")
    _print(result, files, run, as_json)
    raise typer.Exit(exit_code)


def _options(judging: Mapping[str, Any], budget: str | None, retune: bool) -> OptimizeOptions:
    from autotriton.judge import JudgeOptions
    from autotriton.loop import OptimizeOptions, parse_budget

    parsed = parse_budget(budget) if budget is not None else None
    return OptimizeOptions(judge=JudgeOptions(**judging), budget=parsed, retune=retune)


def _specs(asked: Sequence[str]) -> list[str]:
    from autotriton.propose.auto import expanded

    return expanded(asked)


def _proposers(specs: Sequence[str], settings: Mapping[str, Any]) -> list[Proposer]:
    from autotriton.propose import proposers

    return [proposers.parse(spec, **settings) for spec in specs]


def _run(root: Path, resume: str | None, config: dict[str, Any]) -> Run:
    """A new run, or the one to go on with: everything but the budget must be as it was."""
    from autotriton.judge import JUDGE_VERSION
    from autotriton.store import Store

    if resume is None:
        return Store(root).create("optimize", config, judge_version=JUDGE_VERSION)
    path = Path(resume)
    store = Store(path.parent if len(path.parts) > 1 else root)  # a run is named by its id or by its folder
    known = store.open(path.name).info.config
    return store.resume(path.name, {**config, "budget": known.get("budget")})


def _optimize(task: Task, proposers: Sequence[Proposer], options: OptimizeOptions, run: Run, place: Path) -> Result:
    from autotriton.cli.progress import watching
    from autotriton.loop import optimize as search

    with watching() as progress:
        try:
            return search(task, proposers, options, run, progress)
        except (KeyboardInterrupt, AutoTritonError) as error:
            with contextlib.suppress(AutoTritonError):  # the first error is the one to be told
                _keep(task, run, place, interrupted=isinstance(error, KeyboardInterrupt))
            raise


def _keep(task: Task, run: Run, place: Path, *, interrupted: bool) -> None:
    """Writes down what an interrupted or broken run had found so far, and says how to go on."""
    from autotriton.loop import Result, best
    from autotriton.report import folder

    attempts = tuple(run.attempts())
    if (winner := best(attempts)) is not None:
        folder.write(place, Result(task, attempts, winner), run.info)
        print(f"kept the best so far in {place}", file=sys.stderr)
    if interrupted:
        print(f"go on with --resume {run.path}", file=sys.stderr)


def _export(result: Result, winner: Attempt, files: dict[str, Path], place: Path) -> tuple[Result, int]:
    """Adds the package to the files; where that fails the kernel is still there, but not all that was asked for."""
    from autotriton.export import export_package
    from autotriton.loop import Failed
    from autotriton.report import folder

    assert winner.verdict is not None
    try:
        name = folder.identifier(winner.task)
        files["export"] = export_package(winner.task, winner.candidate, winner.verdict, place, name)
    except AutoTritonError as error:
        return replace(result, failures=(*result.failures, Failed("export", error))), error.exit_code
    return result, 0


def _print(result: Result, files: Mapping[str, Path], run: Run, as_json: bool) -> None:
    from autotriton.cli import show

    if as_json:
        print(json.dumps(show.finite(_summary(result, files, run)), allow_nan=False))
    else:
        show.result(result, files=files, run=run.path)


def _summary(result: Result, files: Mapping[str, Path], run: Run) -> dict[str, Any]:
    winner = result.winner
    verdict = winner.verdict if winner is not None else None
    return {
        "accepted": verdict is not None,
        "task": result.task.id,
        "winner": None
        if winner is None
        else {"id": winner.candidate.id, "proposer": winner.candidate.proposer, "file": str(files["kernel"])},
        "verdict": None if verdict is None else verdict.to_json(),
        "attempts": [_attempt(attempt) for attempt in result.attempts],
        "failures": [{"who": failure.who, "cause": failure.cause} for failure in result.failures],
        "files": {kind: str(path) for kind, path in files.items()},
        "run": str(run.path),
        "seconds": round(result.seconds, 2),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    """One line of the story; the whole attempt is in the run."""
    candidate, verdict = attempt.candidate, attempt.verdict
    about: dict[str, Any] = {"id": candidate.id, "proposer": candidate.proposer, "parent_id": candidate.parent_id}
    if candidate.usage is not None:
        about["usage"] = candidate.usage.model_dump()
    if verdict is None:
        return {**about, "accepted": None, "outcome": None, "message": attempt.error}
    return {
        **about,
        "accepted": verdict.accepted,
        "outcome": verdict.outcome.value,
        "tier": verdict.tier.value,
        "message": verdict.message,
        "median_ms": None if verdict.timing is None else verdict.timing.median_ms,
        "speedups": {name: speedup.model_dump() for name, speedup in verdict.speedups.items()},
    }
