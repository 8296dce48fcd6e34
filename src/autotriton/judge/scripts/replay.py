"""The candidate's process for script tasks: gets one call after the other, hands back tensor bytes. Decides nothing.

It holds the candidate's code and each call's arguments; neither the gold, nor its test, nor any answer is ever here.
"""

from __future__ import annotations

import socket
from typing import Any

import torch

from autotriton.judge import arena, blocking
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.interpreting import Interpreter
from autotriton.judge.program import seed_everything
from autotriton.judge.scripts import devices
from autotriton.judge.scripts.memory import ZEROS, Fences, salt
from autotriton.judge.scripts.packing import Handle, Named, Place, bound, replaced, unpack
from autotriton.judge.scripts.results import gradients, portable
from autotriton.judge.scripts.tuning import Tuning
from autotriton.judge.worker import FILENAME, CandidateError, Session, describe_error, load_module


def main(control: socket.socket) -> None:
    channel = Channel(control)
    session: Replay | None = None
    while True:
        try:
            request, descriptors = channel.receive()
        except ChannelError:
            return
        try:
            if request["do"] == "load":
                session = Replay(request, descriptors)
                answer = session.load(request)
            else:
                assert session is not None
                answer = session.run(request)
        except BaseException as error:  # noqa: BLE001 - foreign code: SystemExit and KeyboardInterrupt are its doing too
            answer = {"error": describe_error(error, session)}
        channel.send(answer)


class Replay(Session):
    """One candidate, called as the test called the gold."""

    def __init__(self, request: dict[str, Any], descriptors: list[int]) -> None:
        super().__init__(request, descriptors)
        self.objects: dict[int, Any] = {}
        self.state_names: dict[str, torch.Tensor] = {}
        self.tuning: Tuning | None = None

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.device == "cpu":
            devices.install()
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        if self.device == "cuda" and "autotune" in request["code"]:
            self.tuning = Tuning()
        self.module = load_module(str(request["code"]))
        missing = [name for name in request["entries"] if not hasattr(self.module, name)]
        if missing:
            raise CandidateError(f"no `{missing[0]}` is defined: the file must define {', '.join(request['entries'])}")
        if self.policy == "strict":
            self.blocks = blocking.install(FILENAME, request["helpers"], gpu=self.device == "cuda")
        return {"loaded": True}

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """One call on the arena's current content.

        Tuning runs every configuration over the same tensors: after it, the call is made again on what was given.
        """
        self.inputs.pull()
        if self.tuning is None:
            return self._once(request)
        given, earlier, self.tuning.count = self.inputs.bytes.clone(), self.previous, 0
        answer = self._once(request)
        if not self.tuning.count:
            return answer
        self.inputs.bytes.copy_(given)
        self.previous = earlier
        return self._once(request)

    def _once(self, request: dict[str, Any]) -> dict[str, Any]:
        memory = [arena.Slot.from_json(slot) for slot in request["memory"]]
        slots = {number: arena.Slot.from_json(given[0]) for number, given in enumerate(request["inputs"])}
        tensors = [self._tensor(slot, *request["inputs"][number][1:]) for number, slot in slots.items()]
        if request["kind"] == "make":  # an object may keep what it was given, and the arena is filled again
            tensors = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors]
        # Backward may write into the gradient it is given, and return it.
        grads = [arena.view(self.inputs, arena.Slot.from_json(slot)).clone() for slot in request["grads"]]
        kind = ZEROS if request["quiet"] else int(request["poison"])
        salt(self.device, kind)
        self.watch = Fences(kind, count_cost=self.policy == "mixed")
        self._prepare(request, memory)
        self._load_states(request["states"], tensors)
        function, value = self._prepared(request, tensors)
        seed_everything(int(request["rng_seed"]))
        with torch.enable_grad() if request["with_grad"] else torch.no_grad(), self.watch:
            result = function(*value[0], **value[1])
            back = gradients(result, tensors, grads) if request["backward"] else None
        for number, slot in slots.items():
            if tensors[number].device.type != self.device:  # the arena's copy is what is looked at
                arena.store(self.inputs, slot, tensors[number])
        self._synchronize()
        self.inputs.push()
        return self._answer(request, result, back, slots)

    def _tensor(self, slot: arena.Slot, requires_grad: bool, is_parameter: bool, on_host: bool) -> torch.Tensor:
        """Fresh objects every time: nothing a candidate hangs on one is found again."""
        tensor = arena.view(self.inputs, slot)
        tensor = tensor.cpu() if on_host else tensor
        if is_parameter:
            return torch.nn.Parameter(tensor, requires_grad)
        return tensor.requires_grad_(requires_grad)

    def _prepare(self, request: dict[str, Any], memory: list[arena.Slot]) -> None:
        self.witness.noop = bool(request["noop"])
        self.witness.counts.clear()
        if self.blocks is not None:
            self.blocks.scalar_reads = 0
        if isinstance(self.witness, Interpreter):
            assert self.watch is not None
            self.witness.config_index = int(request["config_index"])
            self.witness.ranges = self.watch.ranges
            base = self.inputs.bytes.data_ptr()
            self.watch.ranges.extend([(base + slot.offset, slot.span) for slot in memory])

    def _prepared(self, request: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[Any, Any]:
        def real(leaf: Any) -> Any:
            if isinstance(leaf, Place):
                return tensors[leaf.index]
            if isinstance(leaf, Handle):
                return self.objects[leaf.index]
            return self._resolve(leaf.name) if isinstance(leaf, Named) else leaf

        on = self.objects[request["on"]] if request["on"] is not None else None
        function = bound(request["path"], request["kind"], self._resolve, on)
        return function, replaced(unpack(request["call"]), real)

    def _resolve(self, path: str) -> Any:
        found: Any = self.module
        for part in path.split("."):
            if not hasattr(found, part):
                raise CandidateError(f"`{path}` is not defined, and the test calls it")
            found = getattr(found, part)
        return found

    def _load_states(self, states: list[list[Any]], tensors: list[torch.Tensor]) -> None:
        """Give the candidate's modules the gold's parameters and buffers: by name, else by shape."""
        for made, name, number in states:
            module = self.objects.get(made)
            if not isinstance(module, torch.nn.Module):
                continue
            wanted = tensors[number]
            held = dict([*torch.nn.Module.named_parameters(module), *torch.nn.Module.named_buffers(module)])
            alike = [tensor for tensor in held.values() if tensor.shape == wanted.shape]
            target = held.get(name, alike[0] if alike else None)
            if target is not None and target.shape == wanted.shape:
                with torch.no_grad():
                    target.copy_(wanted)

    def _answer(
        self, request: dict[str, Any], result: Any, back: list[Any] | None, slots: dict[int, arena.Slot]
    ) -> dict[str, Any]:
        if request["kind"] == "make" or _is_object(result):
            self.objects[int(request["number"])] = result
        if request["kind"] == "make":
            return {"structure": None, "aliases": [], "leaves": [], "state": [], **self.evidence()}
        plain = portable(result)
        whole = (plain, tuple(back)) if back is not None else plain
        return self.hand_over(replaced(whole, self._placed), slots)

    def _placed(self, leaf: Any) -> Any:
        """A tensor on the device, without the gaps of a view into something larger."""
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.to(self.device)
        gaps = arena.span_bytes(leaf.shape, leaf.stride(), leaf.element_size()) > leaf.numel() * leaf.element_size()
        return leaf.contiguous() if gaps else leaf


def _is_object(result: Any) -> bool:
    return result is not None and not isinstance(result, torch.Tensor | int | float | str | tuple | list)
