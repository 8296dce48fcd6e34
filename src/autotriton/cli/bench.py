"""`autotriton bench SUITE --root DIR`: a proposer over a suite, counted; `bench compare RUN RUN...`: runs side by side.

Exit 0 when the run is finished, whatever it found; 130 when it was interrupted.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from autotriton.cli.judge import Device, SandboxKind, judging
from autotriton.errors import AutoTritonError, JudgeError, PrerequisiteError, ProposerError, UsageError
from autotriton.types import Policy, Tier

if TYPE_CHECKING:
    from autotriton.bench.examine import Examiner
    from autotriton.bench.records import BenchRun
    from autotriton.bench.suites import Loaded
    from autotriton.bench.turns import Turns
    from autotriton.judge import JudgeOptions
    from autotriton.propose import Proposer
    from autotriton.store import Run

DEFAULT_PROPOSER = "compiler"
COMPARE = "compare"


class Style(StrEnum):
    SIMPLE = "simple"
    COMPLEX = "complex"


class Stage(StrEnum):
    """As in `bench/runner.py`, which is not imported to show a help page."""

    ALL = "all"
    ANSWER = "answer"
    SCREEN = "screen"
    JUDGE = "judge"


class Interrupted(AutoTritonError):
    """Ctrl-C: everything judged so far is kept."""

    exit_code = 130


class SuiteOrCompare(TyperCommand):
    """The verb takes a suite; `compare` in its place is a verb of its own, with its own options."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if args[:1] == [COMPARE]:
            return _comparing().make_context(f"{info_name} {COMPARE}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="kernelbench (all levels at once) | kernelbench-l1 | -l2 | -l3 | tritonbench-g | tritonbench-t | "
            "tasks | held-out; several with commas: one proposer answers all, each is a run of its own",
        ),
    ],
    root: Annotated[
        list[Path],
        typer.Option(
            metavar="DIR",
            help="The suite's checkout, a folder of task files, or a data set. For several suites once each, in order.",
        ),
    ],
    proposer: Annotated[
        str, typer.Option(help="compiler | model[:PATH] | endpoint:URL#MODEL | files:DIR", metavar="P")
    ] = DEFAULT_PROPOSER,
    k: Annotated[int, typer.Option("--k", min=1, help="Answers per task.")] = 1,
    temperature: Annotated[
        float | None, typer.Option(help="Of a language model; 0 by default for one answer, 0.7 for several.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of one answer of a language model.")] = None,
    policy: Annotated[Policy, typer.Option(help="How much torch may compute.")] = Policy.STRICT,
    tier: Annotated[
        Tier | None, typer.Option(help="How far to go; by default `time` on a GPU and `compile` without one.")
    ] = None,
    device: Annotated[Device, typer.Option(help="Where candidates run.")] = Device.AUTO,
    sandbox: Annotated[SandboxKind, typer.Option(help="What holds the candidates.")] = SandboxKind.AUTO,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many tasks.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Candidates judged at once.")] = None,
    proposal_workers: Annotated[int | None, typer.Option(min=1, help="Tasks proposed for at once.")] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="24GiB", help="GPU memory to stay within; what the card has by default.")
    ] = None,
    style: Annotated[Style, typer.Option(help="Of TritonBench's instructions.")] = Style.SIMPLE,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="For each run of a candidate.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Fresh processes per timing.")] = 3,
    timing_seconds: Annotated[float, typer.Option(min=0.05, help="Timed blocks per repetition.")] = 0.6,
    stage: Annotated[
        Stage,
        typer.Option(
            help="`answer` only asks the proposer; `screen` judges without a GPU what is there and keeps the failures; "
            "`judge` asks for nothing more."
        ),
    ] = Stage.ALL,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where runs are recorded.")] = Path("runs"),
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with an interrupted run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The counts as JSON.")] = False,
) -> None:
    """Run a proposer over a benchmark suite and count what it achieves, officially and checked.

    `autotriton bench compare RUN RUN...` shows runs side by side.
    """
    from autotriton.bench import memory as sizes
    from autotriton.bench import proposing, suites
    from autotriton.judge import JudgeOptions

    if stage in (Stage.SCREEN, Stage.JUDGE) and resume is None:
        raise UsageError(f"--stage {stage.value} needs a run with answers", hint="name it with --resume RUN")
    wanted = _wanted(suite, root, resume)
    several = [suites.load(name, place, style.value) for name, place in wanted]
    for one in several:
        tell_damaged(one)
    several = [one.limited(limit) for one in several]
    limit_bytes = None if memory is None else sizes.parse_memory(memory)
    tier = _tier(tier, device, stage)
    asked = judging(policy, tier, device, True, sandbox, None, timeout)
    options = JudgeOptions(**asked, repetitions=repetitions, timing_s=timing_seconds)
    asking = _asking(k, temperature, max_tokens)
    config = {
        "proposer": proposer,
        "k": k,
        **{name: value for name, value in asking.items() if name != "samples"},
        **asked,
        "repetitions": repetitions,
        "timing_s": timing_seconds,
        "limit": limit,
        "memory": limit_bytes,
    }
    if sandbox is SandboxKind.NONE:
        print("warning: without a sandbox candidates can do whatever you can do", file=sys.stderr)
    source = None if stage in (Stage.SCREEN, Stage.JUDGE) else _proposer(proposer, asking)
    how = _How(options, k, workers, proposal_workers, limit_bytes)
    with contextlib.ExitStack() as stack:
        if (close := getattr(source, "close", None)) is not None:
            stack.callback(close)
        runs_of: list[tuple[Loaded, Run]] = []
        for one in several:
            own = {"suite": one.name, "suite_version": one.version, **({"style": style.value} if one.scripts else {})}
            runs_of.append((one, stack.enter_context(_run(runs, resume, {**own, **config}))))
        if stage is Stage.ALL and len(several) > 1 and close is not None and proposing.on_this_gpu(source):
            for one, run in runs_of:  # loaded once; then it leaves the GPU to the judge
                _go(run, one, source, how, Stage.ANSWER, [other for _, other in runs_of])
            close()
            stage, source = Stage.JUDGE, None
        for place, (one, run) in enumerate(runs_of):
            started = time.monotonic()
            found = _go(run, one, source, how, stage, [other for _, other in runs_of[place:]])
            spent = time.monotonic() - started
            if stage in (Stage.ANSWER, Stage.SCREEN):
                _print_stage(found, one, run, spent, as_json)
            else:
                _print(found, run, spent, as_json)
                _require_verdicts(found, [other for _, other in runs_of[place + 1 :]])


