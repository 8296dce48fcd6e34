"""One candidate before the judge: rules, then the candidate's process fed case by case, then the work test.

The first failure names the outcome. Every conclusion here is drawn in the parent, from what the trusted reference found
in the returned bytes; what the candidate's own process reports can only count against it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

from autotriton.errors import JudgeError
from autotriton.judge import rules
from autotriton.judge.blocking_names import is_compute, is_copy
from autotriton.judge.channel import ChannelError
from autotriton.judge.forks import Ending, Process
from autotriton.judge.options import JUDGE_VERSION, JudgeOptions
from autotriton.judge.processes import Processes
from autotriton.judge.references import Aside, ReferenceClient
from autotriton.judge.sandbox.limits import Limits
from autotriton.judge.testimony import heard
from autotriton.types import Check, Finding, Kernel, Outcome, Policy, Severity, Task, Tier, Verdict

Progress = Callable[[str], None]
_REPEATS = 2
_MANDATORY_CASES = 3
"""Two draws and sign-mixed: always run; the other distributions while time allows."""
_MOST_LATE_CALLS = 64
NO_COMPILATION = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError")
"""Exceptions that say that a kernel does not compile."""
_CASES_SHARE = 0.6
"""Of a candidate's time, for its cases; the rest is for loading and the work test."""


class Decided(Exception):
    """The outcome is known; unwinds to where the verdict is written."""

    def __init__(self, outcome: Outcome, tier: Tier, message: str) -> None:
        super().__init__(message)
        self.outcome, self.tier, self.message = outcome, tier, message


class Strayed(Decided):
    """A kernel accessed memory outside its tensors."""


@dataclass
class Trial:
    """What is known about one candidate so far."""

    task: Task
    code: str
    options: JudgeOptions
    processes: Processes
    progress: Progress = lambda _: None
    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    torch_ops: dict[str, int] = field(default_factory=dict)
    launches: list[dict[str, Any]] = field(default_factory=list)
    stage_seconds: dict[str, float] = field(default_factory=dict)
    references: list[ReferenceClient] = field(default_factory=list)
    """In use until the verdict."""
    deterministic: bool | None = None
    triton_share: float | None = None
    peak_memory_bytes: int | None = None
    more: dict[str, Any] = field(default_factory=dict)
    """Timing fields of the verdict."""
    aside: Aside = nullcontext
    """Entered around every wait for other candidates."""
    whole_gpu: bool = False
    """Nobody else may have memory on the GPU."""

    def verdict(self, outcome: Outcome, tier: Tier, message: str) -> Verdict:
        return Verdict(
            outcome=outcome,
            message=message,
            policy=self.options.policy,
            tier=tier,
            findings=tuple(self.findings),
            checks=tuple(self.checks),
            kernels=tuple(self.kernels.values()),
            torch_ops=self.torch_ops,
            triton_share=self.triton_share,
            deterministic=self.deterministic,
            notes=tuple(self.notes),
            stage_seconds={name: round(seconds, 4) for name, seconds in self.stage_seconds.items()},
            peak_memory_bytes=self.peak_memory_bytes,
            machine=self.processes.machine(),
            judge_version=JUDGE_VERSION,
            **self.more,
        )

    def start_over(self) -> None:
        """Forget what another tier found; the rules' findings and the task's notes stay."""
        self.checks.clear()
        self.kernels.clear()
        self.findings = [finding for finding in self.findings if finding.rule != "torch-compute"]
        self.notes = [note for note in self.notes if not note.startswith(("not deterministic", "kernel `"))]
        self.deterministic, self.triton_share = None, None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.progress(name)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.stage_seconds[name] = self.stage_seconds.get(name, 0.0) + time.perf_counter() - started


def entries(task: Task) -> list[str]:
    """Names a replacement may have, best first."""
    return ["ModelNew"] if task.entry == "Model" else ["ModelNew", f"{task.entry}New", f"{task.entry}_new", task.entry]


def gate(trial: Trial) -> None:
    """Tier 1: the source, without running it."""
    with trial.stage("rules"):
        if not rules.has_code(trial.code):
            raise Decided(Outcome.NO_CODE, Tier.RULES, "the candidate holds no code")
        if trial.options.trust_candidate:
            return
        names = entries(trial.task)
        entry = next((name for name in names if f" {name}" in trial.code), names[0])
        trial.findings += rules.scan(trial.code, trial.options.policy, entry)
        errors = [finding for finding in trial.findings if finding.severity is Severity.ERROR]
        if errors:
            where = f"line {errors[0].line}: " if errors[0].line else ""
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise Decided(Outcome.REJECTED, Tier.RULES, f"{where}{errors[0].message}{more}")


