"""Which operators stay whole, for a kernel family, and which are taken apart into element-wise and reducing ones.

Runs in the capturing child process only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.export import default_decompositions

aten = torch.ops.aten

_WHOLE = """
linear matmul mm bmm addmm baddbmm einsum conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
convolution scaled_dot_product_attention max_pool1d max_pool2d max_pool3d max_pool2d_with_indices
max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d cumsum cumprod
cummax cummin logcumsumexp lstm gru rnn_tanh rnn_relu sort topk gelu silu mish softplus elu leaky_relu hardswish
hardsigmoid hardtanh relu6 sigmoid tanh relu clamp var_mean embedding hypot lerp
""".split()  # noqa: SIM905 - words read better than a list of a hundred lines
"""Kept even where torch would take them apart."""
_APART = """
native_layer_norm native_group_norm _native_batch_norm_legit_functional _native_batch_norm_legit
_native_batch_norm_legit_no_training _native_batch_norm_legit.no_stats native_batch_norm _softmax _log_softmax
linalg_vector_norm logsumexp addcmul addcdiv smooth_l1_loss mse_loss huber_loss binary_cross_entropy soft_margin_loss
nll_loss_forward nll_loss2d_forward _safe_softmax selu celu softshrink hardshrink threshold prelu _prelu_kernel glu
rsub masked_fill aminmax norm dist cross_entropy_loss native_dropout std std_mean hardtanh_ square pixel_shuffle
pixel_unshuffle channel_shuffle reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
replication_pad3d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d
upsample_linear1d upsample_trilinear3d _upsample_nearest_exact2d _fused_rms_norm rms_norm logit heaviside frac
special_xlog1py xlogy nan_to_num logaddexp logaddexp2 deg2rad rad2deg roll tril triu eye linspace index_select
take_along_dim im2col col2im _euclidean_dist triplet_margin_loss margin_ranking_loss cosine_similarity
cosine_embedding_loss pairwise_distance grid_sampler_2d
""".split()  # noqa: SIM905 - words read better than a list of a hundred lines
"""Taken apart by torch's own decompositions where core aten keeps them whole."""


def table(apart: Collection[str] = ()) -> dict[Any, Callable[..., Any]]:
    """What `run_decompositions` takes apart, and how; `apart` names what is not kept whole this time."""
    chosen = dict(default_decompositions().items())  # type: ignore[no-untyped-call]
    for packet in decomposition_table:
        if str(packet).removeprefix("aten.").rpartition(".")[0] in _APART:
            chosen[packet] = decomposition_table[packet]
    chosen |= _OWN
    for operator in list(chosen):
        name = str(operator).removeprefix("aten.").split(".")[0]
        if name in _WHOLE and name not in apart:
            del chosen[operator]
    return chosen


def _var(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return aten.var_mean.correction(x, dim, correction=correction, keepdim=keepdim)[0]


def _vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = x.to(dtype) if dtype is not None else x
    dims = list(range(x.dim())) if dim is None else dim
    if ord == 2:
        return (x * x).sum(dims, keepdim=keepdim).sqrt()
    if ord == 1:
        return x.abs().sum(dims, keepdim=keepdim)
    if ord == float("inf"):
        return x.abs().amax(dims, keepdim=keepdim)
    if ord == float("-inf"):
        return x.abs().amin(dims, keepdim=keepdim)
    if ord == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim=keepdim)
    return x.abs().pow(ord).sum(dims, keepdim=keepdim).pow(1.0 / ord)


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    exponential = (x - x.amax(dim, keepdim=True)).exp()
    return exponential / exponential.sum(dim, keepdim=True)


def _log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    shifted = x - x.amax(dim, keepdim=True)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