@dataclass(frozen=True)
class _How:
    """What a run is done with."""

    options: JudgeOptions
    samples: int
    workers: int | None
    proposal_workers: int | None
    memory_bytes: int | None


def _wanted(suite: str, roots: list[Path], resume: str | None) -> list[tuple[str, Path]]:
    """Suites and where each is."""
    from autotriton.bench.suites import NAMES

    names = [name.strip() for name in suite.split(",") if name.strip()]
    if len(names) > 1 and resume is not None:
        raise UsageError("--resume goes on with one run", hint="name the one suite it is over")
    if len(set(names)) < len(names):
        raise UsageError(f"a suite is named twice: {suite}", hint="name each once")
    if not names:
        raise UsageError("no suite is named", hint=f"known: {', '.join(NAMES)}")
    if len(roots) not in (1, len(names)):
        hint = "one for all, or one for each in the same order"
        raise UsageError(f"{len(names)} suites and {len(roots)} times --root", hint=hint)
    return list(zip(names, roots * len(names) if len(roots) == 1 else roots, strict=True))


def tell_damaged(loaded: Loaded) -> None:
    """One line each on stderr: a file that should be a task and is none must not vanish in silence."""
    from autotriton.report.text import visible

    for name, reason in loaded.damaged.items():
        print(visible(f"skipped {name}: {reason}"), file=sys.stderr)
    if loaded.ignored:
        named = ", ".join(f"{name}.py" for name in loaded.ignored[:5]) + (", ..." if len(loaded.ignored) > 5 else "")
        print(visible(f"no tasks, as they have no class `Model`: {named}"), file=sys.stderr)


def _tier(asked: Tier | None, device: Device, stage: Stage) -> Tier:
    """How far the run goes in the end; asking and screening need no GPU themselves."""
    from autotriton import machine

    gpu = device is not Device.CPU and machine.describe().gpu is not None
    if asked is Tier.TIME and not gpu and stage not in (Stage.ANSWER, Stage.SCREEN):
        raise PrerequisiteError("timing needs a CUDA device and none was found", hint="leave --tier out")
    return asked or (Tier.TIME if gpu else Tier.COMPILE)


def _asking(k: int, temperature: float | None, max_tokens: int | None) -> dict[str, Any]:
    """How a language model is asked: k independent answers, none refined; the best guess where there is one."""
    if temperature is None and k == 1:
        temperature = 0.0
    given = {"temperature": temperature, "max_tokens": max_tokens}
    return {"samples": k, "turns": 1, **{name: value for name, value in given.items() if value is not None}}


def _proposer(spec: str, settings: dict[str, Any]) -> Proposer:
    from autotriton.propose import proposers

    return proposers.parse(spec, **settings)


def _run(root: Path, resume: str | None, config: dict[str, Any]) -> Run:
    from autotriton.bench import records
    from autotriton.judge import JUDGE_VERSION
    from autotriton.store import Store

    if resume is None:
        return Store(root).create(records.VERB, config, judge_version=JUDGE_VERSION)
    return Store(records.place(resume, root)).resume(Path(resume).name, config)


