"""The suite's own protocol, done safely: a file with its test runs as a script; its exit and its stdout are all.

The role in the sandbox, and the parent's side. What it finds is for comparison with published numbers: a script that
prints the right thing and exits passes it, so it never decides a verdict.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from dataclasses import dataclass
from types import ModuleType

from autotriton.errors import JudgeError
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.processes import Processes
from autotriton.judge.sandbox.limits import Limits
from autotriton.judge.trial import NO_COMPILATION
from autotriton.types import Outcome

_OUTPUT_BYTES = 4 << 20
_LATE, _TOO_MUCH = "ran past", "used too much of"


@dataclass(frozen=True)
class Ran:
    """How a script ended."""

    passed: bool
    """Exit code 0, in time."""
    output: str
    detail: str
    """Why it did not pass, in one line."""


def run(processes: Processes, script: str, name: str, *, device: str, timeout_s: float, seed: int = 0) -> Ran:
    """The script in a sandbox of its own, as `name`.py in an otherwise empty folder."""
    limits = Limits(
        deadline_s=timeout_s,
        memory_bytes=(6 if device == "cpu" else 16) << 30,
        output_bytes=_OUTPUT_BYTES,
        devices=device == "cuda",
        allow_processes=device == "cuda",
        triton_seed=processes.triton_seed() if device == "cuda" else None,
    )
    process = processes.server(interpret=device == "cpu").spawn("script", limits)
    said = ""
    try:
        process.channel.send({"script": script, "name": name, "device": device, "seed": seed})
        said = str(process.channel.receive(timeout_s + 5)[0].get("error", ""))[:300]
    except ChannelError:
        pass  # it ended without a word: by itself, or at its deadline
    ending = process.end(abandon=False, timeout_s=10)
    if ending.reason == "stuck":
        processes.note_stuck(process)
    if ending.reason.startswith("monitor"):
        raise JudgeError(f"the sandbox could not be set up: {ending.reason}", hint="run `autotriton doctor`")
    if ending.reason in ("deadline", "stuck"):
        return Ran(False, ending.output, f"{_LATE} {timeout_s:g} s")
    if ending.reason:
        return Ran(False, ending.output, f"{_TOO_MUCH}: {ending.reason}")
    passed = ending.exit_code == 0
    return Ran(passed, ending.output, "" if passed else said or f"exit code {ending.exit_code}")


def failed(detail: str) -> Outcome:
    """What to call a script that did not pass, by `Ran.detail`."""
    if detail.startswith(_LATE):
        return Outcome.TIMED_OUT
    if detail.startswith((_TOO_MUCH, "exit code -")):
        return Outcome.CRASHED
    return Outcome.COMPILE_ERROR if detail.partition(":")[0] in NO_COMPILATION else Outcome.RUNTIME_ERROR


def main(control: socket.socket) -> None:
    """Role of the process that runs the script. Its stdout is the monitor's pipe; stderr goes nowhere."""
    channel = Channel(control)
    try:
        request, _ = channel.receive()
    except ChannelError:
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    code, path = 1, f"{request['name']}.py"
    try:
        _run(path, str(request["script"]), str(request["device"]), int(request["seed"]))
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:  # noqa: BLE001 - foreign code: an uncaught exception is exit code 1, as in any script
        channel.send({"error": _line(error, path)})
    sys.stdout.flush()
    os._exit(code)


def _run(path: str, script: str, device: str, seed: int) -> None:
    import torch

    from autotriton.judge.interpreting import Interpreter
    from autotriton.judge.scripts import devices

    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    sys.path.insert(0, os.getcwd())  # as for any script; some tests import their own file by its name
    if device == "cpu":
        Interpreter(path)
        devices.install()
    torch.manual_seed(seed)
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = path
    exec(compile(script, path, "exec"), vars(module))
    if device == "cuda":
        torch.cuda.synchronize()  # a kernel that failed says so here


def _line(error: BaseException, path: str) -> str:
    """Type, text and place of an exception."""
    text = " ".join(str(error).split())[:200]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f" (line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{where}"
