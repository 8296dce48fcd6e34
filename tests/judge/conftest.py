"""Fixtures of the judge's tests."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def forkserver() -> Iterator[subprocess.Popen[str]]:
    """A process with torch and an interpreting Triton imported, which forks for every call."""
    path = Path(__file__).with_name("forkserver.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(path)], env=environment, **pipes) as server:
        yield server
        assert server.stdin is not None
        server.stdin.close()


@pytest.fixture
def forked(forkserver: subprocess.Popen[str]) -> Callable[..., Any]:
    """Calls a function of the test's file in a child of its own, where the judge may patch torch and Triton."""

    def call(function: Callable[..., Any], *args: object) -> Any:
        assert forkserver.stdin is not None
        assert forkserver.stdout is not None
        request = {"file": inspect.getfile(function), "name": function.__name__, "args": args}
        forkserver.stdin.write(json.dumps(request) + "\n")
        forkserver.stdin.flush()
        answer = json.loads(forkserver.stdout.readline())
        if "failed" in answer:
            pytest.fail(answer["failed"])
        return answer["result"]

    return call
