"""Putting one forked process into the sandbox, and watching it from outside until it ends.

    fork server --fork--> monitor --fork--> inmate (process 1 of its own pid namespace)

The monitor is trusted code and stays outside: it holds the deadline, drains the output, counts processes, memory and
(without a private tmpfs) files, and reports how the inmate ended. It shares no descriptor with the inmate but the
output pipe. It ends only after everything the inmate started has ended: with a pid namespace the kernel sees to that,
without one orphans come back to the monitor.

Covers: network, files outside the runtime, signals and ptrace to other processes, process, memory and disk bombs,
hangs, floods, new privileges. Does not cover: kernel and driver bugs, GPU memory taken by an admitted process, the
existence and size of files outside (landlock hides content and listings, not `stat`).
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
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autotriton.judge.sandbox import syscalls
from autotriton.judge.sandbox.limits import Limits, device_paths, proc_paths, runtime_paths
from autotriton.judge.sandbox.pausing import Pauses

_POLL_S = 0.02
_THREADS = 1024  # beyond the processes: honest code has dozens, and a thread costs a process id like a process
_FILES = 20000  # as many as the private tmpfs has inodes

Main = Callable[[socket.socket], None]


def run_monitored(main: Main, control: socket.socket, report: socket.socket, kind: str, limits: Limits) -> None:
    """In a freshly forked child of the fork server: become the monitor, fork the inmate, report, and exit."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    hung_up: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: hung_up.append(number))
    syscalls.die_with_parent(signal.SIGTERM)  # not SIGKILL: the inmate must go first, and its folder with it
    syscalls.adopt_orphans()
    scratch = tempfile.mkdtemp(prefix="autotriton-")
    try:
        ending = _start_and_watch(main, control, report, kind, limits, scratch, hung_up)
    except Exception as error:  # noqa: BLE001 - a monitor that breaks must still say so, and take its inmate along
        ending = {"reason": f"monitor: {type(error).__name__}: {error}", "exit_code": -9, "output": ""}
    _sweep()
    shutil.rmtree(scratch, ignore_errors=True)
    with contextlib.suppress(OSError):
        report.sendall(json.dumps(ending).encode())
    os._exit(0)


def _start_and_watch(main: Main, control: socket.socket, report: socket.socket, kind: str, limits: Limits, scratch: str,
                     hung_up: list[int]) -> dict[str, object]:  # fmt: skip
    output_read, output_write = os.pipe()
    alone = kind in ("namespaces", "bwrap")
    if alone:
        _new_namespaces()
    pid = os.fork()
    if pid == 0:
        report.close()
        os.close(output_read)
        _inmate(main, control, output_write, scratch, kind, limits, alone)
    control.close()
    os.close(output_write)
    deadline = time.monotonic() + limits.deadline_s
    watch = _Watch(pid, limits, deadline, _status_bytes(pid, "RssAnon"), None if alone else scratch)
    return watch.until_end(report, output_read, hung_up)


def _new_namespaces() -> None:
    """User, pid, net, ipc and uts namespaces for what is forked next. Mounts come later, in the inmate: the monitor
    needs the machine's own /proc."""
    uid, gid = os.getuid(), os.getgid()
    flags = syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
    syscalls.unshare(flags | syscalls.CLONE_NEWUSER)
    syscalls.map_user(uid, gid)


# --- the inmate's side ------------------------------------------------------------------------------------


