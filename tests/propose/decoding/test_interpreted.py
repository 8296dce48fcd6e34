"""The decoder's kernels, in a child process whose Triton interprets them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="needs the train extra")
pytestmark = [pytest.mark.interp, pytest.mark.slow]


def test_kernels_compute_what_torch_computes():
    cases = Path(__file__).with_name("interpreted_cases.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(cases)]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
