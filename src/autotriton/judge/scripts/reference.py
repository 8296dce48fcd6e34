"""The trusted process of one script task: runs the gold and its test, hands out calls, compares what comes back.

It never sees a candidate's code. What arrives from one is tensor bytes and their description, checked before use.
"""

from __future__ import annotations

import socket
from typing import Any

import torch

from autotriton.errors import TaskError
from autotriton.judge import arena, compare
from autotriton.judge.answers import Answer, Expected
from autotriton.judge.blocking_names import HELPERS, base
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.compare import Found
from autotriton.judge.interpreting import Interpreter
from autotriton.judge.native import Native
from autotriton.judge.program import Leaf
from autotriton.judge.reference import _alias_problem, _failed, _shape_of
from autotriton.judge.scripts import devices
from autotriton.judge.scripts.memory import ZEROS, band_byte, lay_out, strayed
from autotriton.judge.scripts.packing import Pieces
from autotriton.judge.scripts.recording import FILENAME, Call, Recorder
from autotriton.judge.scripts.results import as_bytes, widened
from autotriton.judge.scripts.running import Fault
from autotriton.judge.scripts.truth import Truth, Truths
from autotriton.types import Check

_SLACK_BYTES = 1 << 20
_INTEGER_SHARE = 0.01
"""Beyond what rounding moved in the gold itself, this share of integers may be off by as much."""


def main(control: socket.socket) -> None:
    channel = Channel(control)
    reference: ScriptReference | None = None
    while True:
        try:
            request, _ = channel.receive()
        except ChannelError:
            return
        descriptors: tuple[int, ...] = ()
        try:
            if request["do"] == "open":
                reference = ScriptReference(request)
                answer = reference.describe()
            else:
                assert reference is not None
                answer, descriptors = reference.answer(request)
        except Fault as error:
            answer = {"fault": str(error)}
        except TaskError as error:
            answer = {"task_error": str(error)}
        except Exception as error:  # noqa: BLE001 - the gold file is foreign code: whatever it raises is one line
            text = " ".join(str(error).split())[:300]
            answer = {"task_error": f"the gold file: {type(error).__name__}: {text}"}
        channel.send(answer, descriptors)


