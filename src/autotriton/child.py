"""How a Python process of this package is started: the same interpreter, the same package, wherever it was found.

Must stay true: the child imports nothing from the current folder, where a user's `string.py` may lie.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def child_command(module: str, *arguments: str) -> list[str]:
    """Runs a module of this package."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_path() -> str:
    """The child's PYTHONPATH: this package first, then what the user has set."""
    package = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
