"""The fork server: imports torch and triton once, never touches CUDA, and forks a sandboxed process per request.

Run as `python -m autotriton.judge.zygote FD [compiles]`; the parent's client is `forks.py`. Two of them live beside a
judge: one with TRITON_INTERPRET=1 (Triton decides at import which kind of kernel a decorator makes) and one without;
on a GPU a third one, with torch.compile loaded, for references that are timed.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable

from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.sandbox.enter import run_monitored
from autotriton.judge.sandbox.limits import Limits


def _roles() -> dict[str, Callable[[socket.socket], None]]:
    """What a forked process can be. Imported here so that every module is loaded before the first fork."""
    from autotriton.judge import compiling, processes, reference, survey, worker
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
    }


def _preload(compiles: bool) -> None:
    import torch

    torch.set_num_threads(1)  # a fork must not inherit a pool whose threads are gone
    import numpy  # noqa: F401
    import triton
    import triton.language
    import triton.runtime.interpreter  # noqa: F401

    from autotriton.judge.blocking import compute_operators
    from autotriton.judge.targets import warm_up

    compute_operators()
    warm_up()
    if compiles:  # seconds, which every reference would spend again
        import torch._dynamo
        import torch._inductor.codegen.triton
        import torch._inductor.compile_fx
        import torch._inductor.runtime.triton_heuristics
    assert not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]


def serve(connection: socket.socket, *, compiles: bool) -> None:
    """Answer fork requests until the parent goes away."""
    _preload(compiles)
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
    serve(socket.socket(fileno=int(sys.argv[1])), compiles="compiles" in sys.argv[2:])
