"""Strict policy, enforced: torch's compute kernels are taken out of the candidate's process.

Every operator that is neither an allocation, a view, a layout copy nor a cast is overridden at the dispatcher, below
autograd, `torch.ops`, scripted code and every Python mode, for all threads. The override refuses and remembers the
call. So delegation is not merely detected in correctness runs: it cannot happen, in timed runs neither.

Covers: every operator of every namespace reached through torch's dispatcher. Does not cover: code that never passes the
dispatcher (ctypes, other libraries, CUDA graphs recorded earlier); rules and sandbox close those.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

ALLOCATIONS = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like "
    "new_ones full full_like new_full zero_ zero fill_ fill arange scalar_tensor lift lift_fresh lift_fresh_copy".split()
)
COPIES = frozenset(
    "clone copy_ copy _to_copy _copy_from _copy_from_and_resize _pin_memory is_pinned contiguous _reshape_copy "
    "view_copy expand_copy permute_copy".split()
)
BOOKKEEPING = frozenset(
    "_local_scalar_dense detach_ set_data requires_grad_ is_same_size _has_compatible_shallow_copy_type sym_size sym_stride "
    "sym_numel sym_storage_offset sym_is_contiguous _assert_async _assert_tensor_metadata _fw_primal _version is_set_to "
    "_unsafe_view _reshape_alias rename_ retain_grad output_nr is_leaf data".split()
)
HELPERS = frozenset("cat stack constant_pad_nd".split())
"""Data movement a candidate may leave to torch unless the reference itself does it."""

_KEYS = ("CPU", "CUDA", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "QuantizedCPU", "QuantizedCUDA",
         "MkldnnCPU", "NestedTensorCPU", "NestedTensorCUDA")  # fmt: skip
_SCALAR_READS_PER_CALL = 32


class TorchOpBlocked(RuntimeError):
    """Raised in the candidate where it calls a torch op that the strict policy gives to Triton."""


@dataclass
class Blocks:
    """What is blocked, and what the candidate tried all the same."""

    attempts: list[tuple[str, int | None]] = field(default_factory=list)
    """Operator and the line of the candidate's file that called it."""
    scalar_reads: int = 0
    libraries: list[Any] = field(default_factory=list)


def is_allowed(operator: str, helpers: Iterable[str] = HELPERS) -> bool:
    """Whether `ns::name[.overload]` is an allocation, view, copy or cast."""
    namespace, _, name = operator.partition("::")
    base = name.split(".")[0]
    if namespace != "aten":
        return namespace in ("prim", "profiler", "triton")
    return base in ALLOCATIONS or base in COPIES or base in BOOKKEEPING or base in helpers or _is_view(operator)


def _is_view(operator: str) -> bool:
    """Returns aliases of its inputs and writes nothing: a view."""
    name, _, overload = operator.partition(".")
    try:
        schema = torch._C._get_schema(name, overload)  # type: ignore[attr-defined]
    except RuntimeError:
        return False
    if schema.name in ("aten::set_", "aten::resize_", "aten::_resize_output_") or not schema.returns:
        return False
    aliases = [returned.alias_info for returned in schema.returns]
    return all(alias is not None and not alias.is_write for alias in aliases)


def install(filename: str, helpers: Iterable[str], gpu: bool) -> Blocks:
    """Take the compute operators away, in this process, for good."""
    blocks = Blocks()
    allowed = frozenset(helpers)
    keys = [key for key in _KEYS if gpu or "CUDA" not in key]
    libraries: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for operator in torch._C._dispatch_get_all_op_names():
            namespace, _, name = operator.partition("::")
            if namespace == "profiler" or is_allowed(operator, allowed):
                continue
            for key in keys:
                if _has_kernel(operator, key):
                    library = libraries.setdefault(namespace, torch.library.Library(namespace, "IMPL"))
                    library.impl(name, _refusal(operator, filename, blocks), key, allow_override=True)
        aten = libraries.setdefault("aten", torch.library.Library("aten", "IMPL"))
        for key in keys[: 2 if gpu else 1]:
            aten.impl("_local_scalar_dense", _scalar_reader(filename, blocks), key, allow_override=True)
    blocks.libraries += libraries.values()
    _close_exits(filename, blocks)
    return blocks


def _has_kernel(operator: str, key: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has(operator, key) or (key in ("CPU", "CUDA") and has(operator, "CompositeExplicitAutograd")))


def _refusal(operator: str, filename: str, blocks: Blocks) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        blocks.attempts.append((operator, candidate_line(filename)))
        raise TorchOpBlocked(f"{operator} is torch's work: under the strict policy a Triton kernel must compute this")

    return refuse


def candidate_line(filename: str) -> int | None:
    """The innermost line of the candidate's file on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == filename:
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


_CTYPES: dict[torch.dtype, Any] = {
    torch.float32: ctypes.c_float, torch.float64: ctypes.c_double, torch.int64: ctypes.c_int64, torch.int32: ctypes.c_int32,
    torch.int16: ctypes.c_int16, torch.int8: ctypes.c_int8, torch.uint8: ctypes.c_uint8, torch.bool: ctypes.c_bool,
}  # fmt: skip


def _scalar_reader(filename: str, blocks: Blocks) -> Callable[[torch.Tensor], Any]:
    """`.item()` for the few scalars a launch needs; not for moving the computation into Python."""

    def read(tensor: torch.Tensor) -> Any:
        blocks.scalar_reads += 1
        if blocks.scalar_reads > _SCALAR_READS_PER_CALL:
            blocks.attempts.append(("aten::item (too many values read into Python)", candidate_line(filename)))
            raise TorchOpBlocked("too many tensor values read into Python: compute in a Triton kernel instead")
        host = tensor.detach().to("cpu", torch.float64 if tensor.is_floating_point() and tensor.dtype not in _CTYPES else tensor.dtype)
        return _CTYPES[host.dtype].from_address(host.data_ptr()).value

    return read


def _close_exits(filename: str, blocks: Blocks) -> None:
    """The ways tensor content leaves or enters torch without passing the dispatcher."""

    def closed(name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            blocks.attempts.append((name, candidate_line(filename)))
            raise TorchOpBlocked(f"{name}: tensor content may not leave or enter torch: compute in a Triton kernel instead")

        return refuse

    for name in ("numpy", "tolist", "__array__", "__dlpack__", "storage", "_typed_storage", "set_"):
        setattr(torch.Tensor, name, closed(f"Tensor.{name}"))
    for name in ("from_numpy", "frombuffer", "from_dlpack", "from_file"):
        setattr(torch, name, closed(f"torch.{name}"))