@dataclass
class Bench:
    """A candidate's process at work on one reference session."""

    RUNNING: ClassVar[str] = "in forward"
    """Where an exception came from, in words."""
    trial: Trial
    reference: ReferenceClient
    device: str
    tier: Tier
    process: Process
    session: int

    # --- talking to the candidate -------------------------------------------------------------------------

    def ask(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        """One request; whatever the candidate's process does instead of answering becomes a verdict."""
        try:
            self.process.channel.send(message, descriptors)
            received, extra = self.process.receive(self.trial.options.timeout_s + 5)
        except ChannelError:
            raise self._ended() from None
        answer = heard(received)
        if answer is None or extra:
            for descriptor in extra:
                os.close(descriptor)
            raise Decided(Outcome.CRASHED, self.tier, "its process answered something malformed")
        if answer["error"] is not None:
            raise self._failed(message["do"], answer["error"])
        return answer

    def _ended(self) -> Decided:
        return ended(self.process.end(abandon=False, timeout_s=10), self.tier)

    def _failed(self, do: str, error: dict[str, Any]) -> Decided:
        self._absorb(error)
        line, kind = error.get("line"), error.get("kind")
        where = f"line {line}: " if isinstance(line, int) else ""
        text = f"{error.get('type')}: {error.get('text')}"
        self.raise_on_evidence(error)
        if kind == "unsupported":
            return Decided(
                Outcome.RUNTIME_ERROR, self.tier, f"{where}Triton's interpreter cannot run this kernel ({text})"
            )
        if kind == "blocked":
            return self._delegates(error)
        if kind == "unusable":
            return Decided(Outcome.REJECTED if do == "load" else Outcome.WRONG, self.tier, str(error.get("text")))
        if error.get("out_of_memory"):
            return Decided(Outcome.RUNTIME_ERROR, self.tier, f"{where}out of memory: {str(error.get('text'))[:200]}")
        if error.get("type") in NO_COMPILATION:
            return Decided(Outcome.COMPILE_ERROR, Tier.COMPILE, f"{where}{text}")
        stage = "while it was imported and constructed" if do == "load" else self.RUNNING
        return Decided(Outcome.RUNTIME_ERROR, self.tier, f"{where}raised {stage}: {text}")

    def _delegates(self, evidence: dict[str, Any]) -> Decided:
        blocked = evidence.get("blocked") or [["a torch operator", None]]
        operator, line = str(blocked[0][0]), blocked[0][1]
        message = f"`{operator}` is left to torch; under the strict policy a Triton kernel must compute it"
        self.trial.findings.append(
            Finding(
                rule="torch-compute",
                severity=Severity.ERROR,
                message=message,
                line=line if isinstance(line, int) else None,
            )
        )
        return Decided(Outcome.REJECTED, self.tier, f"line {line}: {message}" if line else message)

    def _absorb(self, answer: dict[str, Any]) -> None:
        """Keep what was seen of launches and kernels."""
        for name, count in (answer.get("launches") or {}).items():
            known = (answer.get("kernels") or {}).get(name, {})
            self.trial.kernels[str(name)] = Kernel(name=str(name), launches=int(count), **known)
        self.trial.launches = list(answer.get("described") or self.trial.launches)
        if answer.get("types"):
            self.trial.processes.launched(answer["types"])

    def raise_on_evidence(self, answer: dict[str, Any]) -> None:
        """Whatever the candidate did in passing, even when it caught the exception."""
        if answer.get("violations"):
            raise Strayed(Outcome.RUNTIME_ERROR, self.tier, str(answer["violations"][0]))
        if answer.get("blocked"):
            raise self._delegates(answer)
        strict = self.trial.options.policy is Policy.STRICT and not self.trial.options.trust_candidate
        if strict and answer.get("casts"):
            text = f"torch casts {answer['casts'][0]}, which is arithmetic: convert inside the kernel"
            raise Decided(Outcome.REJECTED, self.tier, text)
        if answer.get("broken_fences"):
            text = "a kernel wrote past the end of a tensor that was allocated in forward: check the store's mask"
            raise Decided(Outcome.WRONG, self.tier, text)

    # --- the runs -----------------------------------------------------------------------------------------

    def load(self, interpret: bool, session: dict[str, Any], descriptors: list[int]) -> None:
        about, options = self.reference.about, self.trial.options
        policy = "trusted" if options.trust_candidate else str(options.policy)
        self.ask(
            {
                "do": "load",
                "code": self.trial.code,
                "device": self.device,
                "policy": policy,
                "interpret": interpret,
                "entries": ["Model"] if options.trust_candidate else entries(self.trial.task),
                "mode": str(self.trial.task.mode),
                "is_function": about["is_function"],
                "init": about["init"],
                "init_seed": about["init_seed"],
                "helpers": about["helpers"],
                "tf32": self.trial.task.tf32,
                **session,
            },
            tuple(descriptors),
        )

    def call(self, case: int, *, poison: int, noop: bool = False, times: int = 1) -> dict[str, Any]:
        """One forward (or several) on one case, as the candidate's process answers it."""
        call = self.reference.ask("fill", self.session, case=case)
        if refused := call.pop("refused", None):
            note = f"another plain draw in place of {refused}: the reference does not take it"
            self.trial.notes += [note] if note not in self.trial.notes else []
        return self.ask({"do": "run", **call, "poison": poison, "noop": noop, "config_index": case, "times": times})

    def check(self, case: int, answer: dict[str, Any], **more: bool) -> tuple[Check, bool | None]:
        kept = {key: answer.get(key) for key in ("leaves", "state", "structure", "aliases")}
        found = self.reference.ask("check", self.session, case=case, answer=kept, **more)
        return Check.model_validate(found["check"]), found["same"]

    def run_case(self, case: int, *, poison: int, times: int = 1, **more: bool) -> bool | None:
        answer = _per_call(self.call(case, poison=poison, times=times), times)
        self._absorb(answer)
        self.raise_on_evidence(answer)
        check, same = self.check(case, answer, **more)
        again = "differs between two calls on the same input" if more.get("repeat") else f"on call {times} of {times}"
        if not check.passed and (more.get("repeat") or times > 1):
            check = check.model_copy(update={"detail": f"{again}: {check.detail}"})
        if not check.passed or not (more.get("repeat") or times > 1):
            self.trial.checks.append(check)
        if not check.passed:
            raise Decided(Outcome.WRONG, self.tier, f"wrong on case {check.inputs}: {check.detail}")
        self.answer = answer
        return same


def _per_call(answer: dict[str, Any], times: int) -> dict[str, Any]:
    """What was counted over several calls, as for one of them."""
    counted = {
        key: {name: -(-int(number) // times) for name, number in (answer.get(key) or {}).items()}
        for key in ("launches", "operators", "moved_bytes")
    }
    return {**answer, **counted, "torch_cost": [float(part) / times for part in answer.get("torch_cost") or [0, 0]]}


def correctness(bench: Bench, stage: str = "cases") -> None:
    """Tiers 2 or 4 and 6: every case, two poisons, the same input again; then the work test."""
    trial, clock = bench.trial, bench.process.clock  # not the wall's: the process may be stopped for a while
    started = clock()
    count, budget = len(bench.reference.about["cases"]), trial.options.timeout_s * _CASES_SHARE
    skipped = 0
    with trial.stage(stage):
        bench.run_case(0, poison=0, remember=True)
        affordable = budget / max(clock() - started, 1e-6)
        repeats = _REPEATS if affordable > _MANDATORY_CASES + _REPEATS + 1 else 1
        same = [bench.run_case(0, poison=1 - repeat % 2, repeat=True) for repeat in range(repeats)]
        trial.deterministic, ran = all(same), 1 + repeats
        # The second draw comes last: what follows uses it again, and of a large task only the latest case is kept.
        for case in [*range(2, count), *range(1, min(2, count))]:
            if case >= _MANDATORY_CASES and clock() - started > budget:
                skipped += 1
                continue
            bench.run_case(case, poison=case % 2)
            ran += 1
        if skipped:
            trial.notes.append(f"{skipped} of {count} input distributions were skipped for lack of time")
        per_call = (clock() - started) / ran
        many = min(_MOST_LATE_CALLS, int(trial.options.late_calls_s / max(per_call, 1e-4)))
        # A candidate may change its ways after a few calls; how many, it cannot know. Calls that change their input
        # cannot be repeated on it.
        if many > 2 and not bench.reference.about["mutates"]:
            bench.run_case(1 if count > 1 else 0, poison=0, times=many // 2 + secrets.randbelow(many // 2 + 1))
    if not trial.deterministic:
        trial.notes.append("not deterministic: the same input gave other bits within tolerance")
    work(bench, 1 if count > 1 else 0)


def work(bench: Bench, case: int) -> None:
    """Tier 5: Triton did the work: launches happened, torch computed nothing, without launches the answer breaks."""
    trial, about = bench.trial, bench.reference.about
    operators = bench.answer.get("operators") or {}
    compute = {str(name): int(number) for name, number in operators.items() if is_compute(str(name))}
    if trial.options.trust_candidate or trial.options.policy is Policy.PAPER:
        trial.torch_ops = compute
        return
    if not sum(kernel.launches for kernel in trial.kernels.values()):
        raise Decided(Outcome.NO_WORK, bench.tier, "no Triton kernel was launched in forward")
    if trial.options.policy is Policy.STRICT and about["moves_only"] and any(is_copy(str(name)) for name in operators):
        moved = sum(int(n) for name, n in (bench.answer.get("moved_bytes") or {}).items() if is_copy(str(name)))
        if moved * 4 >= about["bytes"] / 2:
            text = "the task is a copy in another layout, and torch makes it here: do it in the kernel"
            raise Decided(Outcome.REJECTED, bench.tier, text)
    if trial.options.policy is Policy.MIXED:
        _share(trial, bench, compute)
    with trial.stage("work"):
        _without_launches(bench, case)


def _share(trial: Trial, bench: Bench, compute: dict[str, int]) -> None:
    """Mixed policy: how much of the reference's work is left to torch, by a roofline estimate of its operators."""
    trial.torch_ops = compute
    spent, about = bench.answer.get("torch_cost") or [0, 0], bench.reference.about
    left = _roofline_seconds(float(spent[0]), float(spent[1]))
    total = max(_roofline_seconds(about["op_flops"], about["op_bytes"]), 1e-12)
    trial.triton_share = max(0.0, 1.0 - left / total)
    if trial.triton_share < trial.options.mixed_share:
        names = ", ".join(sorted(compute)[:3])
        least = f"{trial.options.mixed_share:.0%} is needed"
        text = f"Triton does {trial.triton_share:.0%} of the work and torch the rest ({names}); {least}"
        raise Decided(Outcome.NO_WORK, bench.tier, text)


def _roofline_seconds(flops: float, moved: float) -> float:
    # An H200's fp32 matmul and copy rates; only the ratio of the two matters here.
    return flops / 50e12 + moved / 4.3e12


def _without_launches(bench: Bench, case: int) -> None:
    """Make every launch do nothing: an answer that survives came from somewhere else."""
    try:
        answer = bench.call(case, poison=0, noop=True)
    except Decided:
        return  # it broke, as it should
    check, _ = bench.check(case, answer)
    if check.passed:
        text = "the answer stays right when no kernel runs: it does not come from the Triton kernels"
        raise Decided(Outcome.NO_WORK, bench.tier, text)


def ended(ending: Ending, tier: Tier) -> Decided:
    """How a candidate's process ended, as a verdict."""
    tail = f": {ending.output.strip()[-300:]}" if ending.output.strip() else ""
    if ending.reason in ("deadline", "stuck"):
        slow = "; Triton's interpreter is slow, so raise --timeout if it is only that" if tier is Tier.INTERPRET else ""
        return Decided(
            Outcome.TIMED_OUT, tier, f"ran past its deadline: look for an endless loop or a far too large grid{slow}"
        )
    if ending.reason.startswith("monitor"):
        raise JudgeError(f"the sandbox could not be set up: {ending.reason}", hint="run `autotriton doctor`")
    if ending.reason in ("memory", "processes", "disk"):
        return Decided(Outcome.CRASHED, tier, f"was stopped for using too much of: {ending.reason}")
    if ending.exit_code < 0:
        return Decided(Outcome.CRASHED, tier, f"crashed with signal {-ending.exit_code}{tail}")
    return Decided(
        Outcome.CRASHED, tier, f"ended its process (exit code {ending.exit_code}) instead of answering{tail}"
    )


def candidate_limits(device: str, options: JudgeOptions, processes: Processes) -> Limits:
    if device == "cpu":
        return Limits(deadline_s=options.timeout_s)
    return Limits(
        deadline_s=options.timeout_s,
        devices=True,
        allow_processes=True,
        memory_bytes=16 << 30,
        triton_seed=processes.triton_seed(),
    )