class ScriptReference:
    """One gold file's calls and answers."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.device = str(request["device"])
        source, seed = str(request["source"]), int(request["seed"])
        self.witness = Interpreter(FILENAME) if self.device == "cpu" else Native()
        if self.device == "cpu":
            devices.install()
        self.recorder = Recorder(source, str(request["name"]), seed)
        self.truths = Truths(self.recorder, source, self.device, seed, self.witness)
        self.truths.quiet = frozenset(map(int, request["quiet"]))
        self.truths.settles = bool(request["settles"])
        for number in request["left_out"]:
            self.calls[number].cannot = "the gold ends its own process when it is repeated"
        self.sessions: dict[int, ScriptSession] = {}

    @property
    def calls(self) -> list[Call]:
        return self.recorder.calls

    def describe(self) -> dict[str, Any]:
        listed = [
            {
                "path": call.path,
                "kind": call.kind,
                "on": call.on,
                "objects": list(call.objects),
                "raises": call.raised,
                "cannot": call.cannot,
                "backward": call.grads is not None,
            }
            for call in self.calls
        ]
        return {"calls": listed}

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
        if request["do"] == "truth":
            call = int(request["call"])
            if self.calls[call].cannot is None:
                strays = [t.strays or t.breaks for t in (self.truths.get(call, 0), self.truths.get(call, 1)) if t]
                return {"strays": any(strays)}, ()
            return {"strays": False}, ()
        do, number = str(request["do"]), int(request["session"])
        if do == "session":
            session = self.sessions[number] = ScriptSession(self)
            return session.describe(), (session.inputs.descriptor, session.outputs.descriptor)
        if do == "close":
            found = self.sessions.pop(number, None)
            if found is not None:
                found.close()
            return {"closed": True}, ()
        session = self.sessions[number]
        if do == "fill":
            return session.fill(request), ()
        try:
            return session.check(request), ()
        except Fault:
            raise
        except Exception as error:  # noqa: BLE001 - the description is the candidate's: it must not cost others the gold
            return _failed(f"call {request['call']}", f"cannot be compared: {type(error).__name__}"), ()


class ScriptSession:
    """One candidate's arenas, and what lies in them."""

    def __init__(self, reference: ScriptReference) -> None:
        self.reference = reference
        in_size = out_size = 0
        operators: set[str] = set()
        for number, call in enumerate(reference.calls):
            if call.cannot is not None:
                continue
            grads = call.grads.storages if call.grads is not None else []
            in_size = max(in_size, lay_out([*call.inputs.storages, *grads])[1])
            # Known since the gold was opened: once a candidate's process runs, its deadline does too.
            for truth in (reference.truths.get(number, 0), reference.truths.get(number, 1)):
                values = [answer.value for answer in truth.expected.outputs] if truth is not None else []
                out_size = max(out_size, arena.lay_out([v for v in values if isinstance(v, torch.Tensor)])[1])
                operators |= {base(name) for name in truth.expected.ops} if truth is not None else set()
        self.helpers = sorted(HELPERS - operators)
        self.inputs = arena.create(max(in_size, _SLACK_BYTES), reference.device)
        self.outputs = arena.create(out_size + _SLACK_BYTES, reference.device)
        self.slots: list[arena.Slot] = []
        self.kind = 0

    def describe(self) -> dict[str, Any]:
        sizes = [self.inputs.bytes.numel(), self.outputs.bytes.numel()]
        return {"arena_sizes": sizes, "arena_device": self.reference.device, "helpers": self.helpers}

    def fill(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put one call's memory into the arena; None where this case has no answer."""
        number = int(request["call"])
        call, truth = self.reference.calls[number], self.reference.truths.get(number, int(request["case"]))
        if truth is None:
            return {"call": None}
        grads = call.grads or Pieces()
        memory = [*truth.inputs.storages, *grads.storages]
        self.slots, _ = lay_out(memory)
        self.kind = ZEROS if number in self.reference.truths.quiet else 0
        self.inputs.bytes.fill_(band_byte(self.kind))
        self.outputs.bytes.fill_(arena.GUARD_PATTERN)
        for slot, storage in zip(self.slots, memory, strict=True):
            arena.store(self.inputs, slot, storage)
        self._synchronize()
        count = len(truth.inputs.storages)
        return {
            "call": call.packed,
            "path": call.path,
            "kind": call.kind,
            "on": call.on,
            "number": number,
            "raises": call.raised,
            "states": [list(state) for state in call.states],
            "with_grad": call.with_grad,
            "memory": [slot.to_json() for slot in self.slots],
            "inputs": [
                [slot.to_json(), piece.requires_grad and call.with_grad, piece.is_parameter, piece.on_host]
                for slot, piece in zip(truth.inputs.slots(self.slots[:count]), truth.inputs.pieces, strict=True)
            ],
            "grads": [slot.to_json() for slot in grads.slots(self.slots[count:])],
            "backward": call.grads is not None,
            "rng_seed": self.reference.truths.runner.drawing_seed,
            "quiet": self.kind == ZEROS,
            "breaks": truth.breaks,
        }

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """The candidate's answer to a call: values, containers, what it changed, and the bytes around its inputs."""
        number, case, answer = int(request["call"]), int(request["case"]), request["answer"]
        call, truth = self.reference.calls[number], self.reference.truths.get(number, case)
        assert truth is not None
        name = f"call {number + 1}, {call.path.lstrip('.')}#{'moved' if case else 'own'}"
        try:
            got = [self._leaf(leaf) for leaf in answer["leaves"]]
        except (ValueError, KeyError, TypeError) as error:
            return _failed(name, f"the returned description is malformed: {error}")
        found = self._found(call, truth, answer, got, name)
        if not found.passed and request["settle"] and self.reference.truths.settle(number, case):
            truth = self.reference.truths.get(number, case)
            assert truth is not None
            found = self._found(call, truth, answer, got, name)
        return {"check": found.model_dump(mode="json"), "unjudged": truth.unjudged, **self._about(number, truth)}

    def _found(self, call: Call, truth: Truth, answer: dict[str, Any], got: list[Leaf], name: str) -> Check:
        expected, found = truth.expected, Check(inputs=name, passed=True)
        if not isinstance(call.result, torch.nn.Module) and call.kind != "make":
            if answer["structure"] != expected.structure:
                text = f"returned {_shape_of(answer['structure'])}, expected {_shape_of(expected.structure)}"
                return Check(inputs=name, passed=False, detail=text)
            found = self._values(truth, got, name)
        problem = self._side_effects(truth, answer) if found.passed else ""
        return found.model_copy(update={"passed": False, "detail": problem}) if problem else found

    def _about(self, number: int, truth: Truth) -> dict[str, Any]:
        """Whether the gold does any work in this call, and whether the answer depends on what it is given."""
        other = self.reference.truths.get(number, 1)
        fresh = [a.value for a in truth.expected.outputs if isinstance(a.value, torch.Tensor) and not a.aliases]
        depends = bool(truth.expected.inputs)
        if other is not None and not depends:
            pairs = zip(truth.expected.outputs, other.expected.outputs, strict=False)
            depends = any(_differ(one.value, two.value) for one, two in pairs if not one.aliases)
        return {"works": truth.works, "depends": depends and bool(fresh or truth.expected.inputs)}

    def _values(self, truth: Truth, got: list[Leaf], name: str) -> Check:
        expected, judged = truth.expected, not truth.unjudged
        got = [leaf.contiguous() if isinstance(leaf, torch.Tensor) else leaf for leaf in got]
        if len(got) == len(expected.outputs):
            got = [truth.determined(answer.name, leaf) for answer, leaf in zip(expected.outputs, got, strict=True)]
            for answer, leaf in zip(expected.outputs, got, strict=True):
                problem = _loose_problem(answer, leaf, judged)
                if problem:
                    return Check(inputs=name, passed=False, detail=f"{answer.name}: {problem}")
            pairs = [(a, g) for a, g in zip(expected.outputs, got, strict=True) if not _settled(a, g, judged)]
            expected = Expected(tuple(a for a, _ in pairs), None, in_domain=expected.in_domain)
            got = [g for _, g in pairs]
        return compare.compare(expected, got, name)

    def _leaf(self, leaf: dict[str, Any]) -> Leaf:
        if "slot" in leaf:
            return arena.view(self.outputs, arena.Slot.from_json(leaf["slot"]))
        value: Leaf = leaf["value"]
        return value

    def _side_effects(self, truth: Truth, answer: dict[str, Any]) -> str:
        before = truth.inputs.tensors()
        slots = truth.inputs.slots(self.slots[: len(truth.inputs.storages)])
        for index, (old, slot) in enumerate(zip(before, slots, strict=True)):
            now, wanted = arena.view(self.inputs, slot), truth.expected.inputs.get(index)
            if wanted is None:
                if not compare._untouched(as_bytes(old), as_bytes(now)):
                    return f"input {index} was modified, which the gold does not do"
                continue
            if truth.unjudged:
                continue
            wanted_value, now = wanted.value, truth.determined(wanted.name, widened(now))
            assert isinstance(wanted_value, torch.Tensor)
            problem = _loose_problem(wanted, now.contiguous(), True)
            if not problem and not _settled(wanted, now, True):
                found: Found = compare.compare_leaf(
                    Answer(**{**vars(wanted), "value": wanted_value.contiguous()}), now.contiguous(), False
                )
                problem = found.problem
            if problem:
                return f"argument {index} after the call: {problem}"
        if not truth.strays and strayed(self.inputs.bytes, self.slots, self.kind):
            return "memory next to an input was written: a store runs past the end of a tensor"
        return _alias_problem(truth.expected, answer["aliases"])

    def _synchronize(self) -> None:
        if self.reference.device == "cuda":
            torch.cuda.synchronize()

    def close(self) -> None:
        self.inputs.close()
        self.outputs.close()


def _settled(answer: Answer, got: Leaf, judged: bool) -> bool:
    """Nothing more to compare: kinds only, or integers that `_loose_problem` has looked at."""
    if not judged:
        return True
    tensor = isinstance(answer.value, torch.Tensor) and isinstance(got, torch.Tensor)
    return tensor and answer.oracle is None and answer.change.max > 0


def _loose_problem(answer: Answer, got: Leaf, judged: bool) -> str:
    """Kinds where values are not judged, and integers that rounding may move; else nothing here."""
    value = answer.value
    if not isinstance(value, torch.Tensor) or not isinstance(got, torch.Tensor):
        return "" if judged or type(value) is type(got) else f"is a {type(got).__name__}"
    moved = answer.oracle is None and answer.change.max > 0
    if (moved or not judged) and (value.shape != got.shape or value.dtype != got.dtype):
        return f"is {got.dtype} {tuple(got.shape)} where {value.dtype} {tuple(value.shape)} is expected"
    if judged and moved:
        off = (got.to(value.device).double() - value.double()).abs()
        share = float((off > 0).double().mean())
        allowed = 4 * answer.change.rms + _INTEGER_SHARE
        if float(off.max()) > max(1.0, answer.change.max) or share > allowed:
            return f"{share:.1%} of the elements differ, by up to {float(off.max()):g}"
    return ""


def _differ(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor) and one.shape == two.shape:
        return not torch.equal(torch.nan_to_num(one.double()), torch.nan_to_num(two.double()))
    return bool(type(one) is not type(two) or (not isinstance(one, torch.Tensor) and one != two))
