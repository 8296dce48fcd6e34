"""The fork server: imports torch and triton once, never touches CUDA, and forks a sandboxed process per request.

Run as `python -m autotriton.judge.zygote FD [references] [compiles]`; the parent's client is `forks.py`. Two of them
live beside a judge: one with TRITON_INTERPRET=1 (Triton decides at import which kind of kernel a decorator makes) and
one without; on a GPU a third one, with torch.compile loaded, for references that are timed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import sysconfig
from collections.abc import Callable

from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.sandbox.enter import run_monitored
from autotriton.judge.sandbox.limits import Limits


def _roles() -> dict[str, Callable[[socket.socket], None]]:
    """What a forked process can be. Imported here so that every module is loaded before the first fork."""
    from autotriton.judge import compiling, launchers, processes, reference, survey, worker
    from autotriton.judge.sandbox import probes
    from autotriton.judge.scripts import official, replay
    from autotriton.judge.scripts import reference as gold

    return {
        "candidate": worker.main,
        "reference": reference.main,
        "survey": survey.main,
        "compile": compiling.main,
        "script": official.main,
        "script-candidate": replay.main,
        "script-reference": gold.main,
        "probe": probes.main,
        "device": processes.device_main,
        "seed": processes.seed_main,
        "launchers": launchers.main,
    }


_LATE = (
    "multiprocessing.popen_fork",
    "torch.utils._device",
    "triton.backends.nvidia.driver",
    "triton.compiler.code_generator",
    "triton.language.extra.libdevice",
    "triton.runtime.build",
)
"""What torch and Triton import at first use: a tenth of a second in every candidate's process."""
_REHEARSED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 2)

    def forward(self, x):
        return torch.softmax(self.linear(torch.relu(self.norm(self.conv(x))).mean((2, 3))), 1)


def get_inputs():
    return [torch.randn(2, 2, 4, 4)]


def get_init_inputs():
    return []
"""


def _rehearse() -> None:
    """Open a small reference: much of torch is imported at first use, over a second for every one of them."""
    from autotriton.judge.reference import Reference
    from autotriton.types import Task

    task = Task(id="rehearsal", source=_REHEARSED).model_dump(mode="json")
    Reference({"do": "open", "task": task, "device": "cpu", "seed": 0, "cases": 2, "admit": False})


def _preload(references: bool, compiles: bool) -> None:
    import torch

    torch.set_num_threads(1)  # a fork must not inherit a pool whose threads are gone
    import numpy  # noqa: F401
    import triton
    import triton.language
    import triton.runtime.interpreter  # noqa: F401

    from autotriton.judge.blocking import compute_operators
    from autotriton.judge.targets import warm_up

    for name in _LATE:
        with contextlib.suppress(ImportError):  # not every Triton has every backend
            importlib.import_module(name)
    sysconfig.get_config_vars()
    compute_operators()
    warm_up()
    if compiles:  # seconds, which every reference would spend again
        import torch._dynamo
        import torch._inductor.codegen.triton
        import torch._inductor.compile_fx
        import torch._inductor.runtime.triton_heuristics
    if references:
        _rehearse()
    assert not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]


def serve(connection: socket.socket, *, references: bool, compiles: bool) -> None:
    """Answer fork requests until the parent goes away."""
    _preload(references, compiles)
    roles = _roles()
    gc.collect()
    gc.freeze()  # keep the shared pages shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(connection)
    channel.send({"ready": True})
    while True:
        try:
            request, descriptors = channel.receive()
        except ChannelError:
            return
        _fork(request, descriptors, roles, connection)
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(
    request: dict[str, object],
    descriptors: list[int],
    roles: dict[str, Callable[[socket.socket], None]],
    connection: socket.socket,
) -> None:
    pid = os.fork()
    if pid:
        return
    connection.close()
    control, report = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    limits = Limits.from_json(request["limits"])  # type: ignore[arg-type]
    run_monitored(roles[str(request["role"])], control, report, str(request["kind"]), limits)


if __name__ == "__main__":
    # No parent-death signal here: it would follow the *thread* that started us. The socket closes when the judge ends.
    told = sys.argv[2:]
    serve(socket.socket(fileno=int(sys.argv[1])), references="references" in told, compiles="compiles" in told)
