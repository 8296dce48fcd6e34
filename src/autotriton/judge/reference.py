"""The reference's process: makes every case, knows every answer, and compares. It never sees the candidate's code.

One process per task, serving any number of candidates: answers are computed once per case and kept (of a large task
only the last one, within the memory bound of docs/judging.md), each candidate gets arenas of its own. What arrives
from a candidate is tensor bytes and their description, checked before use.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from autotriton.errors import TaskError
from autotriton.judge import arena, blocking, cases, compare, structure
from autotriton.judge.admission import Admission, admit
from autotriton.judge.answers import Expected
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.costs import cost
from autotriton.judge.footprint import footprint
from autotriton.judge.measure import fingerprint
from autotriton.judge.oracle import expect
from autotriton.judge.program import Inputs, Leaf, Program, duplicate, map_tensors, randomise_state, state
from autotriton.judge.rehearsal import Rehearsal, variants_for
from autotriton.judge.shortage import out_of_memory
from autotriton.judge.shrink import shrink
from autotriton.types import Check, Task

_SLACK_BYTES = 1 << 20
_RUNS, _LARGE_RUNS = 64, 10
"""Reference runs spent on admission."""
_LARGE_BYTES = 256 << 20
"""Inputs beyond this are tried on plain draws only."""
_KEPT_BYTES = 1 << 30
"""Cases beyond this together are kept one at a time."""
_INDEXING = ("embedding", "index", "index_select", "gather", "take", "embedding_bag")


def main(control: socket.socket) -> None:
    channel = Channel(control)
    reference: Reference | None = None
    while True:
        try:
            request, _ = channel.receive()
        except ChannelError:
            return
        descriptors: tuple[int, ...] = ()
        try:
            if request["do"] == "size":
                answer = footprint(Task.model_validate(request["task"])).to_json()
            elif request["do"] == "open":
                reference = Reference(request, lambda way: _pass_gate(channel, way))
                answer = reference.describe()
            else:
                assert reference is not None
                answer, descriptors = reference.answer(request)
        except TaskError as error:
            answer = {"task_error": str(error)}
        except Exception as error:  # noqa: BLE001 - task code runs here: whatever it raises later must reach the parent as one line
            text = f"{type(error).__name__}: {error}"
            short = {"task_error": f"the task does not fit into memory: out of memory: {text.splitlines()[0]}"}
            answer = short if out_of_memory(error) else {"judge_error": text}
        channel.send(answer, descriptors)


def _pass_gate(channel: Channel, way: str) -> None:
    channel.send({"gate": way})
    channel.receive()


def _task(request: dict[str, Any]) -> Task:
    """The task as it came, or at smaller shapes."""
    task = Task.model_validate(request["task"])
    if "shrink" not in request:
        return task
    reduced = shrink(task, int(request["shrink"]))
    if reduced is None:
        raise TaskError(
            f"task {task.id} is too large for Triton's interpreter, and no smaller shapes run",
            hint="judge it on a GPU, or make its constants smaller",
        )
    return reduced


@dataclass(frozen=True)
class Facts:
    """What is remembered of the first case when its tensors may be gone."""

    operators: tuple[str, ...]
    random: bool
    mutates: bool
    """The reference changes its own inputs in place."""
    inputs: tuple[torch.Tensor, ...]
    """Outlines, without content."""
    outputs: tuple[torch.Tensor, ...]
    output_bytes: int
    elements: int
    dtype: str

    @staticmethod
    def of(inputs: Inputs, expected: Expected) -> Facts:
        outputs = [answer.value for answer in expected.outputs]
        tensors = [leaf for leaf in [*outputs, *inputs.leaves()] if isinstance(leaf, torch.Tensor)]
        floats = [str(tensor.dtype).split(".")[1] for tensor in tensors if tensor.is_floating_point()]
        operators = tuple(name if "::" in name else f"aten::{name}" for name in expected.ops)
        return Facts(
            operators,
            expected.random,
            bool(expected.inputs),
            tuple(_outline(leaf) for leaf in inputs.leaves() if isinstance(leaf, torch.Tensor)),
            tuple(_roomy(leaf) for leaf in outputs if isinstance(leaf, torch.Tensor)),
            _bytes(outputs),
            sum(t.numel() for t in tensors),
            floats[0] if floats else "float32",
        )


class Reference:
    """One task's cases and answers."""

    def __init__(self, request: dict[str, Any], gate: Callable[[str], None] = lambda _: None) -> None:
        self.gate = gate
        """Called with `enter` and `leave` around what needs the GPU alone in the middle of a request."""
        self.task = _task(request)
        self.device = str(request["device"])
        self.seed = int(request["seed"])
        self.program = Program(self.task, self.device)
        self.input_bytes = _bytes(self.program.draw(self.seed).leaves())
        self.large = self.input_bytes > _LARGE_BYTES
        self.keeps_one = self.gives_back = self.large
        self.admission = self._admit() if request["admit"] else None
        self.models = [self._model(version) for version in range(2)]
        self.specs = [spec for spec in cases.plan(self.seed, int(request["cases"])) if self._usable(spec)]
        self.kept: dict[str, tuple[Inputs, Expected]] = {}
        self.refused: dict[int, str] = {}
        """Cases that are plain draws because the reference raises on bent ones, and why."""
        self.sessions: dict[int, Session] = {}
        self.first = Facts.of(*self._case(0))
        # An answer is kept with its oracle in fp64.
        self.keeps_one |= (self.input_bytes + 3 * self.first.output_bytes) * len(self.specs) > _KEPT_BYTES
        self.gives_back = self.keeps_one or _bytes(list(state(self.models[0]).values())) > _LARGE_BYTES
        self.variants = variants_for(self.input_bytes, self.first.output_bytes)
        self.rehearsal = Rehearsal(self)

    def _admit(self) -> Admission:
        found = admit(self.program, self.seed, _LARGE_RUNS if self.large else _RUNS, large=self.large)
        self.give_back_memory()
        return found

    def _model(self, version: int) -> Any:
        """Two sets of weights, so that a snapshot of the first is wrong for the second."""
        model = self.program.build(self.seed)
        randomise_state(model, self.seed + 31 * version)
        return model

    def _usable(self, spec: cases.CaseSpec) -> bool:
        return spec.distribution == cases.DRAW or (not self.large and cases.make(self.program, spec) is not None)

    def describe(self) -> dict[str, Any]:
        """What the parent needs to know; nothing of it but names, shapes and costs."""
        spent = cost(self.program, self.models[0], self._case(0)[0])
        first, admission = self.first, self.admission
        bases = {name.partition("::")[2].split(".")[0] for name in first.operators}
        needed = 2 * first.output_bytes if bases & set(_INDEXING) else spent.bytes
        return {
            "cases": [spec.name for spec in self.specs],
            "is_function": not isinstance(self.models[0], torch.nn.Module),
            "problems": list(admission.problems) if admission else [],
            "notes": list(admission.notes) if admission else [],
            "mutates": first.mutates,
            "random": bool(admission.random) if admission else first.random,
            "large": self.large,
            "elements": first.elements,
            "helpers": sorted(blocking.HELPERS - bases),
            "moves_only": bool(bases) and all(map(blocking.is_allowed, first.operators)),
            "init": self._pack_init(),
            "init_seed": self.seed,
            "operators": sorted(bases),
            "compute_dtype": first.dtype,
            "flops": spent.flops,
            "bytes": spent.bytes,
            "required_bytes": needed,
            "op_bytes": spent.total.bytes,
            "op_flops": spent.total.flops,
        }

    def _pack_init(self) -> str:
        try:
            given = self.program.init_arguments(self.seed)
            return structure.pack_plain(map_tensors(lambda tensor: tensor.cpu(), given))
        except TaskError:
            raise
        except Exception as error:
            raise TaskError(
                f"get_init_inputs returns something that cannot be passed on: {error}",
                hint="return numbers, strings and lists",
            ) from error

    # --- requests ---------------------------------------------------------------------------------------

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
        do, number = str(request["do"]), int(request["session"])
        if do == "session":
            session = self.sessions[number] = Session(self, timed=bool(request.get("timed")))
            return session.describe(), (session.inputs.descriptor, session.outputs.descriptor)
        if do == "close":
            session_or_none = self.sessions.pop(number, None)
            if session_or_none is not None:
                session_or_none.close()
            return {"closed": True}, ()
        if do == "time":
            return self.rehearsal.answer(request), ()
        session = self.sessions[number]
        return (session.fill(request) if do == "fill" else session.check(request)), ()

    def _case(self, index: int) -> tuple[Inputs, Expected]:
        spec = self.specs[index]
        if spec.name not in self.kept:
            if self.keeps_one:  # inputs, answer and oracle of a large task are tens of gigabytes
                self.kept.clear()
                self.give_back_memory()
            inputs = cases.make(self.program, spec)
            assert inputs is not None
            if index:
                inputs = self._with_other_scalars(inputs, spec.seed)
            model = self.models[index % 2]
            try:
                expected = expect(self.program, model, inputs, self.seed, in_domain=spec.in_domain, conditioned=False)
            except TaskError as error:
                if spec.in_domain or (error.__cause__ is not None and out_of_memory(error.__cause__)):
                    raise
                self._draw_instead(index, error)
                return self._case(index)
            self.kept[spec.name] = (inputs, expected)
            self.give_back_memory()
        return self.kept[spec.name]

    def _draw_instead(self, index: int, error: TaskError) -> None:
        """A program may refuse what its own `get_inputs` never gives: the case is one more of the task's own draws."""
        spec = self.specs[index]
        self.refused[index] = f"{spec.name} ({str(error.args[0]).partition(' raised ')[2] or error.args[0]})"
        draws = sum(each.in_domain for each in self.specs)
        self.specs[index] = cases.CaseSpec(f"{cases.DRAW}#{draws + 1}", spec.seed)

    def conditioned(self, index: int) -> Expected | None:
        """What a case allows when how far its oracle moves is known as well; None where it is known already."""
        inputs, expected = self._case(index)
        if expected.later is None:
            return None
        expected = expected.later()
        self.kept[self.specs[index].name] = (inputs, expected)
        self.give_back_memory()
        return expected

    def give_back_memory(self) -> None:
        """What torch keeps for the next allocation of the same size is missing elsewhere."""
        if self.gives_back and self.device == "cuda":
            torch.cuda.empty_cache()

    def _with_other_scalars(self, inputs: Inputs, seed: int) -> Inputs:
        """Plain float arguments are inputs too: other values in every case but the first, if the task takes them."""
        factor = 0.6 + 0.8 * random.Random(seed).random()
        args, kwargs = pytree.tree_map(
            lambda leaf: leaf * factor if type(leaf) is float else leaf, (inputs.args, inputs.kwargs)
        )
        changed = Inputs(tuple(args), dict(kwargs))
        if any(type(leaf) is float for leaf in inputs.leaves()):
            try:
                self.program.run(duplicate(self.models[0]), changed.clone(), self.seed)
            except TaskError:
                return inputs
        return changed


