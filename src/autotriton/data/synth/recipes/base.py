"""What a recipe is, and the pools of operators chains are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotriton.data.synth.builder import Builder
from autotriton.data.synth.ops.norms import NORMS
from autotriton.data.synth.ops.pointwise import ACTIVATIONS, COMMON, SCALARS
from autotriton.data.synth.values import Value

Grow = Callable[[Builder], "Value | tuple[Value, ...]"]


@dataclass(frozen=True)
class Recipe:
    name: str
    weight: float
    grow: Grow
    function_share: float = 0.2
    """How often it is written as a function instead of a module."""
    floats_only: bool = False
    """fp32 only: losses and rare functions lack half-precision CPU kernels."""
    sequential_share: float = 0.0
    """How often its layers stand in an `nn.Sequential`."""


EPILOGUE = (
    *COMMON,
    *COMMON,
    *SCALARS,
    *SCALARS,
    "add",
    "mul",
    "sub",
    "div",
    "maximum",
    "softmax",
    "log_softmax",
    "logsumexp",
    "sum",
    "mean",
    "max",
    "normalize",
)
POINTWISE = (
    *COMMON,
    *ACTIVATIONS,
    *SCALARS,
    "add",
    "mul",
    "sub",
    "div",
    "maximum",
    "minimum",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "square",
    "sin",
    "cos",
    "abs",
    "neg",
    "erf",
    "atan",
    "log1p",
    "reciprocal",
    "polynomial",
    "cube",
    "sigmoid_gate",
    "squared_difference",
    "lerp",
    "addcmul",
    "masked_fill",
    "where_mask",
    "log_abs",
    "expm1",
    "pow_half",
)
REDUCTIONS = (
    "sum",
    "mean",
    "max",
    "min",
    "amax",
    "amin",
    "var",
    "std",
    "logsumexp",
    "norm",
    "mean_square",
    "prod",
    "sum_all",
    "mean_all",
    "var_biased",
    "norm_one",
)
MOVES = (
    "transpose",
    "permute",
    "unsqueeze",
    "split_last",
    "roll",
    "flip",
    "repeat",
    "repeat_interleave",
    "cat",
    "stack",
    "pad_constant",
    "pad_reflect",
    "pad_replicate",
    "flatten",
    "slice_step",
    "expand",
    "rot90",
    "windows",
)
IMAGE_NORMS = (
    "batch_norm2d",
    "batch_norm2d",
    "group_norm",
    "instance_norm2d",
    "batch_norm_train",
    "batch_norm_eval",
    "rms_channels",
)
ROW_NORMS = (
    "layer_norm",
    "layer_norm",
    "rms_norm",
    "rms_by_hand",
    "standardise",
    "batch_norm1d",
    "group_norm",
    "normalize",
)

__all__ = [
    "ACTIVATIONS",
    "COMMON",
    "EPILOGUE",
    "IMAGE_NORMS",
    "MOVES",
    "NORMS",
    "POINTWISE",
    "REDUCTIONS",
    "ROW_NORMS",
    "SCALARS",
    "Grow",
    "Recipe",
]
