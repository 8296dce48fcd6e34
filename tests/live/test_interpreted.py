"""Runs `interpreted_cases.py` in a process that was started with Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.interp
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_optimized_modules_whose_kernels_run():
    cases = Path(__file__).with_name("interpreted_cases.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
