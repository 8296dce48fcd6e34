"""What a pooling node asks for, and the start that all pooling wrappers share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch import nn

from autotriton.propose.compiler.templates.conv_call import indented
from autotriton.propose.compiler.templates.piece import NO_PLACES, Epilogue, Places, Site, hint, shape_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

HELPER = '''\
def pooled_size(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows a dimension has; in ceil mode the last may reach over the end, provided it starts inside."""
    rest = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return rest // stride + 1
    count = -(-rest // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count
'''


PER_AXIS = '''\
def per_axis(value, dims):
    """One number for every axis: 3 is (3, 3) in two dimensions."""
    return (value,) * dims if isinstance(value, int) else value
'''


@dataclass(frozen=True)
class PoolCall:
    """One pooling operator, with its attributes spelled out per spatial dimension."""

    x: torch.fx.Node
    is_max: bool
    dims: int
    kernel: tuple[int, ...] = ()
    """Empty for adaptive pooling, whose windows follow from input and output sizes."""
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    ceil_mode: bool = False
    count_padding: bool = True
    divisor: int | None = None
    out: tuple[int | None, ...] = ()
    """Adaptive pooling's output sizes; None: as the input."""
    returns_indices: bool = False
    """The operator returns values and indices."""
    indices_used: bool = False
    space: tuple[int, ...] = ()
    """Output sizes behind the channels, at the example's sizes."""
    module: str = ""
    """How `forward` reads the layer that has just these settings: `self.pool`."""

    @property
    def axes(self) -> tuple[str, ...]:
        return ("d", "h", "w")[-self.dims :]

    @property
    def upper(self) -> list[str]:
        return [axis.upper() for axis in self.axes]

    @property
    def batched(self) -> bool:
        return len(shape_of(self.x)) == self.dims + 2

    @property
    def adaptive(self) -> bool:
        return bool(self.out)

    @property
    def is_global(self) -> bool:
        return set(self.out) == {1}

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.x.meta["val"].dtype
        return dtype

    @property
    def accumulator(self) -> str:
        return "tl.float64" if self.dtype is torch.float64 else "tl.float32"

    @property
    def pixels(self) -> int:
        """Output positions of one channel."""
        return math.prod(self.space)

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    def sizes(self) -> tuple[str, ...]:
        return (*(("N",) if self.batched else ()), "C", *(f"O{axis}" for axis in self.upper))

    def operands(self) -> tuple[torch.fx.node.Argument, ...]:
        if self.adaptive:
            return (self.x, self.out)
        common = (self.x, self.kernel, self.stride, self.padding)
        if self.is_max:
            return (*common, self.dilation, self.ceil_mode)
        return (*common, self.ceil_mode)

    def parameters(self) -> list[str]:
        """The wrapper's names for `operands`, after x."""
        if self.adaptive:
            return ["output_size"]
        return ["kernel_size", "stride", "padding", *(["dilation"] if self.is_max else []), "ceil_mode"]

    def title(self) -> str:
        kind = "max_pool" if self.is_max else "avg_pool"
        return f"{'adaptive_' if self.adaptive else ''}{kind}{self.dims}d"


class PlainEpilogue:
    """Stores values as they are: for operators that return a tuple, after which nothing is fused."""

    def __init__(self, call: PoolCall, sizes: tuple[str, ...]) -> None:
        self.call, self.sizes = call, sizes

    def formula(self, value: str) -> str:
        return value

    def operands(self) -> list[str]:
        return []

    def parameters(self) -> list[str]:
        return ["out_ptr"]

    def arguments(self) -> list[str]:
        return ["out"]

    def allocations(self) -> list[str]:
        return [f"out = torch.empty(({', '.join(self.sizes)},), dtype=x.dtype, device=x.device)"]

    def lines(self, value: str, index: Sequence[str], mask: str, places: Places = NO_PLACES) -> list[str]:
        return [f"tl.store(out_ptr + {flat_offset(self.sizes, index)}, {value}, mask={mask})"]

    def returned(self) -> str:
        return "out"


def flat_offset(sizes: Sequence[str], index: Sequence[str]) -> str:
    """Offset into a contiguous tensor."""
    text = index[0]
    for size, one in zip(sizes[1:], index[1:], strict=True):
        text = f"({text}) * {size} + {one}"
    return text


def divisor(call: PoolCall, broadcast: Callable[[str], str]) -> str:
    """How many elements a window of an average counts; `broadcast` says how an axis's coordinate meets the block."""
    axes = list(zip(call.axes, call.upper, strict=True))
    if call.divisor is not None:
        return str(call.divisor)
    if call.adaptive:
        spans = [f"(end_{a} - start_{a}){broadcast(a)}" for a in call.axes]
    elif (call.count_padding and not call.ceil_mode) or not (call.ceil_mode or any(call.padding)):
        spans = [f"K{big}" for big in call.upper]
    elif call.count_padding:  # in ceil mode windows may reach over the padding's end, which does not count
        spans = [
            f"(tl.minimum(start_{a} + K{big}, {big} + PADDING_{big}) - start_{a}){broadcast(a)}" for a, big in axes
        ]
    else:
        spans = [f"(tl.minimum(start_{a} + K{big}, {big}) - tl.maximum(start_{a}, 0)){broadcast(a)}" for a, big in axes]
    return f"({' * '.join(spans)})"


class PoolNames:
    """The tensor's name, out of the epilogue's way, and statements common to the wrappers."""

    def __init__(self, call: PoolCall, site: Site) -> None:
        self.call = call
        self.epilogue: Epilogue = site.epilogue or PlainEpilogue(call, call.sizes())
        self.name = site.name
        taken = {*self.epilogue.operands(), *self.epilogue.parameters()}
        self.x = "pooled" if {"x", "x_ptr"} & taken else "x"

    def signature(self) -> str:
        return ", ".join([self.x, *self.call.parameters(), *self.epilogue.operands()])

    def unpacked(self) -> list[str]:
        call, big = self.call, self.call.upper
        lines = [] if call.batched else [f"{self.x} = {self.x}.unsqueeze(0)"]
        lines.append(f"N, C, {', '.join(big)} = {self.x}.shape")
        if call.adaptive:
            known = zip(big, call.out, strict=True)
            return [*lines, *(f"O{a} = {f'output_size[{d}]' if n else a}" for d, (a, n) in enumerate(known))]
        for d, axis in enumerate(big):
            dilation = f"dilation[{d}]" if call.is_max else "1"
            window = f"kernel_size[{d}], stride[{d}], padding[{d}], {dilation}, ceil_mode"
            lines.append(f"O{axis} = pooled_size({axis}, {window})")
        return lines

    def missing(self, used: Sequence[str]) -> list[str]:
        """Sizes the kernel needs that the epilogue's parameters do not bring already."""
        return [name for name in used if name not in self.epilogue.parameters()]

    def formula(self) -> str:
        return self.epilogue.formula(f"{self.call.title()}({self.x})")

    def returned(self) -> str:
        if not self.call.returns_indices:
            return self.epilogue.returned()
        return f"{self.epilogue.returned()}, {'indices' if self.call.indices_used else 'None'}"

    def wrapper(self, body: Sequence[str]) -> str:
        return f"def {self.name}({self.signature()}):\n{indented(body)}\n"


def parse(node: torch.fx.Node) -> PoolCall | None:
    name = str(node.target).removeprefix("aten.").rpartition(".")[0]
    x = node.args[0]
    if not isinstance(x, torch.fx.Node):
        return None
    dims = int(name.split("pool")[1][0])
    indexed = isinstance(node.meta["val"], tuple | list)
    value = node.meta["val"][0] if indexed else node.meta["val"]
    space = tuple(hint(size) for size in value.shape[-dims:])
    used = indexed and any(user.args[1:] == (1,) for user in node.users)
    if "adaptive" in name:
        out = _spread(node.args[1], dims, allow_none=True)
        if out is None:
            return None
        return PoolCall(x, "max" in name, dims, out=out, returns_indices=indexed, indices_used=used, space=space)
    given = dict(zip(_MAX if "max" in name else _AVG, node.args[1:], strict=False)) | dict(node.kwargs)
    kernel = _spread(given["kernel_size"], dims)
    stride = _spread(given.get("stride") or given["kernel_size"], dims)
    padding, dilation = _spread(given.get("padding", 0), dims), _spread(given.get("dilation", 1), dims)
    if kernel is None or stride is None or padding is None or dilation is None:
        return None
    divisor = given.get("divisor_override")
    return PoolCall(
        x,
        "max" in name,
        dims,
        kernel=kernel,  # type: ignore[arg-type]
        stride=stride,  # type: ignore[arg-type]
        padding=padding,  # type: ignore[arg-type]
        dilation=dilation,  # type: ignore[arg-type]
        ceil_mode=bool(given.get("ceil_mode", False)),
        count_padding=bool(given.get("count_include_pad", True)),
        divisor=divisor if isinstance(divisor, int) else None,
        returns_indices=indexed,
        indices_used=used,
        space=space,
        module=str(node.meta.get("layer", "")),
    )


def is_of(call: PoolCall, layer: nn.Module) -> bool:
    """The layer's attributes are the call's. A pooling layer has all that its operator takes."""
    said = {"kernel": "kernel_size", "stride": "stride", "padding": "padding"} | (
        {"dilation": "dilation"} if call.is_max else {}
    )
    if call.adaptive or not all(hasattr(layer, attribute) for attribute in (*said.values(), "ceil_mode")):
        return False
    same = all(getattr(call, own) == _spread(getattr(layer, theirs), call.dims) for own, theirs in said.items())
    return same and call.ceil_mode == bool(layer.ceil_mode)


_MAX = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
_AVG = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")


def _spread(value: object, dims: int, allow_none: bool = False) -> tuple[int | None, ...] | None:
    """One number per dimension: 2 or [2] in two dimensions is (2, 2)."""
    values: list[Any] = list(value) if isinstance(value, Sequence) else [value]
    if len(values) == 1:
        values *= dims
    fine = all(type(v) is int or (allow_none and v is None) for v in values)
    return tuple(values) if len(values) == dims and fine else None
