"""Arithmetic in Triton's interpreter as the hardware does it.

Out of the box the interpreter computes with the raw bits of bf16 values, truncates where the GPU rounds to bf16, and
computes TF32 dots in full precision. With these patches a precision downgrade is as wrong on a laptop as on a GPU, and
an honest bf16 kernel as right.

Inside the patched interpreter a bf16 tensor is a float32 array that holds bf16 values: every operation on it is one in
fp32, rounded once, which is what the hardware does. Bits exist only in memory and in bitcasts.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter

_BF16 = tl.bfloat16.name
_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def patch_arithmetic() -> None:
    _leave_overflow()
    _patch_index()
    _patch_storage()
    _patch_memory()
    _patch_atomics()
    _patch_rounding()
    _patch_dot()


def _leave_overflow() -> None:
    """Integers wrap around, as on a GPU. The interpreter would work out in 64 bits whether each operation overflows,
    and say so only to who debugs: half of the time of kernels that mostly count addresses.
    """
    single: Any = interpreter.interpreter_builder
    if not single.options.debug:
        single.options = dataclasses.replace(single.options, sanitize_overflow=False)


def _patch_index() -> None:
    """A number as the bound of a loop: before triton 3.9 the interpreter's own way fails with numpy 2.4 and later."""
    original = interpreter._patch_lang_tensor

    def patch(tensor: Any, *scope: Any) -> None:
        original(tensor, *scope)
        tensor.__index__ = lambda self: int(np.asarray(self.handle.data).reshape(-1)[0])

    interpreter._patch_lang_tensor = patch


def _is_bf16(dtype: Any) -> bool:
    # Types compare by their names, several calls deep; this is asked of every result.
    return bool(_name_of(dtype) == _BF16)


def _name_of(dtype: Any) -> str:
    """Of what a tensor, a pointer or a number consists of."""
    return str(getattr(dtype, "scalar", dtype).name)


def _patch_storage() -> None:
    """bf16 handles hold float32 data, rounded whenever one is made."""
    handle: Any = interpreter.TensorHandle
    numpy_dtype, fits, check = interpreter._get_np_dtype, interpreter._validate_np_data_size, handle.__post_init__
    known: dict[str, Any] = {_BF16: np.dtype(np.float32)}

    def numpy_type(dtype: Any) -> Any:
        name = _name_of(dtype)
        if name not in known:
            known[name] = numpy_dtype(dtype)
        return known[name]

    interpreter._get_np_dtype = numpy_type
    interpreter._validate_np_data_size = lambda data, dtype: _is_bf16(dtype) or fits(data, dtype)

    def post_init(self: Any) -> None:
        check(self)
        if _is_bf16(self.dtype):
            self.data = round_mantissa(self.data, 16)

    handle.__post_init__ = post_init
    builder: Any = interpreter.InterpreterBuilder
    if not hasattr(builder, "get_bf16"):  # triton before 3.9 has no bf16 constants
        builder.get_bf16 = lambda self, value: interpreter.TensorHandle(np.array([value], np.float32), tl.bfloat16)


def _patch_memory() -> None:
    """Loads, stores and bitcasts turn bf16 values into bits and back."""
    builder: Any = interpreter.InterpreterBuilder
    load, store, bitcast, fabs = (
        getattr(builder, f"create_{name}") for name in ("masked_load", "masked_store", "bitcast", "fabs")
    )

    def masked_load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **more: Any) -> Any:
        if not _is_bf16(pointers.get_element_ty()):
            return load(self, pointers, mask, other, *rest, **more)
        filler = None if other is None else _bits(other)
        return _values(load(self, _bit_pointers(pointers), mask, filler, *rest, **more))

    def masked_store(self: Any, pointers: Any, value: Any, *rest: Any, **more: Any) -> Any:
        if _is_bf16(pointers.get_element_ty()):
            pointers, value = _bit_pointers(pointers), _bits(value)
        return store(self, pointers, value, *rest, **more)

    def cast_bits(self: Any, source: Any, target: Any) -> Any:
        if _is_bf16(source.dtype) == _is_bf16(target):
            return bitcast(self, source, target)
        if _is_bf16(target):
            return _values(bitcast(self, source, tl.uint16))
        return bitcast(self, _bits(source), target)

    def absolute(self: Any, value: Any) -> Any:
        if _is_bf16(value.dtype):
            return interpreter.TensorHandle(np.abs(value.data), tl.bfloat16)
        return fabs(self, value)

    builder.create_masked_load, builder.create_masked_store = masked_load, masked_store
    builder.create_bitcast, builder.create_fabs = cast_bits, absolute


