"""Where worker processes come from: a process that has torch and Triton loaded, never touches CUDA, and forks.

Loading them takes seconds, which every race and every search would spend again. Run as `python -m
autotriton.tune.nursery FD`; the tuner's side is `Nursery`, one per environment, ended with the tuner's process. A
worker has a keeper beside it, which tells how it ended.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from autotriton.child import child_command, python_path

_START_S = 120.0
_nurseries: dict[str, Nursery] = {}
_mutex = threading.Lock()


def hire(module: str, arguments: Sequence[str], descriptors: Sequence[int], output: int, interpret: bool) -> Worker:
    """A process that runs the module's `main` with these arguments; the descriptors are appended as numbers of its own.

    It leads a process group of its own and writes to `output`.
    """
    environment = {**os.environ, "PYTHONPATH": python_path(), "TRITON_INTERPRET": "1" if interpret else "0"}
    key = json.dumps(environment, sort_keys=True)
    with _mutex:
        if key not in _nurseries or not _nurseries[key].alive():
            _nurseries[key] = Nursery(environment)
        nursery = _nurseries[key]
    return nursery.fork({"module": module, "arguments": list(arguments)}, [output, *descriptors])


class Worker:
    """A forked worker; like `subprocess.Popen` as far as that is needed."""

    def __init__(self, pid: int, keeper: socket.socket) -> None:
        self.pid, self._keeper = pid, keeper
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._keeper], [], [], timeout_s)[0]:
            said = self._keeper.recv(64)
            self._keeper.close()
            self.returncode = int(said) if said else -signal.SIGKILL  # the keeper was killed with it
        return self.returncode


class Nursery:
    """The tuner's side."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            child_command("autotriton.tune.nursery", str(theirs.fileno())),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> Worker:
        ours, keepers = socket.socketpair()
        try:
            with self._turn:
                _send(self._socket, request, [keepers.fileno(), *descriptors])
            keepers.close()
            ours.settimeout(_START_S)
            pid = int(ours.recv(64))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"the tuner's process does not start: {self._last_words() or error}") from error
        ours.settimeout(None)
        return Worker(pid, ours)

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        self._process.kill()

    def _last_words(self) -> str:
        self._process.kill()
        said = self._process.stderr.read().decode(errors="replace") if self._process.stderr else ""
        return (said.strip().splitlines() or [""])[-1]


@atexit.register
def _close_all() -> None:
    for nursery in _nurseries.values():
        nursery.close()


def _send(connection: socket.socket, request: dict[str, Any], descriptors: Sequence[int]) -> None:
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    connection.sendmsg([json.dumps(request).encode()], ancillary)


# --- the process itself -----------------------------------------------------------------------------------


def serve(connection: socket.socket) -> None:
    """Forks a keeper with a worker for each request until the tuner goes away."""
    import torch

    from autotriton.tune import runners, worker

    torch.set_num_threads(1)  # a fork must not inherit a pool whose threads are gone
    mains = {"worker": worker.main, "runners": runners.main}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            text, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 16)
        except OSError:
            return
        if not text:
            return
        request = json.loads(text)
        if os.fork() == 0:
            connection.close()
            _keep(mains[request["module"]], request["arguments"], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(main: Any, arguments: list[str], descriptors: list[int]) -> None:
    """Starts the worker, says its number, waits for its end and says how that was. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper, output, *own = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(keeper)
        _work(main, [*arguments, *map(str, own)], output)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # the worker does it too: whoever comes first
    for descriptor in (output, *own):
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.write(keeper, str(pid).encode())
        _, status = os.waitpid(pid, 0)
        os.write(keeper, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _work(main: Any, arguments: list[str], output: int) -> None:
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for standard in (1, 2):
        os.dup2(output, standard)
    status = 1
    try:
        main(*arguments)
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:  # noqa: BLE001 - its last line is what the tuner reports
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
