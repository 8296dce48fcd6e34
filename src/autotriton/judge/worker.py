"""The candidate's process. It loads the candidate, runs it on what lies in the arena, and hands back tensor bytes.

It decides nothing: what it says about itself (launches, operators, fences) can only speak against the candidate, and
the values it returns are compared elsewhere. Protocol: one `load`, then any number of `run` (and `time` on a GPU),
JSON over the control socket; tensors only through the arenas.
"""

from __future__ import annotations

import linecache
import socket
import sys
import traceback
import types
from typing import Any

import torch

from autotriton.judge import arena, blocking, structure
from autotriton.judge.allocator import LARGE_BYTES, Kept
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.interpreting import Interpreter
from autotriton.judge.native import Native
from autotriton.judge.program import flatten
from autotriton.judge.program import structure as containers
from autotriton.judge.rehearsal import Performance
from autotriton.judge.shortage import out_of_memory
from autotriton.judge.watching import Watch

FILENAME = "<candidate>"


class CandidateError(Exception):
    """The candidate cannot be used at all; the text says why."""


def main(control: socket.socket) -> None:
    channel = Channel(control)
    session: Session | None = None
    while True:
        try:
            request, descriptors = channel.receive()
        except ChannelError:
            return
        try:
            if request["do"] == "load":
                session = Session(request, descriptors)
                answer = session.load(request)
            else:
                assert session is not None
                answer = session.time(request) if request["do"] == "time" else session.run(request)
        except BaseException as error:  # noqa: BLE001 - foreign code: SystemExit and KeyboardInterrupt are its doing too
            answer = {"error": describe_error(error, session)}
        channel.send(answer)


def describe_error(error: BaseException, session: Session | None) -> dict[str, Any]:
    """What a person or a model needs to mend it: type, text, and the line of the candidate it came from."""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    lines = [f for e in (root, error) for f in traceback.extract_tb(e.__traceback__) if f.filename == FILENAME]
    line = getattr(root, "lineno", None) if isinstance(root, SyntaxError) else (lines[-1].lineno if lines else None)
    text = str(root).strip() or repr(root)
    kind = "unusable" if isinstance(root, CandidateError) else "blocked" if _is_blocked(error) else "raised"
    unsupported = session is not None and isinstance(session.witness, Interpreter) and session.witness.unsupported
    return {
        "kind": "unsupported" if unsupported else kind,
        "type": type(root).__name__,
        "text": text[:2000],
        "line": line,
        "out_of_memory": out_of_memory(root),
        **(session.evidence() if session is not None else {}),
    }


def _is_blocked(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, blocking.TorchOpBlocked):
            return True
        error = error.__cause__ or error.__context__
    return False


