"""What a convolution node asks for, and the parts of a wrapper that all convolution kernels share.

One record for plain and transposed convolution in one, two or three dimensions. Wrappers read every size from their
tensors; the example's sizes, kept here, only choose between kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import torch
import torch.fx
from torch.nn.modules.conv import _ConvNd

from autotriton.propose.compiler.templates.piece import Epilogue, Site, shape_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_THIN = 8
"""Input times output channels of a group up to which tensor cores would mostly multiply padding."""


@dataclass(frozen=True)
class ConvCall:
    """One convolution, with its attributes spelled out per spatial dimension."""

    x: torch.fx.Node
    weight: torch.fx.Node
    bias: torch.fx.Node | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    """Before the first element of each dimension."""
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int
    transposed: bool
    same: bool
    """`padding="same"`: the output is as large as the input, and what is odd goes behind."""
    out_shape: tuple[int, ...]
    module: str = ""
    """How `forward` reads the layer that has just these settings: `self.conv`."""

    @property
    def dims(self) -> int:
        return len(self.stride)

    @property
    def axes(self) -> tuple[str, ...]:
        return ("d", "h", "w")[-self.dims :]

    @property
    def batched(self) -> bool:
        return len(shape_of(self.x)) == self.dims + 2

    @property
    def images(self) -> int:
        return shape_of(self.x)[0] if self.batched else 1

    @property
    def kernel(self) -> tuple[int, ...]:
        return shape_of(self.weight)[2:]

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def group_channels(self) -> int:
        """Input channels of one group."""
        first, second = shape_of(self.weight)[:2]
        return first // self.groups if self.transposed else second

    @property
    def group_outputs(self) -> int:
        """Output channels of one group."""
        first, second = shape_of(self.weight)[:2]
        return second if self.transposed else first // self.groups

    @property
    def phases(self) -> int:
        """Output positions that differ in which taps reach them: 1 unless transposed with a stride."""
        return math.prod(self.stride) if self.transposed else 1

    @property
    def pixels(self) -> int:
        """Output positions of one image."""
        return math.prod(self.out_shape[-self.dims :])

    @property
    def flops(self) -> int:
        """Multiplications and additions, without those a stride leaves out."""
        return 2 * self.images * self.pixels * self.groups * self.group_outputs * self.depth

    @property
    def depth(self) -> int:
        """Products summed up in one output element, on average over the phases."""
        return max(1, self.group_channels * self.taps // self.phases)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.x.meta["val"].dtype
        return dtype

    @property
    def thin(self) -> bool:
        """Nothing for tensor cores: depthwise, hardly any channels in a group, or fp64."""
        depthwise = self.group_channels == 1 and self.groups > 1
        return self.dtype is torch.float64 or depthwise or self.group_channels * self.group_outputs <= _THIN

    def sizes(self) -> tuple[str, ...]:
        return (*(("N",) if self.batched else ()), "OC", *(f"O{axis.upper()}" for axis in self.axes))

    def operands(self) -> tuple[torch.fx.node.Argument, ...]:
        attributes: list[torch.fx.node.Argument] = [self.stride, self.padding, self.dilation, self.groups]
        if self.transposed:
            attributes.insert(2, self.output_padding)
        return (self.x, self.weight, *(() if self.bias is None else (self.bias,)), *attributes)

    def index(self, vector: str, channel: str) -> list[str]:
        """How the epilogue finds an element: `vector` and `channel` are the broadcasts of a tile's two directions."""
        places = [f"n{vector}"] if self.batched else []
        return [*places, f"oc{channel}", *(f"o{axis}{vector}" for axis in self.axes)]


