"""The interpreter's arithmetic is the hardware's: TF32 and bf16 lose what they lose on a GPU, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from autotriton.judge.emulation import round_mantissa, split_products, truncate_mantissa
from autotriton.judge.interpreting import Interpreter

pytestmark = pytest.mark.interp
Forked = Callable[..., Any]


# --- rounding, by hand ----------------------------------------------------------------------------------------------


def rounded(*values: float) -> list[float]:
    return [float(value) for value in round_mantissa(np.array(values, np.float32), 16)]


def test_bf16_rounds_to_nearest_and_ties_to_even() -> None:
    ulp = 2.0**-7  # between 1 and 2
    assert rounded(1 + 0.4 * ulp, 1 + 0.6 * ulp, -1 - 0.6 * ulp) == [1, 1 + ulp, -1 - ulp]
    assert rounded(1 + 0.5 * ulp, 1 + 1.5 * ulp) == [1, 1 + 2 * ulp]


def test_bf16_keeps_infinities_and_nan_and_overflows_to_infinity() -> None:
    quiet, loud = rounded(float("nan"), np.float32(np.uint32(0x7F800001).view(np.float32)))
    assert np.isnan([quiet, loud]).all()
    assert rounded(float("inf"), -float("inf"), 3.4e38) == [float("inf"), -float("inf"), float("inf")]
    assert rounded(0.0, 1e-40)[1] == pytest.approx(1e-40, rel=0.01)


def test_truncation_goes_towards_zero() -> None:
    values = np.array([1 + 2.0**-8, -1 - 2.0**-8, np.inf], np.float32)
    assert truncate_mantissa(values, 16).tolist() == [1.0, -1.0, np.inf]


def test_ieee_multiplies_the_operands_as_they_are() -> None:
    a, b = np.float32([[1.1]]), np.float32([[2.3]])
    ((left, right),) = split_products(a, b, "IEEE")
    assert left is a
    assert right is b
    assert [len(split_products(a, b, name)) for name in ("TF32", "TF32X3", "BF16X3", "BF16X6")] == [1, 3, 3, 6]


# --- dots -----------------------------------------------------------------------------------------------------------


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a, b = tl.load(a_ptr + row * N + column), tl.load(b_ptr + row * N + column)
    if PRECISION == "default":
        c = tl.dot(a, b)
    else:
        c = tl.dot(a, b, input_precision=PRECISION)
    tl.store(c_ptr + row * N + column, c)


def dot_error(precision: str, dtype: str) -> float:
    """Relative L2 error of a 64 x 64 product, against fp64."""
    Interpreter(__file__)
    torch.manual_seed(0)
    a, b = (torch.randn(64, 64).to(getattr(torch, dtype)) for _ in range(2))
    c = torch.empty(64, 64)
    matmul[(1,)](a, b, c, N=64, PRECISION=precision)
    truth = a.double() @ b.double()
    return float((c - truth).norm() / truth.norm())


@pytest.mark.parametrize(
    ("precision", "low", "high"),
    [
        ("default", 1e-4, 1e-3),  # TF32 keeps 10 bits
        ("tf32", 1e-4, 1e-3),
        ("ieee", 0, 1e-6),
        ("tf32x3", 0, 2e-6),
        ("bf16x3", 1e-6, 1e-4),  # about 16 bits
        ("bf16x6", 0, 2e-6),
    ],
)
def test_fp32_dot_errs_as_its_precision_does(forked: Forked, precision: str, low: float, high: float) -> None:
    assert low <= forked(dot_error, precision, "float32") < high


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_dots_multiply_exactly_and_add_in_fp32(forked: Forked, dtype: str) -> None:
    assert forked(dot_error, "default", dtype) < 1e-6


# --- bf16 in general ------------------------------------------------------------------------------------------------


@triton.jit
def compute(x_ptr, y_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    index = tl.arange(0, N)
    x, y = tl.load(x_ptr + index), tl.load(y_ptr + index, mask=index < N, other=1.0)
    if OP == "add":
        out = x + y
    elif OP == "sub":
        out = x - y
    elif OP == "mul":
        out = x * y
    elif OP == "div":
        out = x / y
    elif OP == "constant":
        out = x + 1.5
    elif OP == "neg":
        out = -x
    elif OP == "abs":
        out = tl.abs(x)
    elif OP == "maximum":
        out = tl.maximum(x, y)
    elif OP == "where":
        out = tl.where(x > y, x, 0.0)
    elif OP == "less":
        out = (x < y).to(tl.bfloat16)
    elif OP == "sum":
        out = tl.zeros([N], tl.bfloat16) + tl.sum(x, 0)
    elif OP == "max":
        out = tl.zeros([N], tl.bfloat16) + tl.max(x, 0)
    elif OP == "cumsum":
        out = tl.cumsum(x, 0)
    elif OP == "through_fp16":
        out = x.to(tl.float16).to(tl.bfloat16)
    elif OP == "through_fp64":
        out = x.to(tl.float64).to(tl.bfloat16)
    elif OP == "through_int":
        out = x.to(tl.int32).to(tl.bfloat16)
    elif OP == "through_bits":
        out = x.to(tl.int16, bitcast=True).to(tl.bfloat16, bitcast=True)
    elif OP == "sorted":
        out = tl.sort(x)
    tl.store(out_ptr + index, out)


RIGHT: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "constant": lambda x, y: x + 1.5,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "maximum": torch.maximum,
    "where": lambda x, y: torch.where(x > y, x, torch.zeros_like(x)),
    "less": lambda x, y: (x < y).bfloat16(),
    "sum": lambda x, y: x.float().sum().bfloat16().expand(16),
    "max": lambda x, y: x.max().expand(16),
    "cumsum": lambda x, y: x.float().cumsum(0).bfloat16(),
    "through_fp16": lambda x, y: x,
    "through_fp64": lambda x, y: x,
    "through_int": lambda x, y: x.int().bfloat16(),
    "through_bits": lambda x, y: x,
    "sorted": lambda x, y: x.sort().values,
}


def wrong_operations() -> list[str]:
    Interpreter(__file__)
    torch.manual_seed(0)
    wrong = []
    for name, right in RIGHT.items():
        x, y, out = 3 * torch.randn(16).bfloat16(), torch.randn(16).bfloat16(), torch.zeros(16).bfloat16()
        compute[(1,)](x, y, out, N=16, OP=name)
        if not torch.equal(out, right(x, y)):
            wrong.append(name)
    return wrong


def test_bf16_operations_are_bit_for_bit_those_of_torch(forked: Forked) -> None:
    assert forked(wrong_operations) == []


@triton.jit
def narrow(x_ptr, out_ptr, N: tl.constexpr):
    index = tl.arange(0, N)
    tl.store(out_ptr + index, tl.load(x_ptr + index).to(tl.bfloat16))


def narrowed() -> list[list[int]]:
    Interpreter(__file__)
    torch.manual_seed(0)
    bits = torch.randint(-(2**31), 2**31 - 1, (4096,), dtype=torch.int64).int()
    x, out = bits.view(torch.float32).clone(), torch.zeros(4096).bfloat16()
    x[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1 + 2.0**-8])
    narrow[(1,)](x, out, N=4096)
    right = x.bfloat16()
    differ = ((out != right) & ~(out.isnan() & right.isnan())).nonzero().flatten()
    return [differ.tolist(), [int(out.isnan().sum()), int(x.isnan().sum())]]


def test_fp32_to_bf16_rounds_as_torch_does_for_any_bits(forked: Forked) -> None:
    differ, (nans, expected) = forked(narrowed)
    assert differ == []
    assert nans == expected


@triton.jit
def count(y_ptr, one_ptr, N: tl.constexpr):
    tl.atomic_add(y_ptr + tl.arange(0, N) // 4, tl.load(one_ptr + tl.arange(0, N)))


def counted() -> list[float]:
    Interpreter(__file__)
    y = torch.zeros(4).bfloat16()
    count[(2,)](y, torch.ones(16).bfloat16(), N=16)
    return y.tolist()


def test_bf16_atomics_add_every_lane(forked: Forked) -> None:
    assert forked(counted) == [8.0] * 4


# --- integers -------------------------------------------------------------------------------------------------------


@triton.jit
def scramble(x_ptr, out_ptr, N: tl.constexpr):
    index = tl.arange(0, N)
    x = tl.load(x_ptr + index)
    tl.store(out_ptr + index, x * 1664525 + 1013904223 - (x << 13))


def scrambled(name: str) -> bool:
    Interpreter(__file__)
    dtype = getattr(torch, name)
    x = torch.arange(-8, 8, dtype=dtype) * 123456789
    out = torch.empty_like(x)
    scramble[(1,)](x, out, N=16)
    wanted = x.long() * 1664525 + 1013904223 - (x.long() << 13)
    return torch.equal(out, wanted.to(dtype))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_around(forked: Forked, dtype: str) -> None:
    assert forked(scrambled, dtype)
