"""Operators brought into forms Inductor has Triton templates for. Runs in the capturing child process only.

A convolution with one spatial dimension becomes one with two; transposed and dilated ones become plain ones over
zero-stuffed tensors, which is correct but costs extra work. Products with a vector become sums, pooling over three
dimensions pooling over two and then one. Fused RNN cells become their formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten
_LONG_K, _LEAST_K, _ENOUGH_TILES = 16, 512, 512
"""K is split from this many times the other dimensions on, not below this length, until there are this many tiles."""


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    dims = x.dim() - 2
    stride, padding, dilation, output_padding = (
        list(v) * dims if len(v) == 1 else list(v) for v in (stride, padding, dilation, output_padding)
    )
    if not transposed and dims > 1 and all(d == 1 for d in dilation):
        return NotImplemented
    if transposed:
        kernel = weight.shape[2:]
        before = [dilation[i] * (kernel[i] - 1) - padding[i] for i in range(dims)]
        weight = _turned(weight, groups)
        x = _stuffed(x, stride)
        edges = [edge for i in reversed(range(dims)) for edge in (before[i], before[i] + output_padding[i])]
        x = F.pad(x, edges)
        stride, padding = [1] * dims, [0] * dims
    weight = _stuffed(weight, dilation)
    if dims == 1:
        x, weight, stride, padding = x.unsqueeze(2), weight.unsqueeze(2), [1, *stride], [0, *padding]
    ones, zeros = [1] * len(stride), [0] * len(stride)
    y = aten.convolution(x, weight, bias, stride, padding, ones, False, zeros, groups)
    return y.squeeze(2) if dims == 1 else y


def _turned(weight: Tensor, groups: int) -> Tensor:
    """A transposed convolution's weight as that of the plain one: channels exchanged, kernel flipped."""
    channels_in, channels_out, *kernel = weight.shape
    split = weight.reshape(groups, channels_in // groups, channels_out, *kernel).transpose(1, 2)
    return split.reshape(groups * channels_out, channels_in // groups, *kernel).flip(list(range(2, weight.dim())))


def _stuffed(x: Tensor, steps: Sequence[int]) -> Tensor:
    """`step - 1` zeros between neighbours along each trailing dimension."""
    for dim, step in enumerate(steps, start=2):
        if step > 1:
            size = x.shape[dim]
            y = F.pad(x.unsqueeze(dim + 1), [0, 0] * (x.dim() - 1 - dim) + [0, step - 1])
            x = y.reshape([*x.shape[:dim], size * step, *x.shape[dim + 1 :]]).narrow(dim, 0, (size - 1) * step + 1)
    return x


def _avg_pool3d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Over height and width, then over depth: Inductor has no kernel for windows of more than 25 elements."""
    if ceil_mode:
        return NotImplemented
    kernel, padding = _three(kernel), _three(padding)
    stride = _three(stride) if stride else kernel
    mean = _pooled(x, kernel, stride, padding)
    if divisor_override is not None:
        return mean * (math.prod(kernel) / divisor_override)
    if count_include_pad or not any(padding):
        return mean
    return mean / _pooled(torch.ones_like(x[:1] if x.dim() == 4 else x[:1, :1]), kernel, stride, padding)


def _three(values: Sequence[int]) -> list[int]:
    return list(values) * 3 if len(values) == 1 else list(values)


def _pooled(x: Tensor, kernel: list[int], stride: list[int], padding: list[int]) -> Tensor:
    *front, depth, height, width = x.shape
    planes = F.avg_pool2d(x.reshape(-1, depth, height, width), kernel[1:], stride[1:], padding[1:])
    lines = planes.reshape(-1, 1, depth, planes.shape[2] * planes.shape[3])
    found = F.avg_pool2d(lines, (kernel[0], 1), (stride[0], 1), (padding[0], 0))
    return found.reshape(*front, found.shape[2], planes.shape[2], planes.shape[3])


def _mm(a: Tensor, b: Tensor) -> Any:
    """A product with a vector is a sum, for `tl.dot` needs more than one column; a long K is split."""
    if 0 in (*a.shape, *b.shape) or not a.dtype.is_floating_point:
        return NotImplemented
    if min(a.shape[0], b.shape[1]) > 1:
        parts = _parts_of_k(a.shape[0], b.shape[1], a.shape[1]) if a.dtype is torch.float32 else 1
        if parts == 1:
            return NotImplemented
        left = a.reshape(a.shape[0], parts, -1).transpose(0, 1)
        return torch.bmm(left, b.reshape(parts, -1, b.shape[1])).sum(0)
    if b.shape[1] == 1:
        return _summed(a * b.reshape(1, -1), 1, a.dtype)
    return _summed(a.reshape(-1, 1) * b, 0, a.dtype)


def _parts_of_k(m: int, n: int, k: int) -> int:
    """As many as give every processor tiles of 64 x 64 to do, where K is much longer than the other dimensions."""
    parts, tiles = 1, -(-m // 64) * -(-n // 64)
    if k < _LONG_K * max(m, n):
        return 1
    while parts * tiles < _ENOUGH_TILES and k % (parts * 2) == 0 and k // (parts * 2) >= _LEAST_K:
        parts *= 2
    return parts


def _summed(products: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    return products.sum(dim, keepdim=True, dtype=torch.float64 if dtype is torch.float64 else torch.float32).to(dtype)


def _lstm_cell(
    from_input: Tensor, from_hidden: Tensor, cell: Tensor, bias: Tensor | None = None, bias_2: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    gates = from_input + from_hidden
    if bias is not None and bias_2 is not None:
        gates = gates + bias + bias_2
    i, f, g, o = gates.chunk(4, 1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell, gates


def _gru_cell(
    from_input: Tensor, from_hidden: Tensor, hidden: Tensor, bias: Tensor | None = None, bias_2: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    if bias is not None and bias_2 is not None:
        from_input, from_hidden = from_input + bias, from_hidden + bias_2
    input_r, input_z, input_n = from_input.chunk(3, 1)
    hidden_r, hidden_z, hidden_n = from_hidden.chunk(3, 1)
    reset, update = torch.sigmoid(input_r + hidden_r), torch.sigmoid(input_z + hidden_z)
    new = torch.tanh(input_n + reset * hidden_n)
    return (hidden - new) * update + new, from_input


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: _convolution,
    aten.avg_pool3d.default: _avg_pool3d,
    aten.mm.default: _mm,
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_gru_cell.default: _gru_cell,
}
