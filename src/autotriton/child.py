"""How a Python process of this package is started: the same interpreter, the same package, wherever it was found.

Must stay true: the child imports nothing from the current folder, where a user's `string.py` may lie.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO


def child_command(module: str, *arguments: str) -> list[str]:
    """Runs a module of this package."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_path() -> str:
    """The child's PYTHONPATH: this package first, then what the user has set."""
    package = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))


class LineChild:
    """A module of this package in a process that is spoken with in lines. It ends with this object at the latest."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            child_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment, "PYTHONPATH": python_path()},
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_read_lines, args=(self.process.stdout, self._lines), daemon=True).start()
        self.close = weakref.finalize(self, _end, self.process, self._errors)

    def send(self, text: str) -> None:
        """One line. To a process that has ended it goes nowhere: `line` then says so."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def line(self, patience_s: float) -> bytes:
        """The next line, or an empty one where the process has ended. Raises queue.Empty after `patience_s`."""
        return self._lines.get(timeout=patience_s)

    def ending(self) -> tuple[int, str]:
        """The exit code and the last line of stderr of a process that has ended."""
        code = self.process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return code, lines[-1] if lines else ""


def _read_lines(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Every line, then an empty one for the end."""
    for line in pipe:
        lines.put(line)
    lines.put(b"")


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, errors):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
