"""Small files in TritonBench's format, and a folder laid out like its checkout."""

from __future__ import annotations

import json
from pathlib import Path

from autotriton.types import Task

LINE = "#" * 146
KERNELS = """import torch
import triton
import triton.language as tl


@triton.jit
def _add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def _softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    x = tl.load(x_ptr + row * n_cols + columns, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_cols + columns, e / tl.sum(e, axis=0), mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    _add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
    return out


def add_into(x, y, out):
    n = out.numel()
    _add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)


def softmax(x):
    assert x.is_cuda, "softmax runs on a GPU"
    out = torch.empty_like(x)
    _softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out
"""
G_TEST = """
def test_all():
    torch.manual_seed(0)
    x = torch.randn(6, 40, device="cuda")
    y = torch.randn(6, 40, device="cuda")
    out = torch.empty_like(x)
    add_into(x, y, out)
    return {"add": add(x, y), "out": out, "softmax": softmax(x), "half": softmax(x.half())}

result_gold = test_all()
"""
T_GOLD = """import torch


def scaled_add(input, other, alpha=1.0):
    return torch.add(input, other, alpha=alpha)
"""
T_TEST = """
import torch

def test_scaled_add():
    results = {}
    input, other = torch.tensor([1.0, 2.0, 3.0], device="cuda"), torch.tensor([4.0, 5.0, 6.0], device="cuda")
    results["one"] = scaled_add(input, other)
    results["two"] = scaled_add(input[:2], other[:2], alpha=0.5)
    return results

test_results = test_scaled_add()
"""
T_ANSWER = """import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, out_ptr, alpha, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + alpha * y, mask=mask)


def scaled_add(input, other, alpha=1.0):
    out = torch.empty_like(input)
    _kernel[(triton.cdiv(out.numel(), 64),)](input, other, out, alpha, out.numel(), BLOCK=64)
    return out
"""


def gold(implementation: str, test: str) -> str:
    return f"{implementation}\n{LINE}\n{test}"


def task(implementation: str, test: str, name: str = "gold") -> Task:
    return Task(id=name, source=gold(implementation, test), entry="add", instruction="Write it.", tags=("script",))


G = task(KERNELS, G_TEST, "kernels")
T = task(T_GOLD, T_TEST, "scaled_add")


def checkout(root: Path) -> Path:
    """A folder like the suite's checkout, with one file in each channel."""
    data = root / "data"
    for letter, name, source in (("G", "kernels", G.source), ("T", "scaled_add", T.source)):
        folder = data / f"TritonBench_{letter}_v1"
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(source)
    rows = {
        "TritonBench_G_v1.json": [{"file": "kernels.py", "output": KERNELS}],
        "TritonBench_T_v1.jsonl": [
            {"file": "scaled_add.py", "description": "Adds two tensors.", "func_inputs": "def scaled_add(...)"}
        ],
    }
    for style in ("simp", "comp"):
        said = f"Add and softmax, {style}."
        rows[f"TritonBench_G_{style}_alpac_v1.json"] = [{"instruction": said, "input": "", "output": KERNELS}]
        text = f"Functional Description: Adds two tensors.\nWrapper Entry Information: def scaled_add(...) {style}"
        rows[f"TritonBench_T_{style}_alpac_v1.json"] = [{"instruction": text, "input": "", "output": ""}]
    for name, content in rows.items():
        (data / name).write_text(json.dumps(content))
    return root
