"""Putting one forked process into the sandbox, and watching it from outside until it ends.

    fork server --fork--> monitor --fork--> inmate (process 1 of its own pid namespace)

The monitor is trusted code and stays outside: it holds the deadline, drains the output, counts processes and
memory, and reports how the inmate ended. It shares no descriptor with the inmate but the output pipe. When the
inmate ends or is killed, the kernel ends everything it started.

Covers: network, files outside the runtime, signals and ptrace to other processes, process, memory and disk bombs,
hangs, floods, new privileges. Does not cover: kernel and driver bugs, GPU memory taken by an admitted process.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autotriton.judge.sandbox import syscalls
from autotriton.judge.sandbox.limits import Limits, device_paths, runtime_paths

_POLL_S = 0.02


def run_monitored(main: Callable[[socket.socket], None], control: socket.socket, report: socket.socket, kind: str,
                  limits: Limits) -> None:  # fmt: skip
    """In a freshly forked child of the fork server: become the monitor, fork the inmate, report, and exit."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    syscalls.die_with_parent(signal.SIGKILL)
    scratch = tempfile.mkdtemp(prefix="autotriton-")
    output_read, output_write = os.pipe()
    inside = kind in ("namespaces", "bwrap") and _new_namespaces()
    pid = os.fork()
    if pid == 0:
        report.close()
        os.close(output_read)
        _inmate(main, control, output_write, scratch, kind, limits, inside)
    control.close()
    os.close(output_write)
    try:
        ending = _watch(pid, report, output_read, limits)
    except Exception as error:  # a monitor that breaks must still say so, and take its inmate along
        _kill(pid)
        ending = {"reason": f"monitor: {type(error).__name__}: {error}", "exit_code": -9, "output": ""}
    shutil.rmtree(scratch, ignore_errors=True)
    with contextlib.suppress(OSError):
        report.sendall(json.dumps(ending).encode())
    os._exit(0)


def _new_namespaces() -> bool:
    """User, mount, pid, net, ipc and uts namespaces for what is forked next; False where the kernel refuses."""
    uid, gid = os.getuid(), os.getgid()
    flags = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC
    try:
        syscalls.unshare(flags | syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWUTS)
        syscalls.map_user(uid, gid)
    except OSError:
        return False
    return True


def _inmate(main: Callable[[socket.socket], None], control: socket.socket, output: int, scratch: str, kind: str,
            limits: Limits, inside: bool) -> None:  # fmt: skip
    """Lock the doors, in the only order that works, then run `main`. Never returns."""
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        _redirect(output)
        _close_others(control.fileno())
        os.environ.update(_environment(scratch))
        tempfile.tempdir = scratch
        if inside:
            _private_mounts(scratch, limits)
        os.chdir(scratch)
        _set_rlimits(limits, bombs_stopped_by_namespace=inside)
        if kind != "none":
            syscalls.forbid_new_privileges()
            syscalls.drop_capabilities()
            readable = [*runtime_paths(), *limits.readable]
            # CUDA writes to its own /proc/self; the rest of /proc stays read-only.
            syscalls.landlock(readable, [scratch, "/proc/self"], device_paths(limits.devices))
            syscalls.seccomp(processes=limits.allow_processes, unix_sockets=limits.devices)
        main(control)
    except BaseException as error:  # the boundary to foreign code: whatever escapes, this process must only end
        with contextlib.suppress(BaseException):
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(70)
    os._exit(0)


def _redirect(output: int) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    for target, source in ((0, null), (1, output), (2, output)):
        os.dup2(source, target)


def _close_others(keep: int) -> None:
    """Nothing of the fork server's stays open but the control socket."""
    os.closerange(3, keep)
    os.closerange(keep + 1, 4096)


def _environment(scratch: str) -> dict[str, str]:
    return {"HOME": scratch, "TMPDIR": scratch, "TRITON_CACHE_DIR": f"{scratch}/triton", "TRITON_HOME": scratch,
            "XDG_CACHE_HOME": scratch, "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor"}  # fmt: skip


def _private_mounts(scratch: str, limits: Limits) -> None:
    syscalls.mount_private()
    syscalls.mount_tmpfs(scratch, limits.disk_bytes)
    syscalls.mount_proc()


def _set_rlimits(limits: Limits, bombs_stopped_by_namespace: bool) -> None:
    data_now = _status_bytes("self", "VmData")
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: data_now + limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.disk_bytes,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_CPU: int(limits.deadline_s * (os.cpu_count() or 1)) + 5,
    }
    if bombs_stopped_by_namespace:  # counted per user namespace; outside one it would count the user's whole session
        wanted[resource.RLIMIT_NPROC] = limits.processes + 64
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


# --- the monitor's side -----------------------------------------------------------------------------------


def _watch(pid: int, report: socket.socket, output: int, limits: Limits) -> dict[str, object]:
    """Wait for the inmate; end it when it breaks a limit or when the parent hangs up."""
    deadline = time.monotonic() + limits.deadline_s
    baseline = _status_bytes(pid, "RssAnon")
    kept, reason, status = bytearray(), "", None
    poller = select.poll()
    poller.register(output, select.POLLIN)
    poller.register(report, select.POLLIN)
    while status is None:
        for descriptor, _ in poller.poll(_POLL_S * 1000):
            if descriptor == output:
                if not _drain(output, kept, limits.output_bytes):
                    poller.unregister(output)
            else:  # the parent never writes here: readable means it hung up
                reason = reason or "abandoned"
        reason = reason or _broken_limit(pid, limits, deadline, baseline)
        if reason:
            _kill(pid)
        done, result = os.waitpid(pid, 0 if reason else os.WNOHANG)
        status = result if done else None
    with contextlib.suppress(OSError):
        os.set_blocking(output, False)
        _drain(output, kept, limits.output_bytes)
    code = os.waitstatus_to_exitcode(status)
    return {"reason": reason, "exit_code": code, "output": kept.decode("utf-8", "replace")}


def _drain(output: int, kept: bytearray, limit: int) -> bool:
    try:
        chunk = os.read(output, 1 << 16)
    except BlockingIOError:
        return False
    kept += chunk[: max(0, limit - len(kept))]
    return bool(chunk)


def _broken_limit(pid: int, limits: Limits, deadline: float, baseline: int) -> str:
    if time.monotonic() > deadline:
        return "deadline"
    family = list(_family(pid))
    if len(family) > limits.processes:
        return "processes"
    if sum(max(0, _status_bytes(one, "RssAnon") - baseline) for one in family) > limits.memory_bytes:
        return "memory"
    return ""


def _family(pid: int) -> Iterator[int]:
    """The inmate and everything below it; orphans inside a pid namespace come back to the inmate."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _status_bytes(pid: int | str, field: str) -> int:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    return 0


def _kill(pid: int) -> None:
    for one in reversed(list(_family(pid))):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
