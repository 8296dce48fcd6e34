"""Arithmetic in Triton's interpreter as the hardware does it.

Out of the box the interpreter multiplies the raw bits of bf16 operands, truncates where the GPU rounds to bf16, and computes TF32
dots in full precision. With these patches a precision downgrade is as wrong on a laptop as on a GPU, and an honest bf16 kernel as
right.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter

_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def patch_arithmetic() -> None:
    _patch_dot()
    _patch_rounding()


def _patch_dot() -> None:
    builder: Any = interpreter.InterpreterBuilder
    original = builder.create_dot
    single: Any = interpreter.interpreter_builder
    single.options = dataclasses.replace(single.options, allowed_dot_input_precisions=_PRECISIONS)

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, limit: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16 and b.dtype.scalar == tl.bfloat16:
            pairs = [(_bf16_to_f32(a.data), _bf16_to_f32(b.data))]
        elif a.data.dtype == np.float32 and b.data.dtype == np.float32:
            pairs = split_products(a.data, b.data, str(input_precision).rsplit(".", 1)[-1].upper())
        else:
            return original(self, a, b, d, input_precision, limit)
        total = d.data
        for left, right in pairs:
            total = np.matmul(left, right, dtype=np.float32).astype(total.dtype) + total
        return interpreter.TensorHandle(total, d.dtype.scalar)

    builder.create_dot = create_dot


def _patch_rounding() -> None:
    original = interpreter._convert_float

    def convert(data: Any, source: Any, target: Any, mode: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16 and (mode is None or "RTNE" in str(mode)):
            rounded = round_mantissa(np.asarray(data).view(np.float32), 16)
            return (rounded.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        return original(data, source, target, mode)

    interpreter._convert_float = convert


def _bf16_to_f32(data: Any) -> Any:
    if data.dtype == np.float32:
        return data
    return (data.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_mantissa(data: Any, bits: int) -> Any:
    """fp32 to the nearest value (ties to even) with `bits` fewer mantissa bits; infinities stay, NaN stays NaN."""
    raw = np.ascontiguousarray(data, dtype=np.float32).view(np.uint32)
    half = np.uint32((1 << (bits - 1)) - 1) + ((raw >> np.uint32(bits)) & np.uint32(1))
    rounded = (raw + half) & np.uint32((0xFFFFFFFF << bits) & 0xFFFFFFFF)
    special = (raw & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    quiet = np.where(np.isnan(data), np.uint32(0x7FC00000), raw)
    return np.where(special, quiet, rounded).view(np.float32).reshape(np.shape(data))


def split_products(a: Any, b: Any, precision: str) -> list[tuple[Any, Any]]:
    """The operand pairs the hardware multiplies for each precision, smallest terms first."""
    if precision == "IEEE":
        return [(a, b)]
    bits = 16 if precision.startswith("BF16") else 13
    a_high, b_high = round_mantissa(a, bits), round_mantissa(b, bits)
    if precision == "TF32":
        return [(a_high, b_high)]
    a_low, b_low = round_mantissa(a - a_high, bits), round_mantissa(b - b_high, bits)
    products = [(a_low, b_high), (a_high, b_low), (a_high, b_high)]
    if precision == "BF16X6":
        a_least, b_least = round_mantissa(a - a_high - a_low, bits), round_mantissa(b - b_high - b_low, bits)
        products = [(a_least, b_high), (a_high, b_least), (a_low, b_low), *products]
    return products
