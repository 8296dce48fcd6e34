"""Strict policy, enforced: torch's compute kernels are taken out of the candidate's process.

Every operator that is neither an allocation, a view, a layout copy nor a cast is overridden at the dispatcher, below
autograd, `torch.ops`, scripted code and every Python mode, for all threads. The override refuses and remembers the
call. So delegation is not merely detected in correctness runs: it cannot happen, in timed runs neither.

Covers: every operator of every namespace reached through torch's dispatcher, composite ones included, and the exits
that bypass it (numpy, storages, DLPack, `apply_`, sizes read out of tensors). Does not cover: code that never passes
the dispatcher (ctypes, other libraries, CUDA graphs recorded earlier), which rules and sandbox close; what ran before
(import and constructor); and the little arithmetic of an allowed cast: to int it truncates, to bool it is `!= 0`.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn, cast

import torch
import torch.utils.dlpack

from autotriton.judge.blocking_names import ALLOCATIONS, BOOKKEEPING, COPIES, HELPERS, is_allowed

__all__ = [
    "ALLOCATIONS",
    "BOOKKEEPING",
    "COPIES",
    "HELPERS",
    "Blocks",
    "TorchOpBlocked",
    "candidate_line",
    "install",
    "is_allowed",
]

_KEYS = ("CPU", "CUDA", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "QuantizedCPU", "QuantizedCUDA",
         "MkldnnCPU", "NestedTensorCPU", "NestedTensorCUDA")  # fmt: skip
_SCALAR_READS_PER_CALL = 32
_ATTEMPTS_KEPT = 1000


class TorchOpBlocked(RuntimeError):
    """Raised in the candidate where it calls a torch op that the strict policy gives to Triton."""


@dataclass
class Blocks:
    """What is blocked, and what the candidate tried all the same."""

    attempts: list[tuple[str, int | None]] = field(default_factory=list)
    """Operator and the line of the candidate's file that called it."""
    scalar_reads: int = 0
    libraries: list[Any] = field(default_factory=list)

    def refuse(self, operator: str, filename: str, why: str) -> NoReturn:
        if len(self.attempts) < _ATTEMPTS_KEPT:
            self.attempts.append((operator, candidate_line(filename)))
        raise TorchOpBlocked(why)


def install(filename: str, helpers: Iterable[str], gpu: bool) -> Blocks:
    """Take the compute operators away, in this process, for good."""
    blocks = Blocks()
    allowed = frozenset(helpers)
    keys = [key for key in _KEYS if gpu or "CUDA" not in key]
    libraries: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator, taken in compute_operators():
            namespace, _, name = operator.partition("::")
            if is_allowed(operator, allowed):  # a helper this task's reference does not use
                continue
            refusal = _refusal(operator, filename, blocks)
            for key in taken:
                if key not in keys:
                    continue
                if namespace not in libraries:
                    libraries[namespace] = _library(namespace)
                libraries[namespace].impl(name, refusal, key, allow_override=True)
        for key in keys[: 2 if gpu else 1]:
            for overload, arange in _aranges().items():
                libraries["aten"].impl(overload, arange, key, allow_override=True)
            libraries["aten"].impl("_local_scalar_dense", _scalar_reader(filename, blocks), key, allow_override=True)
    blocks.libraries += libraries.values()
    _close_exits(filename, blocks)
    return blocks