def _inmate(main: Main, control: socket.socket, output: int, scratch: str, kind: str, limits: Limits,
            alone: bool) -> None:  # fmt: skip
    """Lock the doors, in the only order that works, then run `main`. Never returns."""
    try:
        os.setsid()  # a signal to its own process group must not reach the monitor
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        syscalls.die_with_parent(signal.SIGKILL)
        _redirect(output)
        _close_others(control.fileno())
        # Should memory run out in a way nobody counted, the kernel ends this process before any other.
        Path("/proc/self/oom_score_adj").write_text("1000")
        os.environ.update(_environment(scratch))
        tempfile.tempdir = scratch
        if alone:
            _private_mounts(scratch, limits)
        if limits.triton_seed is not None and os.path.isdir(limits.triton_seed):  # hidden by bwrap: then built anew
            shutil.copytree(limits.triton_seed, f"{scratch}/triton")
        os.chdir(scratch)
        _set_rlimits(limits, alone)
        if kind != "none":
            syscalls.forbid_new_privileges()
            syscalls.drop_capabilities()
            readable = [*runtime_paths(), *proc_paths(alone), *limits.readable]
            # CUDA writes to its own /proc/self; the rest of /proc stays read-only.
            syscalls.landlock(readable, [scratch, "/proc/self"], device_paths(limits.devices))
            syscalls.seccomp(processes=limits.allow_processes, unix_sockets=limits.devices, alone=alone)
        main(control)
    except BaseException as error:  # noqa: BLE001 - the boundary to foreign code: whatever escapes, this process must only end
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
    os.closerange(keep + 1, max(4096, os.sysconf("SC_OPEN_MAX")))


def _environment(scratch: str) -> dict[str, str]:
    # One connection instead of eight halves the time a CUDA context takes, and contexts are made one after another:
    # 16 processes had theirs after 3.2 s, with this after 1.5 s (H200, driver 580).
    return {"HOME": scratch, "TMPDIR": scratch, "TRITON_CACHE_DIR": f"{scratch}/triton", "TRITON_HOME": scratch,
            "XDG_CACHE_HOME": scratch, "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
            "CUDA_DEVICE_MAX_CONNECTIONS": "1"}  # fmt: skip


def _private_mounts(scratch: str, limits: Limits) -> None:
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount_private()
    syscalls.mount_readonly()
    syscalls.mount_tmpfs(scratch, limits.disk_bytes)
    syscalls.mount_proc()


def _set_rlimits(limits: Limits, alone: bool) -> None:
    data_now = _status_bytes("self", "VmData")
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: data_now + limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.disk_bytes,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_CPU: int(limits.deadline_s * (os.cpu_count() or 1)) + 5,
    }
    if alone:  # counted per user namespace; outside one it would count the user's whole session. Root is exempt.
        wanted[resource.RLIMIT_NPROC] = limits.processes + _THREADS
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


# --- the monitor's side -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Watch:
    """One inmate under watch."""

    pid: int
    limits: Limits
    deadline: float
    baseline: int
    """Anonymous memory it shares with the fork server."""
    folder: str | None
    """Its folder where files must be counted; None when a tmpfs of fixed size does that."""

    def until_end(self, report: socket.socket, output: int, hung_up: list[int]) -> dict[str, object]:
        """Wait for the inmate; end it when it breaks a limit or when the parent hangs up."""
        kept, reason, status = bytearray(), "", None
        pauses = Pauses(lambda: _below()[0])
        poller = select.poll()
        poller.register(output, select.POLLIN)
        poller.register(report, select.POLLIN)
        while status is None:
            for descriptor, _ in poller.poll(_POLL_S * 1000):
                if descriptor == report.fileno():
                    reason = reason or ("" if pauses.obey(report) else "abandoned")
                elif not _drain(output, kept, self.limits.output_bytes):
                    poller.unregister(output)
            reason = reason or ("abandoned" if hung_up else self._broken_limit(pauses.lost_s()))
            if reason:
                _kill()
            done, result = os.waitpid(self.pid, 0 if reason else os.WNOHANG)
            status = result if done else None
        with contextlib.suppress(OSError):
            os.set_blocking(output, False)
            _drain(output, kept, self.limits.output_bytes)
        code = os.waitstatus_to_exitcode(status)
        return {"reason": reason, "exit_code": code, "output": kept.decode("utf-8", "replace")}

    def _broken_limit(self, lost_s: float) -> str:
        if time.monotonic() - lost_s > self.deadline:
            return "deadline"
        family, threads = _below()
        if len(family) > self.limits.processes or threads > self.limits.processes + _THREADS:
            return "processes"
        if self._too_much_memory(family):
            return "memory"
        if self.folder is not None and _disk_bytes(self.folder, family, self.limits) > self.limits.disk_bytes:
            return "disk"
        return ""

    def _too_much_memory(self, family: list[int]) -> bool:
        """Resident sizes first; only when they look too large, the dear count that shares shared pages out."""
        allowed = self.limits.memory_bytes + self.baseline
        if sum(_status_bytes(one, "RssAnon", "RssShmem") for one in family) <= allowed:
            return False
        # What it began with is shared with the fork server and the monitor, so at most this much of it counts here.
        inherited = self.baseline * len(family) // (len(family) + 2)
        return sum(_proportional_bytes(one) for one in family) > self.limits.memory_bytes + inherited


