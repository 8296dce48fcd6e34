"""Whether tasks fit, before anything is proposed."""

from __future__ import annotations

import pytest

from autotriton.bench.memory import Need, look, parse_memory, too_large
from autotriton.errors import UsageError
from autotriton.judge.processes import Processes
from autotriton.types import Task

GIB = 2**30


@pytest.mark.parametrize("text", ["24GiB", "24GB", "24g", "24", " 24 gib"])
def test_amounts_of_memory(text):
    assert parse_memory(text) == 24 * GIB


def test_smaller_and_larger_units():
    assert (parse_memory("512M"), parse_memory("0.5T")) == (512 << 20, 512 * GIB)


@pytest.mark.parametrize("text", ["", "much", "-4GiB", "0", "24 apples", "0.0000000001"])
def test_what_is_no_amount(text):
    with pytest.raises(UsageError, match="not an amount of memory"):
        parse_memory(text)


def test_a_task_is_too_large_when_its_copies_are():
    assert Need(inputs=6 * GIB, outputs=6 * GIB, peak=12 * GIB).bytes == (6 + 4 * 6 + 3 * 12 + 3) * GIB
    tasks = [Task(id=name, source="") for name in ("large", "small", "unknown")]
    needs = {"large": Need(6 * GIB, 6 * GIB, 12 * GIB), "small": Need(GIB, GIB, 2 * GIB), "unknown": Need()}
    found = too_large(tasks, 24 * GIB, lambda task: needs[task.id], workers=2)
    sizes = "inputs of 6.0 GiB, outputs of 6.0 GiB, a forward pass of 12.0 GiB"
    assert found == {"large": f"needs about 69 GiB of GPU memory ({sizes}) and has 24"}
    assert too_large(tasks, 90 * GIB, lambda task: needs[task.id]) == {}


def test_less_than_a_gigabyte_is_not_said_to_be_none():
    found = too_large([Task(id="small", source="")], GIB // 2, lambda _: Need(64, 64, 128))
    assert found == {"small": "needs about 3 GiB of GPU memory and has 0.5"}


SOURCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(1 << 17, 1 << 17))

    def forward(self, x):
        return torch.relu(x @ self.weight)[: 1 << 10]

def get_inputs():
    return [torch.randn(1 << 18, 1 << 17)]
"""


@pytest.mark.interp
def test_hundreds_of_gigabytes_are_looked_at_without_being_made():
    processes = Processes()
    try:
        found = look(processes, Task(id="huge", source=SOURCE))
        broken = look(processes, Task(id="broken", source="raise SystemExit"))
    finally:
        processes.close()
    # Inputs and weights, then the product and its relu.
    sizes = {"inputs": 128 * GIB, "outputs": GIB // 2, "peak": (128 + 64 + 128 + 128) * GIB, "weights": 64 * GIB}
    assert found == Need(**sizes)
    assert broken == Need()
