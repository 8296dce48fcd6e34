"""Compiling many settings at once: a server forked before CUDA is touched, which forks one process per kernel.

Compilation is what tuning waits for, and it needs no GPU. The binaries land in Triton's own cache on disk, where the
measuring process finds them. A compiler that aborts or hangs costs its own kernel and nothing else.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import types
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from autotriton.tune.kernels import JitName, Job
from autotriton.tune.prune import Compiled

_MESSAGE_CHARACTERS = 200
_TIMEOUT_S = 60.0
"""For one kernel; ptxas needs seconds for the largest ones."""
_fork = multiprocessing.get_context("fork")


class Pool:
    """The measuring process's handle. Kernels are named by their key; each is compiled once."""

    def __init__(self, functions: dict[str, Any], capability: str, jobs: int, timeout_s: float = _TIMEOUT_S) -> None:
        self.done: dict[tuple[str, str], Compiled] = {}
        self._submitted: set[tuple[str, str]] = set()
        target = _prepare(capability)
        self._connection, theirs = _fork.Pipe()
        self._server = _fork.Process(target=_serve, args=(self._connection, theirs, functions, target, jobs, timeout_s))
        self._server.start()
        theirs.close()

    def submit(self, job: Job) -> bool:
        """False where the kernel's constants cannot travel or nobody is there: it is compiled when it is measured."""
        if job.key in self._submitted:
            return True
        try:
            self._receive(0.0)
            self._connection.send_bytes(pickle.dumps(job))
        except (pickle.PicklingError, TypeError, AttributeError, OSError):
            return False
        self._submitted.add(job.key)
        return True

    def wait(self, deadline: float) -> None:
        """Until everything submitted is compiled, or `time.monotonic()` reaches the deadline."""
        while len(self.done) < len(self._submitted) and (left := deadline - time.monotonic()) > 0:
            if not self._receive(left):
                return

    def close(self) -> None:
        """The server ends with its pipe, and its compilations with it."""
        self._connection.close()
        self._server.join(timeout=2.0)
        if self._server.is_alive():
            self._server.kill()

    def _receive(self, timeout_s: float) -> bool:
        """Takes in what is finished; False when the server is gone."""
        try:
            while self._connection.poll(timeout_s):
                key, compiled = self._connection.recv()
                self.done[key] = compiled
                timeout_s = 0.0
        except (EOFError, OSError):
            return False
        return True


def target_of(capability: str) -> Any:
    """`9.0` or `gfx942` as Triton names it."""
    from triton.backends.compiler import GPUTarget

    if capability.startswith("gfx"):
        return GPUTarget("hip", capability, 64 if capability.startswith("gfx9") else 32)
    major, _, minor = capability.partition(".")
    return GPUTarget("cuda", int(major) * 10 + int(minor or 0), 32)


@dataclass
class _Running:
    job: Job
    process: BaseProcess
    deadline: float


def _serve(
    parents_end: Connection,
    connection: Connection,
    functions: dict[str, Any],
    target: Any,
    jobs: int,
    timeout_s: float,
) -> None:
    parents_end.close()  # inherited; while anybody holds it, the parent's death goes unnoticed
    os.setpgrp()  # the measuring process's group is stopped while others time something; compilers disturb nobody
    _pretend_device(target)
    waiting: deque[Job] = deque()
    running: dict[Connection, _Running] = {}
    try:
        while True:
            nearest = min((one.deadline for one in running.values()), default=None)
            ready = wait([connection, *running], None if nearest is None else max(0.0, nearest - time.monotonic()))
            if connection in ready:
                waiting.append(pickle.loads(connection.recv_bytes()))
            for pipe, one in list(running.items()):
                if pipe in ready or time.monotonic() >= one.deadline:
                    del running[pipe]
                    connection.send((one.job.key, _finish(pipe, one, late=pipe not in ready)))
            while waiting and len(running) < jobs:
                pipe, started = _start(waiting.popleft(), functions, target, timeout_s)
                running[pipe] = started
    except (EOFError, OSError):
        for one in running.values():
            one.process.kill()


def _prepare(capability: str) -> Any:
    """The target; computes once what every fork and the measuring process need, most of a second."""
    from triton.compiler import make_backend
    from triton.runtime.cache import triton_key

    target = target_of(capability)
    triton_key()
    make_backend(target).hash()
    return target


def _pretend_device(target: Any) -> None:
    """Parts of the compiler ask the driver what the target is; here is no other driver, and no GPU."""
    from triton.runtime import driver

    driver.set_active(types.SimpleNamespace(get_current_target=lambda: target, get_current_device=lambda: 0))


def _start(job: Job, functions: dict[str, Any], target: Any, timeout_s: float) -> tuple[Connection, _Running]:
    ours, theirs = _fork.Pipe(duplex=False)
    process = _fork.Process(target=_work, args=(theirs, job, functions, target), daemon=True)
    process.start()
    theirs.close()
    return ours, _Running(job, process, time.monotonic() + timeout_s)


def _finish(pipe: Connection, one: _Running, *, late: bool) -> Compiled:
    try:
        if late:
            return Compiled(error="took too long to compile")
        answer: Compiled = pipe.recv()
        return answer
    except (EOFError, OSError):
        one.process.join(timeout=1.0)
        return Compiled(error=f"the compiler crashed (exit status {one.process.exitcode})")
    finally:
        one.process.kill()
        one.process.join()
        pipe.close()


def _work(pipe: Connection, job: Job, functions: dict[str, Any], target: Any) -> None:
    os.nice(5)  # the measuring process goes first
    try:
        pipe.send(_compile(job, functions, target))
    except Exception as error:  # noqa: BLE001 - the compiler raises what it likes; all of it is about this kernel
        pipe.send(Compiled(error=_one_line(error)))


def _one_line(error: BaseException) -> str:
    """The root cause; Triton wraps an error once per function it passes through."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(getattr(error, "error_message", None) or error).split())
    return f"{type(error).__name__}: {text}"[:_MESSAGE_CHARACTERS]


def _compile(job: Job, functions: dict[str, Any], target: Any) -> Compiled:
    import triton
    from triton.compiler import ASTSource

    constants = {
        path: functions[value.name] if isinstance(value, JitName) else value for path, value in job.constants.items()
    }
    source = ASTSource(functions[job.key[0]], job.signature, constants, job.attributes)
    kernel = triton.compile(source, target=target, options=job.options)
    return Compiled(shared_bytes=int(kernel.metadata.shared))