def _drain(output: int, kept: bytearray, limit: int) -> bool:
    try:
        chunk = os.read(output, 1 << 16)
    except BlockingIOError:
        return False
    kept += chunk[: max(0, limit - len(kept))]
    return bool(chunk)


def _below() -> tuple[list[int], int]:
    """Every process below the monitor (orphans come back to it or, in a namespace, to the inmate), and the threads."""
    found, threads, todo = [], 0, _children(os.getpid())[0]
    while todo:
        one = todo.pop()
        found.append(one)
        more, own_threads = _children(one)
        todo += more
        threads += own_threads
    return found, threads


def _children(pid: int) -> tuple[list[int], int]:
    """The children of a process, whichever of its threads forked them, and how many threads it has."""
    children: list[int] = []
    threads: list[str] = []
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        for thread in threads:
            children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return children, len(threads)


def _status_bytes(pid: int | str, *fields: str) -> int:
    return _sum_of_lines(f"/proc/{pid}/status", fields) or 0


def _proportional_bytes(pid: int) -> int:
    """Anonymous and shared memory, a page shared by n processes counted as 1/n; resident size where that is refused."""
    exact = _sum_of_lines(f"/proc/{pid}/smaps_rollup", ("Pss_Anon", "Pss_Shmem"))
    return _status_bytes(pid, "RssAnon", "RssShmem") if exact is None else exact


def _sum_of_lines(path: str, fields: tuple[str, ...]) -> int | None:
    """The sum of some `Name:  123 kB` lines, in bytes; None where none can be read."""
    try:
        lines = [line.split() for line in Path(path).read_text().splitlines()]
        found = [int(words[1]) * 1024 for words in lines if words and words[0][:-1] in fields]
    except (OSError, IndexError, ValueError):
        return None
    return sum(found) if found else None


def _disk_bytes(folder: str, family: list[int], limits: Limits) -> int:
    """Bytes in a folder and in deleted files still held open; more than the limit when there are too many files."""
    total = count = 0
    todo = [folder]
    while todo and count <= _FILES and total <= limits.disk_bytes:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                count += 1
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                if count > _FILES or total > limits.disk_bytes:
                    return limits.disk_bytes + 1
    device = os.stat(folder).st_dev
    return total + sum(sizes for one in family for sizes in _deleted(one, device))


def _deleted(pid: int, device: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                file = os.stat(f"/proc/{pid}/fd/{name}")
                if file.st_nlink == 0 and file.st_dev == device and stat.S_ISREG(file.st_mode):
                    yield file.st_blocks * 512


def _kill() -> None:
    """Stop everything first: what is stopped cannot fork while the rest is being killed."""
    family = _below()[0]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for one in family:
            with contextlib.suppress(OSError):
                os.kill(one, number)


def _sweep() -> None:
    """End and reap whatever is left below the monitor, until nothing is."""
    while True:
        _kill()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)
