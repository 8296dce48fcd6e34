"""The decoder's kernels compile for the GPUs they are meant for, without spilling registers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = [pytest.mark.interp, pytest.mark.slow]


def test_every_kernel_compiles_for_sm_90_without_spills(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(Path(__file__).with_name("compiled_cases.py")), "sm_90"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    kernels = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kernels) == 11
    assert {kernel["case"]: kernel["spills"] for kernel in kernels if kernel["spills"]} == {}
    # Two blocks of attention per multiprocessor are what keeps its memory busy.
    assert max(kernel["shared"] for kernel in kernels) <= 113 * 1024
