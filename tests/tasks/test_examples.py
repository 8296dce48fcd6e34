"""The shipped examples: honest candidates give the task's answer, and the cheat gives it too, which is its point."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Its own process, as the interpreter must be chosen before triton is imported.
COMPARE = """
import runpy, sys, torch
task, candidate = (runpy.run_path(path) for path in sys.argv[1:])
init = task["get_init_inputs"]()
model, new = task["Model"](*init), candidate["ModelNew"](*init)
for parameter in model.parameters():
    torch.nn.init.normal_(parameter)
new.load_state_dict(model.state_dict())
inputs = task["get_inputs"]()
torch.testing.assert_close(new(*inputs), model(*inputs), rtol=1e-4, atol=1e-4)
"""


@pytest.mark.interp
@pytest.mark.parametrize(
    ("task", "candidate"),
    [
        ("softmax", "softmax_triton"),
        ("softmax", "softmax_cheat"),
        ("layernorm", "layernorm_triton"),
        ("matmul_bias_gelu", "matmul_bias_gelu_triton"),
    ],
)
def test_example_gives_the_tasks_answer(examples, tmp_path, task, candidate):
    paths = [str(examples / f"{name}.py") for name in (task, candidate)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(tmp_path)}
    child = subprocess.run([sys.executable, "-c", COMPARE, *paths], env=environment, capture_output=True, check=False)
    assert child.returncode == 0, child.stderr.decode()
