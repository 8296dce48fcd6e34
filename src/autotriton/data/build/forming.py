"""Forms of many candidates, by processes of their own: restyling reads and writes syntax trees, 30 ms of CPU each.

`python -m autotriton.data.build.forming`: one JSON line in per candidate, one out. No torch, no task's code runs here.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

from autotriton.child import child_command, python_path
from autotriton.data.pairs.answers import Form, forms
from autotriton.errors import PrerequisiteError
from autotriton.types import Candidate

CHILD = "autotriton.data.build.forming"
_FEW = 16
"""Not worth a process."""


@dataclass(frozen=True)
class Wish:
    candidate: Candidate
    count: int
    seed: str
    function: str | None = None
    """What a plain function was asked to be called."""


def formed(wishes: Sequence[Wish], workers: int) -> list[list[Form] | str]:
    """The forms of each candidate, or why there are none, in order."""
    count = max(1, min(workers, len(wishes) // _FEW))
    if count == 1:
        return [_one(wish.candidate, wish.count, wish.seed, wish.function) for wish in wishes]
    found: list[list[Form] | str] = [""] * len(wishes)
    with contextlib.ExitStack() as stack:
        children = [_started(wishes[number::count], stack) for number in range(count)]
        for number, (process, out) in enumerate(children):
            if process.wait():
                raise PrerequisiteError(f"a process that writes forms ended with code {process.returncode}")
            out.seek(0)
            for place, line in enumerate(out):
                found[number + place * count] = _read(json.loads(line))
    return found


def _started(wishes: Sequence[Wish], stack: contextlib.ExitStack) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    given, out = (stack.enter_context(_file()) for _ in range(2))
    for wish in wishes:
        candidate = wish.candidate.model_dump(mode="json")
        line = {"candidate": candidate, "count": wish.count, "seed": wish.seed, "function": wish.function}
        given.write(json.dumps(line).encode() + b"\n")
    given.seek(0)
    environment = {**os.environ, "PYTHONPATH": python_path()}
    process = subprocess.Popen(child_command(CHILD), stdin=given, stdout=out, env=environment)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process, out


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _one(candidate: Candidate, count: int, seed: str, function: str | None) -> list[Form] | str:
    try:
        return forms(candidate, count, seed, function)
    except Exception as error:  # noqa: BLE001 - reads any program's tree; one it cannot read costs itself only
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _read(answer: Any) -> list[Form] | str:
    if isinstance(answer, str):
        return answer
    return [Form(**form) for form in answer]


def main() -> None:
    for line in sys.stdin:
        wish = json.loads(line)
        made = _one(Candidate.model_validate(wish["candidate"]), wish["count"], wish["seed"], wish["function"])
        print(json.dumps(made if isinstance(made, str) else [asdict(form) for form in made]), flush=True)


if __name__ == "__main__":
    main()