def _group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, hxw: int, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The result has the input's own shape, so that what follows has no groups to take apart."""
    grouped = x.reshape(n, groups, c // groups, *x.shape[2:])
    var, mean = torch.var_mean(grouped, dim=list(range(2, grouped.dim())), correction=0, keepdim=True)
    inverse = torch.rsqrt(var + eps)
    y = ((grouped - mean) * inverse).reshape(x.shape)
    channels = (1, c, *(1,) * (x.dim() - 2))
    if weight is not None:
        y = y * weight.reshape(channels)
    if bias is not None:
        y = y + bias.reshape(channels)
    return y, mean.reshape(n, groups), inverse.reshape(n, groups)


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Both variances come out of one reading; torch's own form writes the number of elements into the graph."""
    channels = [1, x.shape[1], *[1] * (x.dim() - 2)]
    mean, var = running_mean.reshape(channels), running_var.reshape(channels)
    new_mean, new_var = running_mean, running_var
    if training:
        dims = [d for d in range(x.dim()) if d != 1]
        var, mean = torch.var_mean(x, dim=dims, correction=0, keepdim=True)
        unbiased, _ = torch.var_mean(x, dim=dims, correction=1, keepdim=True)
        new_mean = momentum * mean.reshape(running_mean.shape) + (1 - momentum) * running_mean
        new_var = momentum * unbiased.reshape(running_var.shape) + (1 - momentum) * running_var
    inverse = torch.rsqrt(var + eps)
    y = (x - mean) * inverse
    if weight is not None:
        y = y * weight.reshape(channels)
    if bias is not None:
        y = y + bias.reshape(channels)
    saved = (mean.reshape(-1), inverse.reshape(-1))
    return y.to(x.dtype), *saved, new_mean, new_var


def _distances(x: Tensor, y: Tensor, p: float, mode: int | None) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)
    return found


def _addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _added(x, aten.mm(matrix, vector.unsqueeze(1)).squeeze(1), beta, alpha)


def _addbmm(x: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _added(x, aten.bmm(left, right).sum(0), beta, alpha)


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """With `beta=0` not even NaN of `x` counts."""
    product = product if alpha == 1 else alpha * product
    return product if beta == 0 else product + (x if beta == 1 else beta * x)


def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    """torch's own form is made of operators below aten."""
    if weight.numel() != 1 and x.dim() > 1 and weight.dim() == 1:
        weight = weight.reshape([1, -1, *[1] * (x.dim() - 2)])
    return torch.where(x > 0, x, weight * x)


def _log_sigmoid(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.clamp_max(x, 0) - torch.log1p(torch.exp(-torch.abs(x))), x.new_zeros(0)


def _fold(
    x: Tensor, size: list[int], kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Any:
    """Every tap's values where they belong, added up; torch's own form adds them in place."""
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    ]
    lead = x.shape[:-2]
    taps = x.reshape(*lead, x.shape[-2] // (kernel[0] * kernel[1]), *kernel, *counts)
    total = None
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            tap = taps[..., row, column, :, :]
            spread = torch.constant_pad_nd(
                tap.unsqueeze(-1).unsqueeze(-3), [0, stride[1] - 1, 0, 0, 0, stride[0] - 1]
            ).reshape(*tap.shape[:-2], counts[0] * stride[0], counts[1] * stride[1])
            above, left = row * dilation[0] - padding[0], column * dilation[1] - padding[1]
            below, right = size[0] - above - spread.shape[-2], size[1] - left - spread.shape[-1]
            placed = torch.constant_pad_nd(spread, [left, right, above, below])
            total = placed if total is None else total + placed
    return total


_OWN: dict[Any, Callable[..., Any]] = {
    aten.col2im.default: _fold,
    aten.var.correction: _var,
    aten.linalg_vector_norm.default: _vector_norm,
    aten._native_batch_norm_legit_functional.default: _batch_norm,
    aten.native_group_norm.default: _group_norm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten.log_sigmoid_forward.default: _log_sigmoid,
    aten._cdist_forward.default: _distances,
    aten.addmv.default: _addmv,
    aten.addbmm.default: _addbmm,
    aten.prelu.default: _prelu,
    aten._prelu_kernel.default: _prelu,
}
