"""What a scan computes: its identity, its scan of a block, and how a carry joins a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent

import torch

_WIDE = {torch.float64: "float64", torch.float16: "float32", torch.bfloat16: "float32", torch.float32: "float32"}
_LARGER = dedent(
    """\
    @triton.jit
    def larger(a, b):
        return tl.maximum(a, b)
    """
)
_LOG_ADD_EXP = dedent(
    '''\
    @triton.jit
    def log_add_exp(a, b):
        """log(exp(a) + exp(b)) without overflow; equal infinities stay what they are, NaN stays NaN."""
        spread = tl.exp(-tl.abs(a - b))
        return tl.where(a == b, a + 0.6931471805599453, tl.maximum(a, b) + tl.log(1.0 + spread))
    '''
)


@dataclass(frozen=True)
class Operation:
    """Expressions of one scan, over tiles of lanes by steps."""

    formula: str
    type: str
    """Triton's type of the running value; `torch_type` is the same for torch."""
    identity: str
    scan: str
    """Of the tile `{0}` along axis 1; `{1}` is whether it runs from the end."""
    join: str
    """Of a carry `{0}` and a scanned tile `{1}`."""
    preparation: tuple[str, ...]
    """Turns the loaded `x` into running values; `{0}` is the mask of what exists."""
    helper: str = ""
    unpacked: tuple[str, ...] = ()
    """For scans that also say where: sets `value` and `index` from `scan`."""

    @property
    def torch_type(self) -> str:
        return self.type.replace("tl.", "torch.")

    def scanned(self, tile: str, reverse: bool) -> str:
        return self.scan.format(tile, ", reverse=True" if reverse else "")

    def joined(self, carry: str, tile: str) -> str:
        return self.join.format(carry, tile)

    def prepared(self, mask: str) -> list[str]:
        return [line.format(mask) for line in self.preparation]


def _cast(x_type: torch.dtype, out_type: torch.dtype, name: str = "x") -> str:
    """To what is accumulated: fp32 for halves, through the result's own type where `dtype=` asked for it."""
    narrow = f".to(tl.{str(out_type).removeprefix('torch.')})" if x_type != out_type and out_type in _WIDE else ""
    return f"{name}{narrow}.to({_accumulator(out_type)})"


def _accumulator(dtype: torch.dtype) -> str:
    return f"tl.{_WIDE.get(dtype, 'int64')}"


def _sum(x_type: torch.dtype, out_type: torch.dtype) -> Operation:
    return Operation(
        formula="the running sum",
        type=_accumulator(out_type),
        identity="0",
        scan="tl.cumsum({0}, axis=1{1})",
        join="{0} + {1}",
        preparation=(f"x = {_cast(x_type, out_type)}",),
    )


def _product(x_type: torch.dtype, out_type: torch.dtype) -> Operation:
    return Operation(
        formula="the running product",
        type=_accumulator(out_type),
        identity="1",
        scan="tl.cumprod({0}, axis=1{1})",
        join="{0} * {1}",
        preparation=(f"x = tl.where({{0}}, {_cast(x_type, out_type)}, 1)",),
    )


def _log_sum_exp(x_type: torch.dtype, out_type: torch.dtype) -> Operation:
    return Operation(
        formula="the running log(sum(exp(.)))",
        type=_accumulator(out_type),
        identity='float("-inf")',
        scan="tl.associative_scan({0}, 1, log_add_exp{1})",
        join="log_add_exp({0}, {1})",
        preparation=(f'x = tl.where({{0}}, {_cast(x_type, out_type)}, float("-inf"))',),
        helper=_LOG_ADD_EXP,
    )


def _extremum(largest: bool) -> Callable[[torch.dtype, torch.dtype], Operation]:
    """Value and index in one 64-bit key, so that one maximum finds both; later indices win ties, as in torch."""

    def operation(x_type: torch.dtype, out_type: torch.dtype) -> Operation:
        floats = x_type.is_floating_point
        rank, back = (_FLOAT_RANK, _FLOAT_BACK) if floats else (_INTEGER_RANK, _INTEGER_BACK)
        inverse = [] if largest else ["rank = ~rank"]
        nan = ["rank = tl.where(x != x, 0x7FFFFFFF, rank)  # NaN wins, and stays"] if floats else []
        return Operation(
            formula=f"the running {'maximum' if largest else 'minimum'}",
            type="tl.int64",
            identity="-0x7FFFFFFFFFFFFFFF",
            scan="tl.associative_scan({0}, 1, larger{1})",
            join="tl.maximum({0}, {1})",
            preparation=(
                *rank,
                *inverse,
                *nan,
                "key = (rank.to(tl.int64) << 31) | steps[None, :]",
                "x = tl.where({0}, key, -0x7FFFFFFFFFFFFFFF)",
            ),
            helper=_LARGER,
            unpacked=(
                "rank = (scan >> 31).to(tl.int32)",
                *inverse,
                *back,
                "index = scan & 0x7FFFFFFF",
            ),
        )

    return operation


_FLOAT_RANK = (
    "x = x.to(tl.float32)",
    "bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)",
    "rank = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # integers in the order of the numbers",
)
_FLOAT_BACK = ("value = (rank ^ ((rank >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)",)
_INTEGER_RANK = ("rank = x.to(tl.int32)",)
_INTEGER_BACK = ("value = rank",)

OPERATIONS: dict[str, Callable[[torch.dtype, torch.dtype], Operation]] = {
    "cumsum": _sum,
    "cumprod": _product,
    "logcumsumexp": _log_sum_exp,
    "cummax": _extremum(largest=True),
    "cummin": _extremum(largest=False),
}