class Session:
    """One candidate's arenas, and what lies in them."""

    def __init__(self, reference: Reference, *, timed: bool) -> None:
        self.reference = reference
        self.state = state(reference.models[0])
        copies = reference.variants if timed else 1
        _, in_size = arena.lay_out([*(reference.first.inputs * copies), *self.state.values()])
        _, out_size = arena.lay_out([*reference.first.outputs, *self.state.values()])
        self.inputs = arena.create(in_size + _SLACK_BYTES, reference.device)
        self.outputs = arena.create(out_size + _SLACK_BYTES, reference.device)
        self.last: list[int] = []
        """Fingerprints of an answer to compare another one with."""

    def describe(self) -> dict[str, Any]:
        model = self.reference.models[0]
        parameters = dict(model.named_parameters(remove_duplicate=False)) if isinstance(model, torch.nn.Module) else {}
        slots, _ = arena.lay_out(list(self.state.values()))
        described = [
            [name, "parameter" if name in parameters else "buffer", slot.to_json()]
            for name, slot in zip(self.state, slots, strict=True)
        ]
        sizes = [self.inputs.bytes.numel(), self.outputs.bytes.numel()]
        return {"arena_sizes": sizes, "arena_device": self.reference.device, "state": described}

    def fill(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put one case's inputs and weights at the same addresses as ever, and clear the output arena."""
        index = int(request["case"])
        self.outputs.bytes.fill_(arena.GUARD_PATTERN)
        put = self.put([self.reference._case(index)[0]], state(self.reference.models[index % 2]))
        return {**put["calls"][0], "state": put["state"], "refused": self.reference.refused.get(index)}

    def put(self, variants: list[Inputs], held: dict[str, torch.Tensor]) -> dict[str, Any]:
        """Lay sets of inputs and one set of weights into the input arena; one call per set, for the candidate."""
        leaves = [_tensors(inputs.leaves()) for inputs in variants]
        tensors = [*(tensor for one in leaves for tensor in one.values()), *held.values()]
        self.slots, _ = arena.lay_out(tensors)
        self.inputs.bytes.fill_(arena.GUARD_PATTERN)
        for slot, tensor in zip(self.slots, tensors, strict=True):
            arena.store(self.inputs, slot, tensor)
        self._synchronize()
        places = iter(self.slots)
        calls = [
            {
                "inputs": [[number, next(places).to_json()] for number in one],
                "call": structure.pack(
                    (inputs.args, inputs.kwargs), {id(leaf): number for number, leaf in one.items()}
                ),
            }
            for inputs, one in zip(variants, leaves, strict=True)
        ]
        return {"calls": calls, "state": [[name, slot.to_json()] for name, slot in zip(held, places, strict=True)]}

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """The candidate's answer to a case: values, containers, aliasing, inputs, weights, buffers and guard bands."""
        index = int(request["case"])
        inputs, expected = self.reference._case(index)
        found = self._check(request, index, inputs, expected)
        if not found["check"]["passed"] and (moved := self.reference.conditioned(index)) is not None:
            found = self._check(request, index, inputs, moved)
        return found

    def _check(self, request: dict[str, Any], index: int, inputs: Inputs, expected: Expected) -> dict[str, Any]:
        answer, name = request["answer"], self.reference.specs[index].name
        try:
            got = [self.leaf(leaf) for leaf in answer["leaves"]]
            after = {str(key): arena.view(self.outputs, arena.Slot.from_json(slot)) for key, slot in answer["state"]}
        except (ValueError, KeyError, TypeError) as error:
            return _failed(name, f"the returned description is malformed: {error}")
        if answer["structure"] != expected.structure:
            return _failed(name, f"returned {_shape_of(answer['structure'])}, expected {_shape_of(expected.structure)}")
        values = compare.compare(expected, got, name)
        same = None
        if values.passed:  # of the right shape, so no larger than the reference's own answer
            prints = [fingerprint(leaf) for leaf in got if isinstance(leaf, torch.Tensor)] if _wanted(request) else []
            same = prints == self.last if request.get("repeat") else None
            self.last = prints if request.get("remember") else self.last
        problem = self._side_effects(index, inputs, expected, answer, after)
        if values.passed and problem:
            values = values.model_copy(update={"passed": False, "detail": problem})
        return {"check": values.model_dump(mode="json"), "same": same}

    def leaf(self, leaf: dict[str, Any]) -> Leaf:
        if "slot" in leaf:
            return arena.view(self.outputs, arena.Slot.from_json(leaf["slot"]))
        value: Leaf = leaf["value"]
        return value

    def _side_effects(
        self, index: int, inputs: Inputs, expected: Expected, answer: dict[str, Any], after: dict[str, torch.Tensor]
    ) -> str:
        """What else the candidate did to the world, in one line; empty when it did what the reference does."""
        before = inputs.leaves()
        tensors = _tensors(before)
        now: list[Leaf] = list(before)
        for number, slot in zip(tensors, self.slots, strict=False):
            now[number] = arena.view(self.inputs, slot)
        touched = compare.compare_inputs(expected, before, now, "inputs")
        if not touched.passed:
            return f"an input was modified: {touched.detail}"
        for start, end in arena.guards(self.slots, self.inputs.bytes.numel()):
            if end > start and not bool((self.inputs.bytes[start:end] == arena.GUARD_PATTERN).all()):
                return "memory next to an input was written: a store runs past the end of a tensor"
        held = state(self.reference.models[index % 2])
        missing = [key for key in expected.state if key not in after]
        if missing:
            return f"buffer `{missing[0]}` is missing: the reference changes it in forward"
        changed = compare.compare_state(
            expected, {k: held[k] for k in after if k in held}, {k: v for k, v in after.items() if k in held}, "state"
        )
        if not changed.passed:
            return f"parameters or buffers after forward differ: {changed.detail}"
        return _alias_problem(expected, answer["aliases"])

    def _synchronize(self) -> None:
        if self.reference.device == "cuda":
            torch.cuda.synchronize()

    def close(self) -> None:
        self.inputs.close()
        self.outputs.close()


def _alias_problem(expected: Expected, aliases: list[Any]) -> str:
    answers = [answer for answer in expected.outputs if isinstance(answer.value, torch.Tensor)]
    for number, (answer, alias) in enumerate(zip(answers, aliases, strict=False)):
        if alias is None:
            continue
        kind, _, which = str(alias).partition(" ")
        permitted = (kind == "input" and which.isdigit() and int(which) in answer.aliases) or (
            kind == "state" and which in answer.state_aliases
        )
        if not permitted:
            return f"output {number} shares memory with {alias}: return a fresh tensor"
    return ""


def _tensors(leaves: list[Leaf]) -> dict[int, torch.Tensor]:
    return {number: leaf for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}


def _wanted(request: dict[str, Any]) -> bool:
    return bool(request.get("repeat") or request.get("remember"))


def _outline(tensor: torch.Tensor) -> torch.Tensor:
    """Its shape, strides and dtype without its content."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _roomy(tensor: torch.Tensor) -> torch.Tensor:
    """The outline of an answer as large as a candidate may return it: where elements share memory, without that."""
    plain = tensor.numel() * tensor.element_size() > arena.span_bytes(
        tensor.shape, tensor.stride(), tensor.element_size()
    )
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") if plain else _outline(tensor)


def _bytes(leaves: list[Any]) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))


def _shape_of(described: Any) -> str:
    """A container description in words a person reads at once."""
    text = str(described).replace("'", "").replace('"', "")
    return text if len(text) <= 120 else text[:117] + "..."


def _failed(name: str, detail: str) -> dict[str, Any]:
    return {"check": Check(inputs=name, passed=False, detail=detail).model_dump(mode="json"), "same": None}