def parse(node: torch.fx.Node) -> ConvCall | None:
    """The call a node makes; None where it is none of ours."""
    name = str(node.target).removeprefix("aten.")
    given = dict(zip(_parameters(name), node.args, strict=False)) | dict(node.kwargs)
    x, weight, bias = given["input"], given["weight"], given.get("bias")
    if not isinstance(x, torch.fx.Node) or not isinstance(weight, torch.fx.Node):
        return None
    dims = len(shape_of(weight)) - 2
    stride, dilation = _spread(given.get("stride", 1), dims), _spread(given.get("dilation", 1), dims)
    named = given.get("padding", 0)
    if stride is None or dilation is None or dims not in (1, 2, 3):
        return None
    if isinstance(named, str):
        around = [(k - 1) * d for k, d in zip(shape_of(weight)[2:], dilation, strict=True)]
        padding = tuple(total // 2 if named == "same" else 0 for total in around)
    else:
        spread = _spread(named, dims)
        if spread is None:
            return None
        padding = spread
    behind = _spread(given.get("output_padding", 0), dims)
    transposed = "transpose" in name or given.get("transposed") is True
    if behind is None or not isinstance(groups := given.get("groups", 1), int):
        return None
    return ConvCall(
        x=x,
        weight=weight,
        bias=bias if isinstance(bias, torch.fx.Node) else None,
        stride=stride,
        padding=padding,
        dilation=dilation,
        output_padding=behind,
        groups=groups,
        transposed=transposed,
        same=named == "same",
        out_shape=shape_of(node),
        module=str(node.meta.get("layer", "")),
    )


def is_of(call: ConvCall, layer: _ConvNd) -> bool:
    """The layer's attributes are the call's; `padding="same"` is no attribute a wrapper could count with."""
    settings = (call.stride, call.padding, call.dilation, call.output_padding, call.groups, call.bias is None)
    said = (layer.stride, layer.padding, layer.dilation, layer.output_padding, layer.groups, layer.bias is None)
    return settings == said


def _parameters(name: str) -> tuple[str, ...]:
    start = ("input", "weight", "bias", "stride", "padding")
    if name.startswith("convolution"):
        return (*start, "dilation", "transposed", "output_padding", "groups")
    return (*start, "output_padding", "groups", "dilation") if "transpose" in name else (*start, "dilation", "groups")


def _spread(value: object, dims: int) -> tuple[int, ...] | None:
    """One number per dimension: 2 or [2] in two dimensions is (2, 2)."""
    values: list[Any] = list(value) if isinstance(value, Sequence) else [value]
    if len(values) == 1:
        values *= dims
    return tuple(values) if len(values) == dims and all(type(v) is int for v in values) else None


class ConvNames:
    """What the family's own tensors are called, out of the epilogue's way, and the start of every wrapper."""

    def __init__(self, call: ConvCall, site: Site, any_bias: bool = False) -> None:
        """With `any_bias` the text is for calls with a bias and without: it takes one that may be None."""
        self.call, self.site, self.any_bias = call, site, any_bias
        taken = {*site.epilogue.operands(), *site.epilogue.parameters(), *site.epilogue.arguments()}
        self.x, self.weight, self.bias = (_fresh(name, taken) for name in ("x", "weight", "bias"))

    def signature(self) -> str:
        own = [self.x, self.weight, *([self.bias] if self._takes_bias else []), "stride", "padding"]
        own += ["output_padding"] if self.call.transposed else []
        return ", ".join([*own, "dilation", "groups", *self.site.epilogue.operands()])

    def unpacked(self) -> list[str]:
        """Wrapper statements: input, kernel and output sizes by name."""
        call, upper = self.call, [axis.upper() for axis in self.call.axes]
        kernel = ", ".join(f"K{axis}" for axis in upper)
        lines = [] if call.batched else [f"{self.x} = {self.x}.unsqueeze(0)"]
        lines.append(f"N, C, {', '.join(upper)} = {self.x}.shape")
        if call.transposed:
            lines += [f"_, OCG, {kernel} = {self.weight}.shape", "OC = OCG * groups"]
        else:
            lines.append(f"OC, _, {kernel} = {self.weight}.shape")
        return [*lines, *(self._out_size(d, axis) for d, axis in enumerate(upper))]

    def _out_size(self, d: int, axis: str) -> str:
        reach = f"dilation[{d}] * (K{axis} - 1)"
        if self.call.transposed:
            return f"O{axis} = ({axis} - 1) * stride[{d}] - 2 * padding[{d}] + {reach} + output_padding[{d}] + 1"
        if self.call.same:
            return f"O{axis} = {axis}"
        return f"O{axis} = ({axis} + 2 * padding[{d}] - {reach} - 1) // stride[{d}] + 1"

    def formula(self) -> str:
        """For the docstring: what is stored."""
        kind = f"conv_transpose{self.call.dims}d" if self.call.transposed else f"conv{self.call.dims}d"
        if self.any_bias:
            result = f"{kind}({self.x}, {self.weight}, {self.bias})"
        else:
            result = f"{kind}({self.x}, {self.weight})" + (f" + {self.bias}" if self.call.bias is not None else "")
        return self.site.epilogue.formula(result)

    @property
    def _takes_bias(self) -> bool:
        return self.any_bias or self.call.bias is not None

    def bias_lines(self, channel: str, valid: str) -> list[str]:
        """Kernel statements that add the convolution's own bias."""
        if self.call.bias is None:
            return []
        return [f"acc += tl.load({self.bias}_ptr + oc, mask={valid}, other=0.0){channel}"]

    def bias_pointer(self) -> list[str]:
        return [] if self.call.bias is None else [f"{self.bias}_ptr"]

    def bias_argument(self) -> list[str]:
        return [] if self.call.bias is None else [self.bias]


def missing_sizes(call: ConvCall, epilogue: Epilogue) -> list[str]:
    """Sizes of the output that the epilogue's parameters do not bring already."""
    sizes = ["N", "OC", *(f"O{axis.upper()}" for axis in call.axes)]
    return [name for name in sizes if name not in epilogue.parameters()]


def indented(lines: Sequence[str], depth: int = 1) -> str:
    return indent("\n".join(lines), "    " * depth)


def parameter_list(parameters: Sequence[str], constants: Sequence[str]) -> str:
    """The parameters of a kernel, wrapped: tensors and sizes first, then the constants of compilation."""
    rows, row = [], ""
    for name in [*parameters, *(f"{name}: tl.constexpr" for name in constants)]:
        if len(row) + len(name) > 110:
            rows.append(row)
            row = ""
        row += f"{name}, "
    return indented([line.rstrip() for line in [*rows, row]])


def _fresh(name: str, taken: set[str]) -> str:
    free = not {name, f"{name}_ptr"} & taken
    return name if free else f"conv_{name}"
