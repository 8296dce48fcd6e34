"""A kernel in use: the verified file, loaded and bound to a live module's tensors. Made on first use, never pickled."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from autotriton.live import guards
from autotriton.live.describing import owned
from autotriton.live.gradients import differentiable
from autotriton.live.guards import Reason
from autotriton.live.loading import Borrower, load
from autotriton.live.outlines import Unlike
from autotriton.live.record import Optimized
from autotriton.live.watching import Changed, Watch

ENTRIES = ("ModelNew", "Model")


class Runtime:
    """Decides call by call whether the kernel may run, and runs it."""

    def __init__(self, module: nn.Module, optimized: Optimized) -> None:
        self.module, self.optimized = module, optimized
        self.constants = dict(optimized.constants)
        self.watch = Watch(module, optimized.structure)
        held = owned(module, self.constants)
        gone = [kind.name for kind in optimized.state if kind.name not in held]
        if gone:
            raise Changed(f"`{gone[0]}` is no longer a tensor of the module")
        self.places = [held[kind.name] for kind in optimized.state]
        self.ties = [(held[one], held[other]) for one, other in optimized.ties]
        self.kernels: dict[torch.device, Borrower] = {}
        self.broken: Reason | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The module's result by the kernel, or the reason why the original has to run."""
        try:
            tensors = self.optimized.call.tensors(args, kwargs)
        except Unlike as error:
            return Reason(f"arguments {str(error).partition(' ')[0]}", f"in this call {error}")
        reason = self.refuse(tensors)
        if reason is not None:
            return reason
        results = self._run(tensors)
        return results if isinstance(results, Reason) else self.optimized.outline.rebuild(results)

    def refuse(self, tensors: list[Any]) -> Reason | None:
        """Why the kernel may not be used for these tensors; None when it may."""
        reason = self.broken or guards.refuse_context() or self.watch.refuse()
        if reason is not None:
            return reason
        sizes: dict[str, int] = {}
        for kind, tensor in zip(self.optimized.inputs, tensors, strict=True):
            reason = kind.refuse(tensor, sizes)
            if reason is not None:
                return reason
        device = tensors[0].device
        if any(tensor.device != device for tensor in tensors):
            return Reason("devices", "the inputs are on different devices")
        reason = guards.refuse_sizes(sizes, self.optimized.ranges) or refuse_device(device)
        if reason is not None:
            return reason
        self._move_constants(device)
        return guards.refuse_state(self.optimized.state, self.places, device) or guards.refuse_untied(self.ties)

    def _move_constants(self, device: torch.device) -> None:
        """Tensors of the graph that are nobody's attributes follow the inputs."""
        for name, tensor in self.constants.items():
            if tensor.device != device:
                self.constants[name] = tensor.to(device)

    def _run(self, tensors: list[Tensor]) -> tuple[Tensor, ...] | Reason:
        """The kernel's results, with gradients where somebody may ask for them."""
        wants_gradients = torch.is_grad_enabled() and self._requires_gradients(tensors)
        if wants_gradients and self.optimized.in_place:
            return Reason("in place", "forward changes or returns its inputs' memory, and gradients are wanted")
        try:
            kernel = self._kernel(tensors[0].device)
            if not wants_gradients:
                return kernel(*tensors)
            return differentiable(self.module, self.optimized, kernel, tensors)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if self.optimized.changing or self.optimized.in_place:
                raise  # something may be half changed: running the original now would change it twice
            text = " ".join(str(error).split())[:200]
            self.broken = Reason("failure", f"the kernel failed with {type(error).__name__}: {text}")
            return self.broken

    def _requires_gradients(self, tensors: list[Tensor]) -> bool:
        return any(tensor.requires_grad for tensor in tensors) or any(
            place.tensor.requires_grad for place in self.places
        )

    def _kernel(self, device: torch.device) -> Borrower:
        if device not in self.kernels:
            self.kernels[device] = load_kernel(self.optimized, self.module, self.constants, device)
        return self.kernels[device]


def load_kernel(
    optimized: Optimized, module: nn.Module, constants: dict[str, Tensor], device: torch.device
) -> Borrower:
    """The kernel file's module, computing with the live module's tensors."""
    if interpreted():
        _complete_interpreter()
    loaded = load(optimized.candidate.code, f"kernels for {optimized.title}")
    init = load(optimized.task.source, optimized.title).get_init_inputs()
    kind = next(getattr(loaded, name) for name in ENTRIES if hasattr(loaded, name))
    return Borrower(kind, init, owned(module, constants), device)


def refuse_device(device: torch.device) -> Reason | None:
    """Triton runs on GPUs, and on the CPU only in its interpreter, which has to be asked for before it is imported."""
    if device.type == "cuda" or (device.type == "cpu" and interpreted()):
        return None
    hint = "set TRITON_INTERPRET=1 to run them in Triton's interpreter" if device.type == "cpu" else "move it to a GPU"
    return Reason("device", f"Triton kernels do not run on {device.type} ({hint})")


@cache
def _complete_interpreter() -> None:
    """Triton's interpreter lacks arithmetic that kernels use and the judge has given it; theirs must be the same."""
    from autotriton.judge import emulation, libdevice

    emulation.patch_arithmetic()
    libdevice.patch_libdevice()


def interpreted() -> bool:
    from triton import knobs

    return bool(knobs.runtime.interpret)
