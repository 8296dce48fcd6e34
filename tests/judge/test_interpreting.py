"""Triton's interpreter as a witness: bounds, launches, no-op, autotuning, and a clean candidate module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError

from autotriton.judge.interpreting import Interpreter

pytestmark = pytest.mark.interp
Forked = Callable[..., Any]


def line_of(text: str) -> int:
    """The line of this file that holds the kernel statement `text`."""
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line and "line_of" not in line)


def violation(witness: Interpreter, launch: Callable[[], object]) -> str:
    """What the witness has to say about a launch; empty when it went through."""
    try:
        launch()
    except InterpreterError:
        return witness.violations[0]
    assert not witness.violations
    return ""


# --- bounds ---------------------------------------------------------------------------------------------------------


@triton.jit
def copy(x_ptr, y_ptr, n, start, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + index, mask=index < n)
    tl.store(y_ptr + index, x, mask=index < n)


@triton.jit
def fill(y_ptr, start, BLOCK: tl.constexpr):
    tl.store(y_ptr + start + tl.arange(0, BLOCK), 1.0)


def copied(n: int, start: int) -> str:
    witness = Interpreter(__file__)
    x, y = torch.arange(16.0), torch.empty(16)
    found = violation(witness, lambda: copy[(4,)](x, y, n, start, BLOCK=8))
    assert found or torch.equal(y, x)
    return found


def test_load_past_the_end_names_kernel_line_argument_and_shape(forked: Forked) -> None:
    where = f"kernel `copy`, line {line_of('x = tl.load(x_ptr + start')}: load out of bounds: `x_ptr`, "
    assert forked(copied, 20, 0) == where + "element 19 of a tensor of 16 elements (shape [16]), 4 of 4 active lanes"


def test_negative_index_is_out_of_bounds(forked: Forked) -> None:
    assert "`x_ptr`, element -3 of a tensor of 16 elements" in forked(copied, 16, -3)


def test_masked_lanes_may_point_anywhere(forked: Forked) -> None:
    assert forked(copied, 16, 0) == ""


def filled(dtype: str, start: int) -> str:
    witness = Interpreter(__file__)
    y = torch.zeros(8, 4, dtype=getattr(torch, dtype))
    return violation(witness, lambda: fill[(1,)](y, start, BLOCK=32))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "float64"])
def test_store_past_the_end(forked: Forked, dtype: str) -> None:
    assert forked(filled, dtype, 0) == ""
    found = forked(filled, dtype, 1)
    assert "store out of bounds: `y_ptr`, element 32 of a tensor of 32 elements (shape [8, 4])" in found
    assert "1 of 32 active lanes" in found


def strayed() -> str:
    witness = Interpreter(__file__)
    both = torch.zeros(64)
    x, y = both[:16], both[32:48]
    witness.ranges.extend([(x.data_ptr(), 64), (y.data_ptr(), 64)])
    return violation(witness, lambda: fill[(1,)](x, 32, BLOCK=16))


def test_straying_into_another_tensor_is_out_of_bounds(forked: Forked) -> None:
    """The address is valid memory of another argument, but not of the one the pointer came from."""
    assert "element 47 of a tensor of 16 elements" in forked(strayed)


def viewed(known: bool) -> str:
    witness = Interpreter(__file__)
    whole = torch.zeros(32)
    view = whole[8:24]
    if known:
        witness.ranges.add(view.data_ptr(), 64)
    return violation(witness, lambda: fill[(1,)](view, -4, BLOCK=16))


def test_a_view_may_touch_its_allocation_but_not_its_neighbours(forked: Forked) -> None:
    assert forked(viewed, False) == ""
    assert "element -4 of a tensor of 16 elements" in forked(viewed, True)


@triton.jit
def add_everywhere(y_ptr, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + index, 1.0, mask=index < n)


@triton.jit
def swap_one(y_ptr, at):
    tl.atomic_cas(y_ptr + at, 0, 7)


def atomics() -> list[str]:
    witness = Interpreter(__file__)
    y = torch.zeros(8)
    found = [violation(witness, lambda: add_everywhere[(2,)](y, 8, BLOCK=16))]
    assert y.tolist() == [2.0] * 8
    for launch in (
        lambda: add_everywhere[(1,)](y, 9, BLOCK=16),
        lambda: swap_one[(1,)](torch.zeros(4, dtype=torch.int32), 4),
    ):
        found.append(violation(witness, launch))
        witness.violations.clear()
    return found


def test_atomics_are_checked(forked: Forked) -> None:
    inside, past, swapped = forked(atomics)
    assert inside == ""
    assert "atomic rmw out of bounds: `y_ptr`, element 8 of a tensor of 8 elements" in past
    assert "atomic cas out of bounds: `y_ptr`, element 4 of a tensor of 4 elements" in swapped


@triton.jit
def double_tile(x_ptr, y_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    y = tl.make_tensor_descriptor(y_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    y.store([0, 0], x.load([0, 0]) * 2)


def described(rows: int) -> str:
    witness = Interpreter(__file__)
    x, y = torch.arange(24.0).reshape(6, 4), torch.zeros(6, 4)
    found = violation(witness, lambda: double_tile[(1,)](x, y, rows, 4, ROWS=8, COLUMNS=4))
    assert found or torch.equal(y, x * 2)
    return found


def test_tensor_descriptors_are_checked(forked: Forked) -> None:
    assert forked(described, 6) == ""  # the descriptor masks the tile's last two rows by itself
    assert "`x_ptr`, element 31 of a tensor of 24 elements" in forked(described, 8)


@triton.jit
def interleave(x_ptr, y_ptr, out_ptr, past, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    pointers = tl.where(index % 2 == 0, x_ptr + index, y_ptr + index + past)
    tl.store(out_ptr + index, tl.load(pointers))


def interleaved(past: int) -> str:
    witness = Interpreter(__file__)
    x, y, out = torch.zeros(8), torch.ones(8), torch.empty(8)
    found = violation(witness, lambda: interleave[(1,)](x, y, out, past, BLOCK=8))
    assert found or out.tolist() == [0.0, 1.0] * 4
    return found


def test_pointers_of_two_tensors_in_one_access_are_checked_each(forked: Forked) -> None:
    assert forked(interleaved, 0) == ""
    assert "load out of bounds: `y_ptr`, element 8" in forked(interleaved, 1)


@triton.jit
def through_address(address, out_ptr, BLOCK: tl.constexpr):
    pointer = address.to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(pointer + tl.arange(0, BLOCK)))


def addressed(known: bool) -> str:
    witness = Interpreter(__file__)
    x, out = torch.arange(8.0), torch.empty(8)
    if known:
        witness.ranges.add(x.data_ptr(), 32)
    return violation(witness, lambda: through_address[(1,)](x.data_ptr(), out, BLOCK=8))


def test_raw_addresses_must_belong_to_a_known_tensor(forked: Forked) -> None:
    assert forked(addressed, True) == ""
    assert "an address that belongs to no tensor" in forked(addressed, False)


def empty() -> str:
    witness = Interpreter(__file__)
    return violation(witness, lambda: copy[(1,)](torch.empty(0), torch.zeros(8), 8, 0, BLOCK=8))


def test_an_empty_tensor_has_nothing_to_load(forked: Forked) -> None:
    assert "`x_ptr`" in forked(empty)


# --- launches -------------------------------------------------------------------------------------------------------


def recorded() -> dict[str, Any]:
    witness = Interpreter(__file__)
    x, y = torch.arange(16.0), torch.full((16,), -1.0)
    witness.noop = True
    copy[(2,)](x, y, 16, 0, BLOCK=8, num_warps=2)
    untouched = y.tolist() == [-1.0] * 16
    witness.noop = False
    copy[(2,)](x, y, 16, 0, BLOCK=8, num_warps=2)
    copy[lambda meta: (16 // meta["BLOCK"],)](x, y, 16, 0, BLOCK=16)
    return {
        "untouched": untouched,
        "copied": torch.equal(x, y),
        "counts": dict(witness.counts),
        "launches": list(witness.launches.values()),
    }


def test_launches_are_counted_and_described_and_a_no_op_touches_nothing(forked: Forked) -> None:
    found = forked(recorded)
    assert found["untouched"]
    assert found["copied"]
    assert found["counts"] == {"copy": 3}
    first, second = found["launches"]
    assert first["kernel"] == "copy"
    assert first["constants"]["BLOCK"] == 8
    assert (first["num_warps"], second["num_warps"]) == (2, None)
    assert second["constants"]["BLOCK"] == 16
    assert first["signature"]["x_ptr"] == "*fp32"


def unknown_keyword() -> str:
    Interpreter(__file__)
    try:
        copy[(1,)](torch.zeros(8), torch.zeros(8), 8, 0, BLOCK=8, NUM_WARP=4)
    except KeyError as error:
        return str(error)
    return ""


def test_a_launch_with_an_unknown_keyword_raises_as_on_a_gpu(forked: Forked) -> None:
    assert "NUM_WARP" in forked(unknown_keyword)


HOOKED: list[int] = []


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 8}, num_warps=2, pre_hook=lambda args: HOOKED.append(args["BLOCK"])),
        triton.Config({"BLOCK": 16}, num_warps=4, pre_hook=lambda args: HOOKED.append(args["BLOCK"])),
    ],
    key=["n"],
)
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + index, tl.load(x_ptr + index, mask=index < n) + BLOCK, mask=index < n)


def autotuned() -> list[Any]:
    witness = Interpreter(__file__)
    seen = []
    for case in range(3):
        witness.config_index = case
        x, y = torch.zeros(24), torch.empty(24)
        tuned[lambda meta: (triton.cdiv(24, meta["BLOCK"]),)](x, y, 24)
        seen.append([set(y.tolist()).pop(), tuned.best_config.num_warps])
    return [seen, HOOKED, [launch["num_warps"] for launch in witness.launches.values()]]


def test_autotune_uses_another_configuration_in_every_case(forked: Forked) -> None:
    seen, hooked, warps = forked(autotuned)
    assert seen == [[8.0, 2], [16.0, 4], [8.0, 2]]
    assert hooked == [8, 16, 8]
    assert warps == [2, 4]


# --- what the interpreter leaves behind, and what it lacks ----------------------------------------------------------


@triton.jit
def uses_numpy(y_ptr):
    tl.store(y_ptr, np.pi)  # noqa: F821


def names_left() -> list[Any]:
    Interpreter(__file__)
    copy[(1,)](torch.zeros(8), torch.zeros(8), 8, 0, BLOCK=8)
    raised = ""
    try:
        uses_numpy[(1,)](torch.zeros(1))
    except InterpreterError as error:
        raised = repr(error.__cause__ or error)
    return [
        [name for name in ("np", "inspect", "interpreter_builder") if name in vars(sys.modules["candidate"])],
        raised,
    ]


def test_the_interpreters_own_names_stay_out_of_the_candidate(forked: Forked) -> None:
    poured, raised = forked(names_left)
    assert poured == []
    assert "NameError" in raised


@triton.jit
def assembly(y_ptr):
    y = tl.inline_asm_elementwise("mov.u32 $0, 1;", "=r", [], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y_ptr, y)


def unsupported() -> list[str | None]:
    witness = Interpreter(__file__)
    found = []
    for launch in (
        lambda: copy[(1,)](torch.zeros(4), torch.zeros(8), 8, 0, BLOCK=8),
        lambda: assembly[(1,)](torch.zeros(1, dtype=torch.int32)),
    ):
        with pytest.raises(InterpreterError):
            launch()
        found.append(witness.unsupported)
    return found


def test_what_the_interpreter_lacks_is_told_from_what_the_kernel_does_wrong(forked: Forked) -> None:
    out_of_bounds, inline = forked(unsupported)
    assert out_of_bounds is None
    assert inline is not None
