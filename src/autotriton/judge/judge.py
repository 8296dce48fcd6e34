"""The judge: one candidate in, one verdict out. The heart of the project, kept small.

Order, cheap to expensive, the first failure names the outcome: admission of the task, rules, interpret, compile, run,
work, determinism, time. A bad candidate is a verdict; a broken judge or task is an exception.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from autotriton.errors import PrerequisiteError, TaskError
from autotriton.judge import trial as trials
from autotriton.judge.channel import ChannelError
from autotriton.judge.interpretable import believable
from autotriton.judge.known_kernels import KnownKernels, excerpt
from autotriton.judge.launches import Launch
from autotriton.judge.options import JudgeOptions
from autotriton.judge.processes import Processes
from autotriton.judge.references import Aside, ReferenceClient, TooLarge
from autotriton.judge.sandbox.limits import Limits
from autotriton.judge.targets import parse_targets, unmeasured
from autotriton.judge.trial import Bench, Decided, Progress, Strayed, Trial
from autotriton.types import Kernel, Outcome, Task, Tier, Verdict

_INTERPRETER_ELEMENTS = 1 << 22
"""Beyond this many input and output elements the interpreter takes minutes: it runs about 10^6 elements a second."""
_SMALL_ELEMENTS = 1 << 20
_QUICK_ELEMENTS = 1 << 17
"""Up to this many, a second or so in the interpreter, a candidate is interpreted before it gets the GPU."""
_COMPILE_TIMEOUT_S = 300.0


class _NotOnCpu(Exception):
    """The reference does not run on a CPU."""


class Judge:
    """Holds the processes between verdicts. Use as a context manager, or call `judge` for a single one."""

    def __init__(
        self, options: JudgeOptions | None = None, *, processes: Processes | None = None, seed: int | None = None
    ) -> None:
        self.options = options or JudgeOptions()
        parse_targets(self.options.targets)
        self.processes = processes or Processes(self.options.sandbox)
        fixed = seed if seed is not None else self.options.seed
        self.seed = fixed if fixed is not None else secrets.randbelow(2**31)
        """Secret: inputs and weights follow from it."""
        self._kernels = KnownKernels()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.processes.close()

    def judge(
        self,
        task: Task,
        code: str,
        progress: Progress | None = None,
        *,
        aside: Aside = nullcontext,
        whole_gpu: bool = False,
    ) -> Verdict:
        """The verdict on one candidate. Raises TaskError, PrerequisiteError or JudgeError, never for the candidate.

        May be called from many threads: what is timed has the GPU alone in short slices, in which the others' processes
        stand still. `aside` is entered around waiting for other candidates. `whole_gpu` waits for all of its memory.
        """
        trial = Trial(task, code, self.options, self.processes, progress or (lambda _: None), aside=aside)
        trial.whole_gpu = whole_gpu
        tier = self.options.tier or Tier.RUN
        try:
            trials.gate(trial)
            if tier is Tier.RULES:
                return trial.verdict(Outcome.CORRECT, Tier.RULES, "passes the rules; nothing was run")
            return self._run(trial, tier)
        except Decided as decided:
            return trial.verdict(decided.outcome, decided.tier, decided.message)
        finally:
            for client in trial.references:
                self.processes.references.give_back(client)

    def _run(self, trial: Trial, tier: Tier) -> Verdict:
        device = self.processes.device(self.options.device)
        if tier is Tier.TIME and device != "cuda":
            raise PrerequisiteError(
                "timing needs a CUDA device and none was found", hint="use --tier run, or a GPU machine"
            )
        static = tier in (Tier.INTERPRET, Tier.COMPILE)
        with trial.stage("reference"):
            reference = self._reference(trial, "cpu" if static else device, tier)
        if static or device == "cpu":
            return self._without_gpu(trial, reference, tier)
        quick = self.options.interpret_first and reference.about["elements"] <= _QUICK_ELEMENTS
        if quick and not self.options.trust_candidate:
            self._interpret_first(trial)
        with self.bench(trial, reference, "cuda", Tier.RUN) as bench:
            trials.correctness(bench)
        if tier is Tier.TIME:
            from autotriton.judge import timing

            timing.measure(trial, reference, self)
        return trial.verdict(Outcome.CORRECT, tier, "correct on the GPU in every case, and Triton did the work")

    def _interpret_first(self, trial: Trial) -> None:
        """On a GPU machine, small tasks pass through the interpreter too.

        It alone checks the bounds of every access, and CUDA contexts are scarce: the driver makes them one after
        another, five to ten a second on an H200 however many processes ask. Only candidates that deserve one get one.
        """
        with trial.stage("interpret"):
            try:
                with self.bench(trial, self._opened(trial, "cpu"), "cpu", Tier.INTERPRET) as bench:
                    trials.correctness(bench, stage="interpret cases")
            except Decided as decided:
                believed = decided.outcome is Outcome.WRONG and believable(trial.code)
                if isinstance(decided, Strayed) or believed or decided.outcome in (Outcome.REJECTED, Outcome.NO_WORK):
                    raise
        trial.start_over()

    def _without_gpu(self, trial: Trial, reference: ReferenceClient, tier: Tier) -> Verdict:
        """The interpreter, then cross-compilation of what was launched."""
        with self.bench(trial, reference, "cpu", Tier.INTERPRET) as bench:
            trials.correctness(bench)
        if tier is Tier.INTERPRET:
            return trial.verdict(Outcome.CORRECT, tier, "correct in Triton's interpreter in every case")
        if self.options.trust_candidate:
            return trial.verdict(Outcome.CORRECT, tier, "correct on the CPU in every case; nothing was compiled")
        self._compile(trial)
        where = "in Triton's interpreter in every case, and its kernels compile for " + ", ".join(self.options.targets)
        return trial.verdict(Outcome.CORRECT, tier, f"correct {where}")

    def _reference(self, trial: Trial, device: str, tier: Tier) -> ReferenceClient:
        """The task's reference, admitted.

        Small tasks get their answers on the CPU even where kernels run on a GPU: dozens of references on one GPU
        would slow each other and every candidate down. Timing needs the reference on the device.
        """
        if device == "cpu":
            return self._admitted(trial, self._for_interpreter(trial, tier))
        if tier is not Tier.TIME:
            try:
                return self._admitted(trial, self._opened(trial, "cpu", at_most=_SMALL_ELEMENTS))
            except (TooLarge, _NotOnCpu):
                pass  # the GPU decides
        return self._admitted(trial, self._opened(trial, device))

    def _for_interpreter(self, trial: Trial, tier: Tier) -> ReferenceClient:
        """At the task's own shapes; at smaller ones only for the tiers that claim no more than that."""
        try:
            return self._opened(trial, "cpu", at_most=_INTERPRETER_ELEMENTS, fallback=False)
        except TooLarge:
            if tier not in (Tier.INTERPRET, Tier.COMPILE):
                hint = "judge it on a GPU, or at reduced shapes with --tier interpret"
                raise PrerequisiteError(
                    f"task {trial.task.id} is too large for Triton's interpreter", hint=hint
                ) from None
        trial.notes.append("verified at reduced shapes only: the task's own are too large for Triton's interpreter")
        return self._opened(trial, "cpu", at_most=_INTERPRETER_ELEMENTS >> 4, fallback=False, reduced=True)

    def _opened(
        self, trial: Trial, device: str, at_most: int | None = None, *, fallback: bool = True, reduced: bool = False
    ) -> ReferenceClient:
        options = self.options
        try:
            client = self.processes.references.take(
                trial.task,
                device,
                seed=self.seed,
                cases=options.cases,
                admit=options.admit,
                at_most=at_most,
                reduced=reduced,
                aside=trial.aside,
                whole_gpu=trial.whole_gpu,
            )
        except TaskError as error:
            if at_most is None or not fallback:
                raise
            raise _NotOnCpu from error
        trial.references.append(client)
        return client

    def _admitted(self, trial: Trial, reference: ReferenceClient) -> ReferenceClient:
        """Tier 0: the task itself. A verdict on a task that accepts anything proves nothing."""
        options = self.options
        about = reference.about
        if about["random"]:
            raise TaskError(
                f"task {trial.task.id} is random by itself: the same input gives different answers",
                hint="take dropout and sampling out, or judge it with --mode eval",
            )
        if about["problems"]:
            text = "; ".join(about["problems"][:3])
            if not options.allow_degenerate:
                raise TaskError(
                    f"task {trial.task.id} is degenerate: {text}", hint="judge it anyway with --allow-degenerate"
                )
            trial.notes.append(f"degenerate task: {text}")
        trial.notes += about["notes"]
        return reference

    @contextmanager
    def bench(self, trial: Trial, reference: ReferenceClient, device: str, tier: Tier) -> Iterator[Bench]:
        """A candidate's process, loaded; gone again whatever happens."""
        interpret = device == "cpu"
        number, session, descriptors = reference.session(timed=tier is Tier.TIME)
        limits = trials.candidate_limits(device, self.options, self.processes)
        start = partial(self.processes.server(interpret=interpret).spawn, "candidate", limits)
        process = self.processes.floor.admit(start) if device == "cuda" else start()
        bench = Bench(trial, reference, device, tier, process, number)
        try:
            with trial.stage("load"):
                bench.load(interpret, session, descriptors)
            yield bench
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            if process.end(timeout_s=3).reason == "stuck":
                self.processes.note_stuck(process)
            reference.ask("close", number)

    def _compile(self, trial: Trial) -> None:
        """Tier 3: what was launched, compiled for every target. Also proves that the kernels are Triton, not Python."""
        with trial.stage("compile"):
            kernels = self._compiled_apart(trial)
            if kernels is None:
                answer = self._compiled(trial.code, trial.launches)
                if "error" in answer:
                    error = answer["error"]
                    raise Decided(Outcome.COMPILE_ERROR, Tier.COMPILE, f"{error.get('type')}: {error.get('text')}")
                kernels = [Kernel.model_validate(kernel) for kernel in answer["kernels"]]
        self._take_compiled(trial, kernels)

    def _compiled_apart(self, trial: Trial) -> list[Kernel] | None:
        """Kernels whose text stands in plain sight, those compiled before among them; None where one of them does not,
        or is refused.
        """
        part = excerpt(trial.code, trial.launches, self.options.targets)
        if part is None:
            return None
        known = {name: self._kernels.get(key) for name, key in part.keys.items()}
        new = [launch for launch in trial.launches if known[launch["kernel"]] is None]
        if new:
            try:
                answer = self._compiled(part.text, new)
            except Decided:
                return None
            if "error" in answer:
                return None
            for kernel in map(Kernel.model_validate, answer["kernels"]):
                self._kernels.put(part.keys[kernel.name], kernel)
                known[kernel.name] = self._kernels.get(part.keys[kernel.name])
        found = [kernel for kernel in known.values() if kernel is not None]
        return found if len(found) == len(known) else None

    def _compiled(self, code: str, launches: list[Launch]) -> dict[str, Any]:
        """The answer of a process that loaded this code and compiled these launches."""
        limits = Limits(deadline_s=_COMPILE_TIMEOUT_S, allow_processes=True, memory_bytes=8 << 30)
        process = self.processes.server(interpret=False).spawn("compile", limits)
        try:
            process.channel.send({"code": code, "launches": launches, "targets": list(self.options.targets)})
            return process.channel.receive(_COMPILE_TIMEOUT_S + 5)[0]
        except ChannelError:
            raise trials.ended(process.end(abandon=False), Tier.COMPILE) from None
        finally:
            process.end()

    def _take_compiled(self, trial: Trial, compiled: list[Kernel]) -> None:
        """A kernel that no target compiles is refused; one that some targets refuse is noted."""
        for kernel in compiled:
            launches = trial.kernels[kernel.name].launches if kernel.name in trial.kernels else kernel.launches
            trial.kernels[kernel.name] = kernel.model_copy(update={"launches": launches})
            errors = [f"{target.arch}: {target.error}" for target in kernel.targets if target.error is not None]
            if not kernel.targets:
                text = f"kernel `{kernel.name}` cannot be found in the module: define kernels at module level"
                raise Decided(Outcome.COMPILE_ERROR, Tier.COMPILE, text)
            if len(errors) == len(kernel.targets):
                raise Decided(
                    Outcome.COMPILE_ERROR, Tier.COMPILE, f"kernel `{kernel.name}` does not compile for {errors[0]}"
                )
            trial.notes += [f"kernel `{kernel.name}` does not compile for {error}" for error in errors]
        trial.notes += [note for note in unmeasured(compiled) if note not in trial.notes]


def judge(task: Task, code: str, options: JudgeOptions | None = None, *, progress: Progress | None = None) -> Verdict:
    """One verdict, with processes of its own. For several candidates use `judge_many`."""
    with Judge(options) as one:
        return one.judge(task, code, progress)
