"""The compiling process: the candidate's kernels, as they were launched, cross-compiled for named targets.

Sandboxed like the candidate, because loading the kernels runs the candidate's module. No GPU is needed or touched.
"""

from __future__ import annotations

import socket
from typing import Any

from autotriton.judge.channel import Channel
from autotriton.judge.targets import compile_launches
from autotriton.judge.worker import describe_error, load_module


def main(control: socket.socket) -> None:
    channel = Channel(control)
    request, _ = channel.receive()
    try:
        module = load_module(str(request["code"]))
        kernels = compile_launches(module, request["launches"], request["targets"])
        answer: dict[str, Any] = {"kernels": [kernel.model_dump(mode="json") for kernel in kernels]}
    except BaseException as error:  # noqa: BLE001 - foreign code
        answer = {"error": describe_error(error, None)}
    channel.send(answer)