def _go(
    run: Run, loaded: Loaded, proposer: Proposer | None, how: _How, stage: Stage, unfinished: Sequence[Run]
) -> BenchRun:
    """The run, finished or as far as the stage goes. Whatever ends it early is one line that says how to go on with
    all that is `unfinished` then.
    """
    from autotriton.bench import runner, suites
    from autotriton.bench.turns import Turns
    from autotriton.cli.bench_progress import watching
    from autotriton.report.text import visible

    examiner: Examiner | None = None
    options = how.options
    try:
        screening = stage is Stage.SCREEN
        examiner = suites.examiner(
            loaded,
            options,
            workers=how.workers,
            samples=how.samples,
            memory_bytes=how.memory_bytes,
            screening=screening,
        )
        suite = suites.begin(run, loaded, examiner, how.memory_bytes)
        for name, reason in suite.skipped.items():
            if name not in loaded.damaged:
                print(visible(f"skipped {name}: {reason}"), file=sys.stderr)
        asked = runner.RunnerOptions(
            how.samples,
            options.policy,
            options.tier,
            how.proposal_workers,
            Turns() if screening else _turns(options),
            runner.Stage(stage.value),
        )
        with watching() as tell:
            return runner.bench(run, suite, loaded.tasks, proposer, examiner, asked, tell)
    except KeyboardInterrupt:
        kept = sum(1 for _ in run.attempts())
        raise Interrupted(f"interrupted; {kept} attempts are kept", hint=_again(unfinished)) from None
    except AutoTritonError as error:
        hint = f"{error.hint}; then {_again(unfinished)}" if error.hint else _again(unfinished)
        raise type(error)(str(error.args[0]), hint=hint) from error
    finally:
        if (close := getattr(examiner, "close", None)) is not None:
            close()


def _turns(options: JudgeOptions) -> Turns:
    """With other runs, where candidates run on a GPU."""
    from autotriton import machine
    from autotriton.bench.turns import Turns, on_the_gpu

    on_gpu = (
        options.device != Device.CPU and options.tier in (Tier.RUN, Tier.TIME) and machine.describe().gpu is not None
    )
    return on_the_gpu(lambda line: print(line, file=sys.stderr)) if on_gpu else Turns()


def _again(runs: Sequence[Run]) -> str:
    each = (f"{run.info.config.get('suite')}, the same options and --resume {run.path}" for run in runs)
    return f"go on with {'; with '.join(each)}"


def _print(found: BenchRun, run: Run, seconds: float, as_json: bool) -> None:
    from autotriton.bench import metrics, records
    from autotriton.cli import show, show_bench

    scores = [metrics.score(channel) for channel in records.channels(found)]
    if as_json:
        counted = [score.model_dump(mode="json") for score in scores]
        several = {"suite": found.suite.name, "channels": counted}
        about = {"run": str(run.path), **(counted[0] if len(counted) == 1 else several), "seconds": round(seconds, 1)}
        print(json.dumps(show.finite(about), allow_nan=False))
        return
    show_bench.scores(scores)
    print(f"run  {run.path}")


def _print_stage(found: BenchRun, loaded: Loaded, run: Run, seconds: float, as_json: bool) -> None:
    """A run that is not finished has no score."""
    from autotriton.bench.answers import Shelf

    there = Shelf(run.path).known({task.id: task for task in loaded.tasks})
    answers = len({(one.task.id, one.sample) for one in there})
    if not answers:
        _require_verdicts(found)
    judged = sum(attempt.verdict is not None for attempt in found.attempts)
    if as_json:
        about = {"run": str(run.path), "answers": answers, "judged": judged, "seconds": round(seconds, 1)}
        print(json.dumps(about))
        return
    print(f"{answers:,} answers, {judged:,} of them judged; {_again([run])}")


def _require_verdicts(found: BenchRun, left: Sequence[Run] = ()) -> None:
    """A run in which nothing was judged is a failure of whoever kept it from being judged; `left` then waits."""
    from autotriton.bench.answers import PROPOSER_FAILED
    from autotriton.report.text import visible

    errors = [visible(attempt.error or "") for attempt in found.attempts]
    if not errors or any(attempt.verdict is not None for attempt in found.attempts):
        return
    hint = _again(left) if left else None
    if all(error.startswith(PROPOSER_FAILED) for error in errors):
        raise ProposerError(f"no task got an answer: {errors[-1]}", hint=hint)
    raise JudgeError(f"no answer could be judged: {errors[-1]}", hint=hint)


def _comparing() -> Any:
    from autotriton.cli.compare import compare

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name=COMPARE)(compare)
    return typer.main.get_command(app)
