"""The shipped examples: honest candidates give the task's answer, and the cheat gives it too, which is its point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Its own process, as the interpreter must be chosen before triton is imported.
COMPARE = """
import json, runpy, sys, traceback, torch

def compare(*paths):
    task, candidate = (runpy.run_path(path) for path in paths)
    init = task["get_init_inputs"]()
    model, new = task["Model"](*init), candidate["ModelNew"](*init)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    new.load_state_dict(model.state_dict())
    inputs = task["get_inputs"]()
    torch.testing.assert_close(new(*inputs), model(*inputs), rtol=1e-4, atol=1e-4)

found = {}
for pair in sys.argv[1:]:
    try:
        compare(*pair.split(":"))
        found[pair] = "equal"
    except Exception:
        found[pair] = traceback.format_exc()
print(json.dumps(found))
"""
PAIRS = [
    ("softmax", "softmax_triton"),
    ("softmax", "softmax_cheat"),
    ("layernorm", "layernorm_triton"),
    ("matmul_bias_gelu", "matmul_bias_gelu_triton"),
]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """What came of each pair: one process for all of them, as starting it is what takes the time."""
    pairs = [f"{task}.py:{candidate}.py" for task, candidate in PAIRS]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    examples = Path(__file__).parents[2] / "examples"
    command = [sys.executable, "-c", COMPARE, *pairs]
    child = subprocess.run(command, env=environment, cwd=examples, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


@pytest.mark.interp
@pytest.mark.parametrize(("task", "candidate"), PAIRS)
def test_example_gives_the_tasks_answer(compared, task, candidate):
    assert compared[f"{task}.py:{candidate}.py"] == "equal"