class Session:
    """One candidate, its arenas and its witnesses."""

    def __init__(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self.device = str(request["device"])
        self.policy = str(request["policy"])
        sizes, shared_on = request["arena_sizes"], str(request["arena_device"])
        self.inputs = arena.attach(descriptors[0], sizes[0], self.device, shared_on=shared_on)
        self.outputs = arena.attach(descriptors[1], sizes[1], self.device, shared_on=shared_on)
        self.witness = Interpreter(FILENAME) if request["interpret"] else Native()
        self.blocks: blocking.Blocks | None = None
        self.watch: Watch | None = None
        self.previous: list[torch.Tensor] = []
        self.model: Any = None
        self._views: dict[arena.Slot, torch.Tensor] = {}
        self.performance: Performance | None = None
        self.kept = Kept()
        self.large = self.device == "cuda" and sum(sizes) > LARGE_BYTES
        """Neighbours need what torch would keep of it between two calls."""

    # --- loading ----------------------------------------------------------------------------------------

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = bool(request["tf32"])
        module = load_module(str(request["code"]))
        args, kwargs = structure.unpack(request["init"], {})
        torch.manual_seed(int(request["init_seed"]))
        with torch.device(self.device):
            self.model = self._construct(module, list(request["entries"]), bool(request["is_function"]), args, kwargs)
        if isinstance(self.model, torch.nn.Module):
            torch.nn.Module.to(self.model, self.device)
            torch.nn.Module.train(self.model, request["mode"] == "train")
        self.state_names = self._map_state(request["state"])
        if self.policy == "strict":
            self.blocks = blocking.install(FILENAME, request["helpers"], gpu=self.device == "cuda")
        return {"loaded": True}

    def _construct(
        self, module: types.ModuleType, entries: list[str], is_function: bool, args: Any, kwargs: Any
    ) -> Any:
        for name in entries:
            found = getattr(module, name, None)
            if found is None:
                continue
            if isinstance(found, type):
                model = found(*args, **kwargs)
                if not callable(model):
                    raise CandidateError(f"`{name}` cannot be called: give it a forward method")
                return model
            if is_function and callable(found):
                return found
        raise CandidateError(
            f"no `{entries[0]}` is defined: name the replacement {' or '.join(f'`{e}`' for e in entries)}"
        )

    def _map_state(self, wanted: list[list[Any]]) -> dict[str, torch.Tensor]:
        """The candidate's tensor for each of the reference's parameters and buffers: by name, else by shape and
        order.
        """
        if not isinstance(self.model, torch.nn.Module):
            if any(kind == "parameter" for _, kind, _ in wanted):
                raise CandidateError(
                    "the reference has parameters: write the replacement as an nn.Module with the same ones"
                )
            return {}
        # Unbound: the candidate's class may override these.
        module = torch.nn.Module
        have = {
            name: tensor.detach()
            for name, tensor in [
                *module.named_parameters(self.model, remove_duplicate=False),
                *module.named_buffers(self.model, remove_duplicate=False),
            ]
        }
        mapped: dict[str, torch.Tensor] = {}
        left: list[tuple[str, str, tuple[int, ...]]] = []
        for name, kind, slot_json in wanted:
            slot = arena.Slot.from_json(slot_json)
            tensor = have.get(name)
            if tensor is not None and tuple(tensor.shape) == slot.shape and str(tensor.dtype) == f"torch.{slot.dtype}":
                mapped[name] = have.pop(name)
            else:
                left.append((name, kind, slot.shape))
        for name, kind, shape in left:
            match = next((key for key, tensor in have.items() if tuple(tensor.shape) == shape), None)
            if match is not None:
                mapped[name] = have.pop(match)
            elif kind == "parameter":
                text = f"no parameter for the reference's `{name}` of shape {list(shape)}"
                raise CandidateError(
                    f"{text}: keep the reference's parameters (same names, or same shapes in the same order)"
                )
        return mapped

    # --- running ----------------------------------------------------------------------------------------

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """One forward (or several) on the arena's current content; outputs and state go to the other arena."""
        self.inputs.pull()
        slots, leaves = self.place(request["inputs"])
        args, kwargs = structure.unpack(request["call"], leaves)
        self.watch = Watch(int(request["poison"]), count_cost=self.policy == "mixed")
        self._prepare_witness(request, leaves, slots)
        for _ in range(int(request.get("times", 1))):
            self.load_state(request["state"])
            with torch.no_grad(), self.watch:
                result = self.model(*args, **kwargs)
        self._synchronize()
        self.inputs.push()
        for index, slot in slots.items():
            if (tuple(leaves[index].shape), leaves[index].stride()) != (slot.shape, slot.stride):
                raise CandidateError(f"changed the shape of input {index} in place")
        handed = self.hand_over(result, slots)
        if self.large:
            del result
            self.kept.give_back()
        return handed

    def place(self, inputs: list[list[Any]]) -> tuple[dict[int, arena.Slot], dict[int, torch.Tensor]]:
        """Input tensors over the arena. The same slot is the same tensor object in every call, with other content."""
        slots = {int(index): arena.Slot.from_json(slot) for index, slot in inputs}
        for slot in slots.values():
            if slot not in self._views:
                self._views[slot] = arena.view(self.inputs, slot)
        return slots, {index: self._views[slot] for index, slot in slots.items()}

    def _prepare_witness(
        self, request: dict[str, Any], leaves: dict[int, torch.Tensor], slots: dict[int, arena.Slot]
    ) -> None:
        self.witness.noop = bool(request["noop"])
        self.witness.counts.clear()
        if self.blocks is not None:
            self.blocks.scalar_reads = 0
        if isinstance(self.witness, Interpreter):
            assert self.watch is not None
            self.witness.config_index = int(request["config_index"])
            self.witness.ranges = self.watch.ranges
            self.watch.ranges.extend([(leaf.data_ptr(), slots[index].span) for index, leaf in leaves.items()])
            for tensor in self.state_names.values():
                self.watch.ranges.add(*extent(tensor))

    def load_state(self, slots: list[list[Any]]) -> None:
        with torch.no_grad():
            for name, slot in slots:
                if name in self.state_names:
                    self.state_names[name].copy_(arena.view(self.inputs, arena.Slot.from_json(slot)))

    def hand_over(self, result: Any, inputs: dict[int, arena.Slot]) -> dict[str, Any]:
        leaves = flatten(result)[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for tensor in tensors:
            if (
                type(tensor) not in (torch.Tensor, torch.nn.Parameter)
                or tensor.__dict__
                or tensor.layout != torch.strided
            ):
                raise CandidateError(f"returned a {type(tensor).__name__} that is no plain tensor")
            if tensor.device.type != self.device:
                raise CandidateError(f"returned a tensor on {tensor.device}: return tensors on {self.device}")
        state = list(self.state_names.items())
        written = [*tensors, *(tensor for _, tensor in state)]
        slots, size = arena.lay_out(written)
        if size > self.outputs.bytes.numel():
            raise CandidateError("returned more data than the reference does")
        for tensor, slot in zip(written, slots, strict=True):
            arena.store(self.outputs, slot, tensor)
        self.outputs.push()
        self._synchronize()
        aliases = [self._alias_of(tensor, inputs) for tensor in tensors]
        self.previous = tensors
        places = iter(slots)
        return {
            "structure": containers(result),
            "aliases": aliases,
            "leaves": [
                {"slot": next(places).to_json()} if isinstance(leaf, torch.Tensor) else {"value": plain(leaf)}
                for leaf in leaves
            ],
            "state": [[name, next(places).to_json()] for name, _ in state],
            **self.evidence(),
        }

    def _alias_of(self, tensor: torch.Tensor, inputs: dict[int, arena.Slot]) -> str | None:
        """What else this output's memory belongs to: an input, a parameter, or the answer to an earlier call."""
        if tensor.numel() == 0:
            return None
        base = self.inputs.bytes.data_ptr()
        named = [(f"input {index}", base + slot.offset, slot.span) for index, slot in inputs.items()]
        named += [(f"state {name}", *extent(value)) for name, value in self.state_names.items()]
        named += [("an earlier answer", *extent(earlier)) for earlier in self.previous]
        start, size = extent(tensor)
        for name, other, span in named:
            if other < start + size and start < other + span:
                return name
        return None

    def evidence(self) -> dict[str, Any]:
        """Everything seen so far that can speak against the candidate, and the launches."""
        witness, watch = self.witness, self.watch
        found: dict[str, Any] = {
            "launches": dict(witness.counts),
            "blocked": self.blocks.attempts[:20] if self.blocks else [],
        }
        if watch is not None:
            found["operators"] = dict(watch.operators)
            found["moved_bytes"] = dict(watch.moved_bytes)
            found["torch_cost"] = list(watch.cost)
            found["casts"] = watch.casts[:5]
            found["broken_fences"] = watch.broken_fences()
        if isinstance(witness, Interpreter):
            found["violations"] = witness.violations[:5]
            found["described"] = list(witness.launches.values())[:64]
        else:
            found["kernels"] = witness.kernels
            found["types"] = sorted(witness.types)[:64]
        return found

    def _synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """A phase of the timing tier; nothing watches here but the blocks and the clock."""
        if self.performance is None:
            self.performance = Performance(self)
        return self.performance.answer(request)


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First address and bytes from there to past the last element."""
    return tensor.data_ptr(), arena.span_bytes(tensor.shape, tensor.stride(), tensor.element_size())


def plain(leaf: Any) -> Any:
    """A scalar result as JSON; anything else is not an answer."""
    if leaf is None or isinstance(leaf, bool | int | float | str):
        return leaf
    raise CandidateError(f"returned a {type(leaf).__name__}: return tensors and plain numbers")


def load_module(code: str) -> types.ModuleType:
    """The candidate as a module whose source Triton and tracebacks can find."""
    linecache.cache[FILENAME] = (len(code), None, code.splitlines(keepends=True), FILENAME)
    module = types.ModuleType("candidate")
    module.__file__ = FILENAME
    sys.modules["candidate"] = module
    exec(compile(code, FILENAME, "exec"), module.__dict__)
    return module
