"""One forward pass, watched: its ops, longest accumulation, coarsest precision, randomness and arg-reductions.

Must stay true: watching changes nothing; every op runs as it would without it.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from autotriton.judge.answers import Tie
from autotriton.judge.measure import unit_of
from autotriton.judge.modes import EagerMode
from autotriton.judge.program import Inputs, Model, Program, duplicate

# Kernels sum in tiles: nobody adds more than this many terms one after the other into one accumulator.
LONGEST = 1 << 18
FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "lift_fresh"}
MOVES = FREE | {
    *("clone", "copy_", "cat", "stack", "index", "index_select", "embedding", "gather", "constant_pad_nd", "repeat"),
    *("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill_"),
    *("masked_select", "nonzero", "take", "flip", "roll", "tril", "triu", "where", "masked_fill", "arange"),
}
EXACT = {
    *("relu", "relu_", "neg", "abs", "sign", "maximum", "minimum", "max", "min", "amax", "amin", "sort", "topk"),
    *("clamp", "clamp_", "clamp_min", "clamp_max", "hardtanh", "hardtanh_", "threshold", "floor", "ceil", "round"),
    *(
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "_adaptive_max_pool2d",
        "median",
        "kthvalue",
        "trunc",
        "_to_copy",
    ),
}
"""Operators whose results need no rounding, and casts, which fp64 runs make differently."""
_ARG_REDUCTIONS = {"argmax", "argmin", "max", "min", "topk", "sort", "median", "nanmedian", "kthvalue", "mode"}
MATMULS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
"""Products, and which argument is the left factor; the right one follows it."""


def trace_ops(program: Program, model: Model, inputs: Inputs) -> dict[str, int]:
    """The aten ops the reference calls, with counts; views and allocations included."""
    trace, copy, given = Trace(), duplicate(model), inputs.clone()
    with trace:
        program.run(copy, given)
    return dict(trace.ops)


class Trace(EagerMode):  # type: ignore[no-untyped-call]
    """Watches one forward pass: ops, longest accumulation, coarsest precision, randomness, arg-reductions."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: Counter[str] = Counter()
        self.length = 1
        self.unit = 0.0
        self.units: dict[str, list[float]] = {}
        """Unit roundoff of what each operator returned, call by call."""
        self.random = False
        self.matmul = False
        self.truncates = False
        """Some float became an integer, so whole numbers may be indices."""
        self.ties: dict[int, Tie] = {}
        self._versions: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = op_name(func)
        self.ops[str(func)] += 1
        if is_view(func):
            return out
        self.random |= torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()) and not _inert_dropout(
            func, args, kwargs
        )
        self.matmul |= name in MATMULS or "conv" in name or "scaled_dot_product" in name or "rnn" in name
        self.length = max(self.length, min(accumulation(name, args, kwargs, out), LONGEST))
        self._note_precision(name, args, out)
        self._note_tie(name, args, kwargs, out)
        return out

    def tie_of(self, leaf: Tensor) -> Tie | None:
        """The arg-reduction an integer output came from, unless its values were overwritten since."""
        tie = self.ties.get(leaf.untyped_storage().data_ptr())
        if tie is None or tie.index.numel() != leaf.numel() or not leaf.is_contiguous():
            return None
        return tie if tie.table._version == self._versions[id(tie.table)] else None

    def _note_precision(self, name: str, args: Any, out: Any) -> None:
        coarsest = max((unit_of(tensor.dtype) for tensor in tensors_of(pytree.tree_leaves(out))), default=0.0)
        if name == "_to_copy":
            self.truncates |= args[0].is_floating_point() and coarsest == 0.0
            coarsest = coarsest if coarsest > unit_of(args[0].dtype) else 0.0
        if name not in MOVES:
            self.unit = max(self.unit, coarsest)
            self.units.setdefault(name, []).append(coarsest)

    def _note_tie(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        if name in {"_to_copy", "clone"}:
            known = self.ties.get(args[0].untyped_storage().data_ptr())
            if known is not None and args[0].numel() == known.index.numel() and args[0].is_contiguous():
                self.ties[out.untyped_storage().data_ptr()] = known
            return
        if name not in _ARG_REDUCTIONS or kwargs.get("stable"):
            return
        index = out if name in {"argmax", "argmin"} else out[1] if isinstance(out, tuple | list) else None
        if not isinstance(index, Tensor):
            return
        tie = _tie(name, args, kwargs, index)
        self._versions[id(tie.table)] = tie.table._version
        self.ties[index.untyped_storage().data_ptr()] = tie


def accumulation(name: str, args: Any, kwargs: Any, out: Any) -> int:
    """How many terms one output element of this op adds up."""
    if name in MATMULS:
        return int(args[MATMULS[name]].shape[-1])
    if name in {"convolution", "_convolution", "cudnn_convolution"}:
        transposed = len(args) > 6 and bool(args[6])
        groups = args[8] if len(args) > 8 else 1
        return int(args[1].numel() // max(args[1].shape[1] * groups if transposed else args[1].shape[0], 1))
    if "scaled_dot_product" in name:
        return max(int(args[0].shape[-1]), int(args[1].shape[-2]))
    if name in {"_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp", "_safe_softmax"}:
        dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
        return int(args[0].shape[dim]) if args[0].dim() else 1
    if name in {"native_layer_norm", "_fused_rms_norm"}:
        return math.prod(args[1])
    if name == "native_group_norm":
        return int(args[0].numel() // max(args[3] * args[6], 1))
    if "batch_norm" in name:
        return int(args[0].numel() // max(args[0].shape[1], 1))
    if name.startswith("nll_loss"):
        return int(args[1].numel())
    if "rnn" in name or "lstm" in name or "gru" in name:
        return int(args[0].shape[-1]) * 2
    return _reduced(name, args, kwargs, out)


def _reduced(name: str, args: Any, kwargs: Any, out: Any) -> int:
    """Inputs per output, for every op that makes few numbers out of many."""
    if name in MOVES or name in _ARG_REDUCTIONS:
        return 1
    read = [tensor.numel() for tensor in tensors_of(pytree.tree_leaves((args, kwargs))) if tensor.is_floating_point()]
    written = sum(tensor.numel() for tensor in tensors_of(pytree.tree_leaves(out)))
    return max(read, default=1) // max(written, 1) or 1


def _tie(name: str, args: Any, kwargs: Any, index: Tensor) -> Tie:
    place = 2 if name in {"topk", "kthvalue"} else 1
    dim = kwargs.get("dim", args[place] if len(args) > place else None if name in {"argmax", "argmin"} else -1)
    if dim is None:
        return Tie(args[0].reshape(-1), index, 0, distinct=False)
    return Tie(args[0], index, int(dim), distinct=name in {"topk", "sort"})


def _inert_dropout(func: Any, args: Any, kwargs: Any) -> bool:
    """Attention asks for random numbers by its tag, but draws none without dropout."""
    names = [argument.name for argument in func._schema.arguments]
    key = next((key for key in ("dropout_p", "dropout") if key in names), None)
    if key is None:
        return False
    place = names.index(key)
    return float(kwargs.get(key, args[place] if len(args) > place else 0.0) or 0.0) == 0.0


def op_name(func: Any) -> str:
    schema = getattr(func, "_schema", None)  # higher-order operators have none
    return str(schema.name if schema is not None else func).removeprefix("aten::")


def is_view(func: Any) -> bool:
    """The op returns memory it was given, and does not write it."""
    returns = getattr(getattr(func, "_schema", None), "returns", ())
    return any(value.alias_info is not None and not value.alias_info.is_write for value in returns)


def tensors_of(leaves: list[Any]) -> list[Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]