@functools.cache
def compute_operators() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every operator a candidate may lose, with the places it computes in. Worked out once, before the first fork."""
    found = []
    for operator in torch._C._dispatch_get_all_op_names():
        if not is_allowed(operator, frozenset()):
            taken = tuple(_keys_to_take(operator, list(_KEYS)))
            if taken:
                found.append((operator, taken))
    return tuple(found)


def _library(namespace: str) -> Any:
    return torch.library.Library(namespace, "IMPL")  # type: ignore[no-untyped-call]


def _keys_to_take(operator: str, keys: list[str]) -> list[str]:
    """Where this operator has something to run. Composite ones have it on every device.

    Most composite operators only call others, which are refused by themselves; some (Sobol engines, fbgemm's products)
    compute on raw memory, so all are refused that make tensors. Those that make none ask about shapes and types.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    explicit = has(operator, "CompositeExplicitAutograd") or has(operator, "CompositeExplicitAutogradNonFunctional")
    composite = explicit or (has(operator, "CompositeImplicitAutograd") and _makes_tensors(operator))
    return [key for key in keys if has(operator, key) or (composite and key in ("CPU", "CUDA"))]


def _makes_tensors(operator: str) -> bool:
    name, _, overload = operator.partition(".")
    returns = torch._C._get_schema(name, overload).returns
    return any("Tensor" in str(returned.type) for returned in returns)


def _refusal(operator: str, filename: str, blocks: Blocks) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        why = f"{operator} is torch's work: under the strict policy a Triton kernel must compute this"
        blocks.refuse(operator, filename, why)

    return refuse


def candidate_line(filename: str) -> int | None:
    """The innermost line of the candidate's file on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == filename:
            return frame.f_lineno
        frame = frame.f_back
    return None


_CTYPES: dict[torch.dtype, Any] = {
    torch.float32: ctypes.c_float,
    torch.float64: ctypes.c_double,
    torch.int64: ctypes.c_int64,
    torch.int32: ctypes.c_int32,
    torch.int16: ctypes.c_int16,
    torch.int8: ctypes.c_int8,
    torch.uint64: ctypes.c_uint64,
    torch.uint32: ctypes.c_uint32,
    torch.uint16: ctypes.c_uint16,
    torch.uint8: ctypes.c_uint8,
    torch.bool: ctypes.c_bool,
}


def _scalar_reader(filename: str, blocks: Blocks) -> Callable[[torch.Tensor], Any]:
    """`.item()` for the few scalars a launch needs; not for moving the computation into Python."""

    def read(tensor: torch.Tensor) -> Any:
        blocks.scalar_reads += 1
        if blocks.scalar_reads > _SCALAR_READS_PER_CALL:
            why = "too many tensor values read into Python: compute in a Triton kernel instead"
            blocks.refuse("aten::item (too many values read into Python)", filename, why)
        if tensor.is_complex():
            real, imaginary = torch.view_as_real(tensor).unbind()
            return complex(_number(real), _number(imaginary))
        return _number(tensor)

    return read


def _aranges() -> dict[str, Callable[..., torch.Tensor]]:
    """`arange` with its result allocated first: torch's own calls `resize_`, which is refused."""

    def arange(start: Any, end: Any, step: Any, dtype: Any = None, device: Any = None, **_: Any) -> torch.Tensor:
        whole = all(isinstance(bound, int) for bound in (start, end, step))
        kind = dtype or (torch.int64 if whole else torch.get_default_dtype())
        size = -((start - end) // step) if whole else math.ceil((end - start) / step)
        out = torch.empty(max(size, 0), dtype=kind, device=device)
        return cast(torch.Tensor, torch.ops.aten.arange.start_out(start, end, step, out=out))

    return {
        "arange": lambda end, **more: arange(0, end, 1, **more),
        "arange.start": lambda start, end, **more: arange(start, end, 1, **more),
        "arange.start_step": lambda start, end, step=1, **more: arange(start, end, step, **more),
    }


def _number(tensor: torch.Tensor) -> Any:
    dtype = tensor.dtype if tensor.dtype in _CTYPES else torch.float64
    host = tensor.detach().to("cpu", dtype)
    return _CTYPES[dtype].from_address(host.data_ptr()).value


_CLOSED_METHODS = (
    *("numpy", "tolist", "storage", "_typed_storage", "untyped_storage", "set_", "apply_", "map_", "map2_"),
    *("__array__", "__dlpack__", "__reduce_ex__", "__deepcopy__", "share_memory_"),
)
_CLOSED_FUNCTIONS = (
    (torch, ("from_numpy", "frombuffer", "from_dlpack", "from_file")),
    (torch.utils.dlpack, ("from_dlpack", "to_dlpack")),
    (torch._C, ("_from_dlpack", "_to_dlpack", "_to_dlpack_versioned")),
)


def _close_exits(filename: str, blocks: Blocks) -> None:
    """The ways tensor content leaves or enters torch, or is computed with, without passing the dispatcher."""

    def closed(name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            why = f"{name}: tensor content may not leave or enter torch: compute in a Triton kernel instead"
            blocks.refuse(name, filename, why)

        return refuse

    for name in _CLOSED_METHODS:
        setattr(torch.Tensor, name, closed(f"Tensor.{name}"))
    torch.Tensor.__cuda_array_interface__ = property(closed("Tensor.__cuda_array_interface__"))  # type: ignore[assignment]
    for module, names in _CLOSED_FUNCTIONS:
        for name in names:
            if hasattr(module, name):
                setattr(module, name, closed(f"{module.__name__}.{name}"))
