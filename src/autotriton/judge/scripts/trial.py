"""One candidate for a script task: rules, then its functions called as the test called the gold's, then the work test.

The parent's side. Every conclusion is drawn here from what the trusted process found in the returned bytes; what the
candidate's process says of itself can only count against it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from autotriton.judge import rules
from autotriton.judge.blocking_names import is_compute
from autotriton.judge.scripts.opening import ScriptClient
from autotriton.judge.scripts.parts import completed, entries, split
from autotriton.judge.trial import Bench, Decided, Trial, candidate_limits
from autotriton.types import Check, Outcome, Policy, Severity, Tier, Verdict

_MOST_EMPTIED = 12
"""Calls repeated with every launch a no-op."""


def gate(trial: Trial) -> None:
    """The source, without running it."""
    with trial.stage("rules"):
        if not rules.has_code(trial.code):
            raise Decided(Outcome.NO_CODE, Tier.RULES, "the candidate holds no code")
        if trial.options.trust_candidate:
            return
        code = completed(trial.code, split(trial.task.source)[1])
        trial.findings += rules.scan(code, trial.options.policy, entries(trial.task.source))
        errors = [finding for finding in trial.findings if finding.severity is Severity.ERROR]
        if errors:
            where = f"line {errors[0].line}: " if errors[0].line else ""
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise Decided(Outcome.REJECTED, Tier.RULES, f"{where}{errors[0].message}{more}")


def judge(trial: Trial, client: ScriptClient, device: str) -> Verdict:
    """The verdict on a candidate whose source has passed the rules."""
    tier = Tier.INTERPRET if device == "cpu" else Tier.RUN
    number, session, descriptors = client.session(timed=False)
    try:
        limits = candidate_limits(device, trial.options, trial.processes)
        process = trial.processes.server(interpret=device == "cpu").spawn("script-candidate", limits)
        bench = ScriptBench(trial, client, device, tier, process, number)
        try:
            with trial.stage("load"):
                bench.load(device == "cpu", session, descriptors)
            bench.replay()
        finally:
            if process.end(timeout_s=3).reason == "stuck":
                trial.processes.note_stuck(process)
    except Decided as decided:
        return trial.verdict(decided.outcome, decided.tier, decided.message)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        client.leave(number)
    count = len({check.inputs.partition("#")[0] for check in trial.checks})
    return trial.verdict(Outcome.CORRECT, tier, f"every value of {count} replayed calls is right")


@dataclass
class ScriptBench(Bench):
    """A candidate's process at work on the calls of one gold's test."""

    RUNNING: ClassVar[str] = "when it was called"
    reference: ScriptClient

    def load(self, interpret: bool, session: dict[str, Any], descriptors: list[int]) -> None:
        options = self.trial.options
        request = {
            "do": "load",
            "code": completed(self.trial.code, split(self.trial.task.source)[1]),
            "device": self.device,
            "policy": "trusted" if options.trust_candidate else str(options.policy),
            "interpret": interpret,
            "entries": list(entries(self.trial.task.source)),
            **session,
        }
        self.ask(request, tuple(descriptors))

    def replay(self) -> None:
        """Every call with the test's own inputs and with moved ones; objects are made again before each use."""
        calls = self.reference.about["calls"]
        usable = self._usable(calls)
        self._note_coverage(calls, usable)
        self.trial.notes += self.reference.notes
        launched, unjudged, about = 0, [], {}
        with self.trial.stage("cases"):
            for case in (0, 1):
                for number in usable:
                    found = self._one(number, case, calls[number])
                    if found is None:
                        continue
                    launched += found["launched"]
                    if found["unjudged"]:
                        unjudged.append(number)
                    about[number, case] = found
        judged = [number for number in usable if number not in unjudged and calls[number]["kind"] != "make"]
        if not judged:
            reasons = sorted({found["unjudged"] for found in about.values() if found["unjudged"]})
            why = "; ".join(reasons) or "the test makes no call that can be replayed"
            self.trial.notes.append(f"degenerate task: no call's values can be compared: {why}")
        self._work(calls, judged, about, launched)

    def _usable(self, calls: list[dict[str, Any]]) -> list[int]:
        """Calls that can be replayed: their arguments travel, and the objects they need were made by usable ones."""
        usable: list[int] = []
        for number, call in enumerate(calls):
            if call["cannot"] is None and all(made in usable for made in call["objects"]):
                usable.append(number)
        return usable

    def _note_coverage(self, calls: list[dict[str, Any]], usable: list[int]) -> None:
        left = [number for number in range(len(calls)) if number not in usable]
        if left:
            why = calls[left[0]]["cannot"] or "it needs an object that cannot be made"
            self.trial.notes.append(f"{len(left)} of {len(calls)} calls cannot be replayed: {why}")

    def _one(self, number: int, case: int, call: dict[str, Any]) -> dict[str, Any] | None:
        filled = self.reference.ask("fill", self.session, call=number, case=case)
        if filled["call"] is None:
            return None
        request = {"do": "run", **filled, "poison": (number + case) % 2, "noop": False, "config_index": number + case}
        if call["raises"] is not None:
            return self._raising(request, number, call)
        answer = self.ask(request)
        self._absorb(answer)
        self.raise_on_evidence({**answer, "broken_fences": 0} if filled["breaks"] else answer)
        found = self._checked(number, case, answer)
        check = Check.model_validate(found["check"])
        self.trial.checks.append(check)
        if not check.passed:
            raise Decided(Outcome.WRONG, self.tier, f"wrong on {check.inputs}: {check.detail}")
        launches = sum(int(count) for count in answer["launches"].values())
        self._note_operators(answer)
        return {
            "launched": launches,
            "unjudged": found.get("unjudged", ""),
            "works": found.get("works", True),
            "depends": found.get("depends", False),
        }

    def _checked(self, number: int, case: int, answer: dict[str, Any], *, settle: bool = True) -> dict[str, Any]:
        """`settle`: the gold is run again before this answer is found wrong."""
        kept = {key: answer.get(key) for key in ("leaves", "structure", "aliases")}
        return self.reference.ask("check", self.session, call=number, case=case, answer=kept, settle=settle)

    def _raising(self, request: dict[str, Any], number: int, call: dict[str, Any]) -> dict[str, Any] | None:
        """The gold refuses these arguments; so must the candidate."""
        try:
            self.ask(request)
        except Decided as decided:
            if decided.outcome in (Outcome.RUNTIME_ERROR, Outcome.COMPILE_ERROR, Outcome.WRONG):
                return {"launched": 0, "unjudged": "", "works": False, "depends": False}
            raise
        text = f"call {number + 1}, {call['path']}: accepts arguments for which the gold raises {call['raises']}"
        self.trial.checks.append(Check(inputs=f"call {number + 1}, {call['path']}#own", passed=False, detail=text))
        raise Decided(Outcome.WRONG, self.tier, text)

    def _note_operators(self, answer: dict[str, Any]) -> None:
        for name, count in answer["operators"].items():
            if is_compute(str(name)) and self.trial.options.policy is not Policy.STRICT:
                self.trial.torch_ops[str(name)] = self.trial.torch_ops.get(str(name), 0) + int(count)

    # --- who did the work ---------------------------------------------------------------------------------

    def _work(
        self,
        calls: list[dict[str, Any]],
        judged: list[int],
        about: dict[tuple[int, int], dict[str, Any]],
        launched: int,
    ) -> None:
        """Triton did the work: where the gold works, kernels were launched, and without them the answer breaks."""
        options = self.trial.options
        if options.trust_candidate or options.policy is Policy.PAPER:
            return
        if not launched:
            raise Decided(Outcome.NO_WORK, self.tier, "no Triton kernel was launched in any call")
        idle = [n for n in judged if about[n, 0]["works"] and not about[n, 0]["launched"]]
        if options.policy is Policy.STRICT and idle:
            text = f"call {idle[0] + 1}, `{calls[idle[0]]['path']}`, is answered without a Triton kernel"
            raise Decided(Outcome.NO_WORK, self.tier, text)
        self._work_share(about)
        with self.trial.stage("work"):
            depending = [n for n in judged if about[n, 0]["depends"] and about[n, 0]["launched"]]
            for number in depending[:_MOST_EMPTIED]:
                self._emptied(number, calls[number])

    def _work_share(self, about: dict[tuple[int, int], dict[str, Any]]) -> None:
        """Mixed policy: the share of the calls' steps that Triton takes, counted as launches against torch's operators.

        What a gold's operators cost is not known where it is Triton itself, so they are counted, not weighed.
        """
        if self.trial.options.policy is not Policy.MIXED:
            return
        steps = sum(found["launched"] for found in about.values())
        left = sum(self.trial.torch_ops.values())
        self.trial.triton_share = steps / max(steps + left, 1)
        if self.trial.triton_share < self.trial.options.mixed_share:
            names = ", ".join(sorted(self.trial.torch_ops)[:3])
            text = f"Triton takes {self.trial.triton_share:.0%} of the steps and torch the rest ({names})"
            raise Decided(Outcome.NO_WORK, self.tier, f"{text}; {self.trial.options.mixed_share:.0%} is needed")

    def _emptied(self, number: int, call: dict[str, Any]) -> None:
        """Make every launch do nothing: an answer that survives came from somewhere else."""
        case = 1
        filled = self.reference.ask("fill", self.session, call=number, case=case)
        if filled["call"] is None:
            case = 0
            filled = self.reference.ask("fill", self.session, call=number, case=case)
        try:
            answer = self.ask({"do": "run", **filled, "poison": 0, "noop": True, "config_index": number + case})
        except Decided as decided:
            if decided.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT):
                raise
            return  # it broke, as it should
        if self._checked(number, case, answer, settle=False)["check"]["passed"]:
            text = f"call {number + 1}, `{call['path']}`: the answer stays right when no kernel runs"
            raise Decided(Outcome.NO_WORK, self.tier, f"{text}: it does not come from the Triton kernels")
