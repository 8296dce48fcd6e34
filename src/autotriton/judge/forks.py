"""The parent's side of the fork server: start it, ask it for sandboxed processes, and hear how each one ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotriton.child import child_command, python_path
from autotriton.errors import JudgeError
from autotriton.judge.channel import Channel, ChannelError, Late
from autotriton.judge.sandbox.limits import Limits, runtime_paths
from autotriton.judge.sandbox.pausing import PAUSE, RESUME, STOPPED

_START_TIMEOUT_S = 180.0
_PAUSE_S = 1.0
"""Longest wait for a process to stand still; its monitor gives up sooner."""
_LOOK_AGAIN_S = 1.0
_KEPT = (
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "LANG",
    "TZ",
    "CC",
    "VIRTUAL_ENV",
    "TMPDIR",
    "HOME",
    "USER",
)
_KEPT_PREFIXES = ("CUDA_", "NVIDIA_", "ROCM_", "HIP_", "LC_")


@dataclass(frozen=True)
class Ending:
    """How a sandboxed process ended, as its monitor saw it."""

    reason: str
    """Empty, or the limit it broke: deadline, memory, processes, abandoned."""
    exit_code: int
    output: str


class Process:
    """One sandboxed process: talk to it over `channel`, then `end` it. Other threads may pause and resume it."""

    def __init__(self, channel: Channel, report: socket.socket) -> None:
        self.channel, self._report = channel, report
        self._ending: Ending | None = None
        self._heard = bytearray()
        self._reporting = threading.Lock()
        """Held while something is said or heard over the report socket."""
        self._asked = self._acknowledged = 0
        self._stopped_at: float | None = None
        self._stopped_s = 0.0

    def clock(self) -> float:
        """Seconds that stand still while the process does."""
        since = self._stopped_at
        now = time.monotonic()
        return now - self._stopped_s - (0.0 if since is None else now - since)

    def receive(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        """The next message; time in which the process was stopped does not count."""
        until, poller = self.clock() + timeout_s, select.poll()
        poller.register(self.channel.socket, select.POLLIN)
        while not poller.poll(1e3 * max(0.0, min(until - self.clock(), _LOOK_AGAIN_S))):
            if self.clock() >= until:
                raise Late("no answer in time")
        return self.channel.receive(timeout_s)

    def ask_to_pause(self) -> None:
        """Let its monitor stop it; `wait_paused` hears when that is done."""
        if self._stopped_at is None and self._ending is None:
            self._stopped_at = time.monotonic()
            self._asked += 1
            self._say(PAUSE)

    def wait_paused(self) -> None:
        """Until it stands still, has ended, or cannot be stopped in time."""
        if not self._reporting.acquire(timeout=_PAUSE_S):  # it is being ended right now
            return
        try:
            deadline = time.monotonic() + _PAUSE_S
            while self._acknowledged < self._asked and self._ending is None and not self._heard:
                self._report.settimeout(max(deadline - time.monotonic(), 0.001))
                chunk = self._report.recv(1 << 16)
                if not chunk:
                    return
                self._take(chunk)
        except OSError:
            return  # slow, or gone
        finally:
            self._reporting.release()

    def resume(self) -> None:
        if self._stopped_at is not None:
            self._say(RESUME)
            self._stopped_s += time.monotonic() - self._stopped_at
            self._stopped_at = None

    def over(self) -> bool:
        return self._ending is not None and self._ending.reason != "stuck"

    def _take(self, chunk: bytes) -> None:
        """Acknowledgements come first, then how it ended."""
        if not self._heard:
            self._acknowledged += len(chunk) - len(chunk.lstrip(STOPPED))
            chunk = chunk.lstrip(STOPPED)
        self._heard += chunk

    def _say(self, word: bytes) -> None:
        """One byte never blocks on a socket nobody else writes to."""
        with contextlib.suppress(OSError):
            self._report.send(word)

    def end(self, *, abandon: bool = True, timeout_s: float = 20.0) -> Ending:
        """Hang up and learn how it ended. `abandon=False` waits for its own end (or its deadline) first.

        A process that cannot be ended in time (the driver holds it while an endless kernel runs) is reported as `stuck`
        and stays so; `gone` tells when it has ended after all.
        """
        if self._ending is None:
            self.channel.close()
            if abandon:
                with contextlib.suppress(OSError):
                    self._report.shutdown(socket.SHUT_WR)
            with self._reporting:
                self._ending = self._hear(timeout_s)
        return self._ending

    def gone(self, timeout_s: float) -> bool:
        """Wait for a stuck process to end."""
        with contextlib.suppress(OSError):
            self._report.shutdown(socket.SHUT_WR)
        with self._reporting:
            return self._hear(timeout_s).reason != "stuck"

    def _hear(self, timeout_s: float) -> Ending:
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                self._report.settimeout(max(deadline - time.monotonic(), 0.01))
                chunk = self._report.recv(1 << 16)
                if not chunk:
                    break
                self._take(chunk)
            self._report.close()
            return Ending(**json.loads(self._heard))
        except TimeoutError:
            return Ending("stuck", -9, "")
        except (OSError, ValueError, TypeError) as error:
            raise JudgeError(f"a sandbox monitor did not report: {error}") from error


class ForkServer:
    """A running fork server. Thread-safe; `close` ends it and everything it forked."""

    def __init__(
        self,
        kind: str,
        *,
        interpret: bool,
        readable: Sequence[str] = (),
        references: bool = False,
        compiles: bool = False,
    ) -> None:
        """`references`, `compiles`: for such processes, and for those that will use torch.compile, more is loaded
        before they are forked.
        """
        self.kind = kind
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        environment = {
            **_environment(),
            "PYTHONPATH": python_path(),
            "TRITON_INTERPRET": "1" if interpret else "0",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if compiles:
            # Many tasks share the cores: a pool of compilers per task would only be in its neighbours' way. And
            # whether there is a GPU must be asked in a way that leaves CUDA untouched: a fork could not use it.
            environment |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        wishes = [name for name, wanted in (("references", references), ("compiles", compiles)) if wanted]
        command = child_command("autotriton.judge.zygote", str(theirs.fileno()), *wishes)
        if kind == "bwrap":
            command = [*_bwrap(readable), *command]
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        self._channel = Channel(ours)
        self._ready = False

    def spawn(self, role: str, limits: Limits) -> Process:
        """A fresh sandboxed process in a role the fork server knows."""
        control_ours, control_theirs = socket.socketpair()
        report_ours, report_theirs = socket.socketpair()
        request: dict[str, Any] = {"role": role, "kind": self.kind, "limits": limits.to_json()}
        with self._lock:
            self._wait_until_ready()
            try:
                self._channel.send(request, (control_theirs.fileno(), report_theirs.fileno()))
            except ChannelError as error:
                raise JudgeError(f"the fork server is gone: {error}") from error
        control_theirs.close()
        report_theirs.close()
        return Process(Channel(control_ours), report_ours)

    def _wait_until_ready(self) -> None:
        if self._ready:
            return
        try:
            self._channel.receive(_START_TIMEOUT_S)
        except ChannelError as error:
            self._process.kill()
            text = (self._process.stderr.read() if self._process.stderr else b"").decode("utf-8", "replace")
            lines = text.strip().splitlines() or [str(error)]
            raise JudgeError(f"the fork server did not start: {lines[-1]}", hint="run `autotriton doctor`") from error
        self._ready = True

    def close(self) -> None:
        self._channel.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()


def _environment() -> dict[str, str]:
    """What a runtime needs of our environment; API keys and the like stay here."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}


def _bwrap(readable: Sequence[str]) -> list[str]:
    """The outer wall where bubblewrap is installed: only the runtime is visible; devices as they are."""
    command = ["bwrap", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--new-session", "--tmpfs", "/tmp"]
    for path in [*runtime_paths(), *readable]:
        if path != "/sys" and os.path.exists(path):
            command += ["--ro-bind", path, path]
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for entry in {package_root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)}:
        if entry and os.path.isdir(os.path.join(entry, "autotriton")):
            command += ["--ro-bind", os.path.join(entry, "autotriton"), os.path.join(entry, "autotriton")]
    # Not --proc: bwrap covers parts of it, and over a covered /proc the kernel lets no inmate mount its own.
    return [*command, "--ro-bind", "/sys", "/sys", "--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev", "--"]
