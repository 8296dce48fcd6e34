"""The inmate's side of the self-check: try one forbidden thing for real, and tell what happened.

The parent's side is `selfcheck.py`. What is said here is believed only where it speaks against the sandbox; whether a
file was written, a packet arrived or a process survived, the parent looks for itself. Every bomb stops by itself at a
few times its limit, so that a sandbox that does not hold harms nobody.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from autotriton.judge.channel import Channel

Message = dict[str, Any]
Attempt = tuple[str, Callable[[], object]]

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_GET_NO_NEW_PRIVS = 1, 15, 39
_PTRACE_SEIZE, _CLONE_NEWUSER, _CLONE_NEWNS = 0x4206, 0x10000000, 0x00020000
_CAPABILITY_HEADER = (0x20080522, 0)
_PRINT_CAPABILITIES = f"""
import ctypes, struct
buffer = ctypes.create_string_buffer(24)
ctypes.CDLL(None).capget(struct.pack("Ii", *{_CAPABILITY_HEADER}), buffer)
print(any(buffer.raw))
"""
_CHUNK = 8 << 20
_EXCESS = 4  # a bomb goes to this many times its limit, and no further
_NOTICE_S = 0.5  # time for the monitor to see a bomb that went off


def main(control: socket.socket) -> None:
    channel = Channel(control)
    request, _ = channel.receive()
    _libc.prctl(_PR_SET_NAME, str(request["mark"]).encode(), 0, 0, 0)  # forks inherit it: the parent counts survivors
    channel.send(_PROBES[str(request["probe"])](request))


def _succeeded(attempts: Iterable[Attempt]) -> Message:
    """The names of the attempts that were not refused."""
    done = []
    for name, attempt in attempts:
        with contextlib.suppress(Exception):
            attempt()
            done.append(name)
    return {"done": done}


def _call(name: str, *arguments: object) -> int:
    result = int(getattr(_libc, name)(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def _honest(request: Message) -> Message:
    """What a candidate needs: a folder of its own, the runtime, a thread."""

    def thread() -> None:
        worker = threading.Thread(target=lambda: None)
        worker.start()
        worker.join(5)

    own = Path("file")
    attempts: list[Attempt] = [("write", partial(own.write_text, "x")), ("read", own.read_text)]
    attempts += [("import", partial(importlib.import_module, "colorsys")), ("thread", thread)]
    return {**_succeeded(attempts), "folder": os.getcwd()}


# --- reaching out -----------------------------------------------------------------------------------------


def _network(request: Message) -> Message:
    tcp, udp, path = ("127.0.0.1", request["tcp"]), ("127.0.0.1", request["udp"]), request["path"]
    families = ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG")

    def send(family: int, address: tuple[str, int] | str) -> None:
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"probe", address)

    def send_from_pair() -> None:
        socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"probe", path)

    def open_socket(family: str) -> None:
        kind = {"AF_PACKET": socket.SOCK_RAW, "AF_NETLINK": socket.SOCK_RAW, "AF_ALG": socket.SOCK_SEQPACKET}
        socket.socket(getattr(socket, family), kind.get(family, socket.SOCK_STREAM)).close()

    return _succeeded([
        ("TCP", lambda: socket.create_connection(tcp, timeout=1).close()),
        ("UDP", lambda: send(socket.AF_INET, udp)),
        ("DNS", lambda: send(socket.AF_INET, ("192.0.2.53", 53))),
        ("unix socket", lambda: send(socket.AF_UNIX, path)),
        ("unix socket pair", send_from_pair),
        *((family, partial(open_socket, family)) for family in families),
    ])  # fmt: skip


def _read(request: Message) -> Message:
    """Files and folders by name."""
    attempts: list[Attempt] = []
    for name in request["files"]:
        attempts.append((name, Path(name).read_bytes))
        attempts.append((f"{name} through /proc", Path(f"/proc/self/root{name}").read_bytes))
    attempts += [(f"listing {name}", partial(os.listdir, name)) for name in request["folders"]]
    return _succeeded(attempts)


def _write(request: Message) -> Message:
    mark, canary = str(request["mark"]), request["canary"]
    attempts: list[Attempt] = []
    for folder in request["folders"]:
        attempts.append((folder, partial(Path(folder, mark).write_text, "x")))
        attempts.append((f"a folder in {folder}", Path(folder, f"{mark}-folder").mkdir))
    return _succeeded([
        *attempts,
        ("open for writing", partial(os.open, canary, os.O_WRONLY)),
        ("truncate", partial(os.truncate, canary, 0)),
        ("chmod", partial(os.chmod, canary, 0o777)),
        ("utime", partial(os.utime, canary, (1, 1))),
        ("link", partial(os.link, canary, "link")),
        ("rename", partial(os.rename, canary, f"{canary}-moved")),
        ("unlink", partial(os.unlink, canary)),
    ])  # fmt: skip


def _processes(request: Message) -> Message:
    """What /proc tells about processes outside."""
    outside = {str(pid) for pid in request["outside"]}
    with contextlib.suppress(OSError):
        outside |= {name for name in os.listdir("/proc") if name.isdigit()}
    outside -= {str(os.getpid())}
    attempts: list[Attempt] = []
    for pid in outside:
        folder = Path("/proc", pid)
        attempts += [(str(folder / name), (folder / name).read_bytes) for name in ("cmdline", "environ", "maps")]
        attempts += [(str(folder / name), partial(os.listdir, folder / name)) for name in ("root", "cwd", "fd")]
    attempts += [(f"memory of {pid}", partial(os.open, f"/proc/{pid}/mem", os.O_RDWR)) for pid in request["outside"]]
    return _succeeded(attempts)


def _signals(request: Message) -> Message:
    """Signals (SIGURG: whoever gets it ignores it), and whatever else changes another process."""
    attempts: list[Attempt] = []
    for pid in {*request["outside"], os.getppid()} - {0, os.getpid()}:
        attempts += [
            (f"kill {pid}", partial(os.kill, pid, signal.SIGURG)),
            (f"kill group {pid}", partial(os.killpg, pid, signal.SIGURG)),
            (f"limits of {pid}", partial(resource.prlimit, pid, resource.RLIMIT_CORE)),
            (f"priority of {pid}", partial(os.setpriority, os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))),
            (f"cores of {pid}", partial(os.sched_setaffinity, pid, os.sched_getaffinity(0))),
            (f"ptrace {pid}", partial(_call, "ptrace", _PTRACE_SEIZE, pid, 0, 0)),
        ]
    answer = _succeeded(attempts)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGURG)  # "succeeds" even when every single one is refused: the parent looks at its effect
    with contextlib.suppress(OSError):
        os.kill(0, signal.SIGTERM)  # its own group must not hold the monitor, which would take this as the end
    return answer


def _privileges(request: Message) -> Message:
    def capabilities() -> None:
        buffer = ctypes.create_string_buffer(24)
        _call("capget", struct.pack("Ii", *_CAPABILITY_HEADER), buffer)
        if not any(buffer.raw):
            raise PermissionError

    def capabilities_of_program() -> None:
        command = [sys.executable, "-I", "-S", "-c", _PRINT_CAPABILITIES]
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        if found.strip() != "True":
            raise PermissionError

    def privileges_possible() -> None:
        if _libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1:
            raise PermissionError

    def mount() -> None:  # of no known type: where mounting is allowed the error is ENODEV, and nothing is mounted
        _libc.mount(b"none", os.getcwd().encode(), b"no-such-type", 0, None)
        if ctypes.get_errno() != errno.ENODEV:
            raise PermissionError

    return _succeeded([
        ("new user namespace", lambda: _call("unshare", _CLONE_NEWUSER)),
        ("new mount namespace", lambda: _call("unshare", _CLONE_NEWNS)),
        ("mount", mount),
        ("outliving the monitor", lambda: _call("prctl", _PR_SET_PDEATHSIG, 0, 0, 0, 0)),
        ("capabilities", capabilities),
        ("capabilities of a program it starts", capabilities_of_program),
        ("setuid programs", privileges_possible),
        ("chroot", lambda: os.chroot(".")),  # last: should it work, this process is of no more use
        ("setuid", lambda: os.setuid(os.getuid() + 1)),
    ])  # fmt: skip


def _descriptors(request: Message) -> Message:
    def is_open(descriptor: int) -> bool:
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            return True
        return False

    return {"open": [descriptor for descriptor in range(4096) if is_open(descriptor)], "done": []}


# --- using too much ---------------------------------------------------------------------------------------


def _fork_refused(request: Message) -> Message:
    def fork() -> None:
        if os.fork() == 0:
            os._exit(0)

    def execute() -> None:  # an absent program: without a filter the error is another one, and this process goes on
        if _libc.execve(b"/nothing-here", None, None) < 0 and ctypes.get_errno() == errno.EPERM:
            raise PermissionError

    return _succeeded([
        ("fork", fork),
        ("a program", lambda: subprocess.run(["/bin/true"], check=False)),
        ("posix_spawn", lambda: os.posix_spawn("/bin/true", ["true"], {})),
        ("exec", execute),
    ])  # fmt: skip


def _fork_bomb(request: Message) -> Message:
    """Every process forks for as long as it can; threads fork too."""
    stop = time.monotonic() + 3

    def bomb() -> None:
        for _ in range(200):
            with contextlib.suppress(OSError):
                if os.fork() == 0:
                    time.sleep(max(0.0, stop - time.monotonic()))
                    os._exit(0)
        time.sleep(max(0.0, stop - time.monotonic()))

    thread = threading.Thread(target=bomb)
    thread.start()
    thread.join()
    return {"done": ["200 processes"]}


def _daemon(request: Message) -> Message:
    """A grandchild in a session of its own, that nobody waits for; and one forked by a thread that is gone."""

    def daemonise() -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                time.sleep(60)
            os._exit(0)

    daemonise()
    thread = threading.Thread(target=daemonise)
    thread.start()
    thread.join()
    return {"done": []}


def _memory_bomb(request: Message) -> Message:
    held: list[object] = []
    try:
        while len(held) * _CHUNK < _EXCESS * request["limit"]:
            if request["shared"]:
                block = mmap.mmap(-1, _CHUNK)
                block.write(b"x" * _CHUNK)
                held.append(block)
            else:
                held.append(bytearray(b"x") * _CHUNK)
    except (MemoryError, OSError):
        return {"done": [], "held": len(held) * _CHUNK}
    time.sleep(_NOTICE_S)
    return {"done": ["memory"], "held": len(held) * _CHUNK}


def _disk_bomb(request: Message) -> Message:
    """Many files, each below any limit on one file; deleted ones kept open where `deleted`."""
    written, content = 0, b"x" * (request["limit"] // 4)
    held: list[BinaryIO] = []
    try:
        while written < _EXCESS * request["limit"]:
            file: BinaryIO = open(f"file-{len(held)}", "wb", buffering=0)  # noqa: SIM115 - stays open on purpose
            held.append(file)
            if request["deleted"]:
                os.unlink(file.name)
            written += file.write(content)
    except OSError:
        return {"done": [], "held": written}
    time.sleep(_NOTICE_S)
    return {"done": ["disk"], "held": written}


def _hang(request: Message) -> Message:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass


def _flood(request: Message) -> Message:
    line = b"x" * 65536
    for _ in range(request["bytes"] // len(line)):
        os.write(1, line)
        os.write(2, line)
    return {"done": []}


_PROBES: dict[str, Callable[[Message], Message]] = {
    "honest": _honest, "network": _network, "read": _read, "write": _write, "processes": _processes,
    "signals": _signals, "privileges": _privileges, "descriptors": _descriptors, "fork_refused": _fork_refused,
    "fork_bomb": _fork_bomb, "daemon": _daemon, "memory_bomb": _memory_bomb, "disk_bomb": _disk_bomb, "hang": _hang,
    "flood": _flood,
}  # fmt: skip
