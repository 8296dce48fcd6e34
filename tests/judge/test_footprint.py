"""Memory of a task, found without making it."""

from __future__ import annotations

import pytest

from autotriton.judge.footprint import Footprint, footprint
from autotriton.types import Task

pytestmark = pytest.mark.interp


def task(body: str, inputs: str) -> Task:
    source = f"import torch\ndef f(*a):\n    {body}\ndef get_inputs():\n    return {inputs}\n"
    return Task(id="t", entry="f", source=source)


def test_a_chain_needs_its_inputs_and_two_neighbours():
    # 1024 floats are 4096 bytes: the input, and at any time one result and the one it is made of.
    chain = "x = a[0] + 1\n    x = x * 2\n    x = torch.relu(x)\n    return x"
    assert footprint(task(chain, "[torch.randn(1024)]")) == Footprint(2048, 4096, 4096, 3 * 4096)


def test_what_is_held_counts_and_views_do_not():
    held = "x = a[0] + 1\n    y = x * 2\n    z = y.view(32, 32).t()\n    return x + z.reshape(-1)"
    # x, y, the copy that reshape makes of z, and the sum.
    assert footprint(task(held, "[torch.randn(1024)]")).peak_bytes == (1 + 4) * 4096


def test_nothing_is_made_however_large():
    huge = footprint(task("return a[0] @ a[1]", "[torch.randn(1 << 20, 1 << 16), torch.randn(1 << 16, 1 << 20)]"))
    assert huge.output_bytes == 4 << 40
    assert huge.elements == (1 << 40) + 2 * (1 << 36)
    assert huge.peak_bytes == (4 << 40) + 2 * (4 << 36)


def test_values_that_are_needed_leave_parts_unknown():
    assert footprint(task("return a[0] * a[0].sum().item()", "[torch.randn(8)]")) == Footprint(8, 32)
    assert footprint(task("return a[0]", "[torch.randn(8) * torch.randn(1).item()]")) == Footprint(8, 32)
    assert footprint(task("return a[0]", "1 / 0")) == Footprint()