def _patch_atomics() -> None:
    """bf16 additions lane by lane, in order; the interpreter has none."""
    builder: Any = interpreter.InterpreterBuilder
    original = builder.create_atomic_rmw

    def rmw(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if not _is_bf16(value.dtype) or not str(operation).endswith("FADD"):
            return original(self, operation, pointers, value, mask, *rest)
        shape = np.broadcast_shapes(pointers.data.shape, value.data.shape)
        addresses, added = (np.broadcast_to(handle.data, shape).ravel() for handle in (pointers, value))
        old = np.zeros(added.shape, np.float32)
        # triton 3.9 passes one cache policy, earlier ones a modifier and a policy
        cache = [None] * (len(inspect.signature(self.create_store).parameters) - 2)
        for lane in np.flatnonzero(np.broadcast_to(mask.data, shape).ravel()):
            place = interpreter.TensorHandle(addresses[lane : lane + 1], pointers.dtype)
            before = self.create_load(place, *cache, False)
            old[lane] = before.data[0]
            self.create_store(place, interpreter.TensorHandle(before.data + added[lane], tl.bfloat16), *cache)
        return interpreter.TensorHandle(old.reshape(shape), tl.bfloat16)

    builder.create_atomic_rmw = rmw


def _bit_pointers(pointers: Any) -> Any:
    return interpreter.TensorHandle(pointers.data, tl.pointer_type(tl.uint16))


def _bits(handle: Any) -> Any:
    raw = np.ascontiguousarray(handle.data, np.float32).view(np.uint32) >> np.uint32(16)
    return interpreter.TensorHandle(raw.astype(np.uint16).reshape(handle.data.shape), tl.uint16)


def _values(handle: Any) -> Any:
    raw = handle.data.view(np.uint16).astype(np.uint32) << np.uint32(16)
    return interpreter.TensorHandle(raw.view(np.float32), tl.bfloat16)


def _patch_dot() -> None:
    builder: Any = interpreter.InterpreterBuilder
    original = builder.create_dot
    single: Any = interpreter.interpreter_builder
    single.options = dataclasses.replace(single.options, allowed_dot_input_precisions=_PRECISIONS)

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, limit: Any) -> Any:
        if _is_bf16(a.dtype) and _is_bf16(b.dtype):
            pairs = [(a.data, b.data)]
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
        if _is_bf16(source):
            source = tl.float32  # a bf16 value is a float32 number here
        if not _is_bf16(target):
            return data if source == target else original(data, source, target, mode)
        wide = data if source == tl.float32 else original(data, source, tl.float32, None).view(np.float32)
        return round_mantissa(wide, 16) if mode is None or "RTNE" in str(mode) else truncate_mantissa(wide, 16)

    interpreter._convert_float = convert


def round_mantissa(data: Any, bits: int) -> Any:
    """fp32 to the nearest value (ties to even) with `bits` fewer mantissa bits; infinities stay, NaN stays NaN."""
    raw = np.ascontiguousarray(data, dtype=np.float32).view(np.uint32)
    half = np.uint32((1 << (bits - 1)) - 1) + ((raw >> np.uint32(bits)) & np.uint32(1))
    rounded = (raw + half) & np.uint32((0xFFFFFFFF << bits) & 0xFFFFFFFF)
    special = (raw & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    quiet = np.where(np.isnan(data), np.uint32(0x7FC00000), raw)
    return np.where(special, quiet, rounded).view(np.float32).reshape(np.shape(data))


def truncate_mantissa(data: Any, bits: int) -> Any:
    """fp32 towards zero, to `bits` fewer mantissa bits."""
    raw = np.ascontiguousarray(data, np.float32).view(np.uint32) & np.uint32((0xFFFFFFFF << bits) & 0xFFFFFFFF)
    return np.where(np.isfinite(data), raw.view(np.float32).reshape(np.shape(data)), data)


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
