"""Live proof that the sandbox holds: a sandboxed process tries each forbidden thing, and the parent looks at it.

One thing must stay true: a probe passes only on what the parent saw, or on the inmate saying that everything was
refused; an inmate that dies without a word fails its probe. The inmate's side is `probes.py`.

Covers what `enter.py` says it covers. Does not cover: kernel and driver bugs, anything about the GPU.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotriton.errors import AutoTritonError
from autotriton.judge import sandbox
from autotriton.judge.channel import ChannelError
from autotriton.judge.forks import Ending, ForkServer
from autotriton.judge.sandbox.limits import Limits

_MEMORY = 128 << 20
_DISK = 16 << 20
_OUTPUT = 4096
_DEADLINE_S = 0.5
_LATE_S = 2.0  # how much later than its deadline a process may be gone on a busy machine


@dataclass(frozen=True)
class Probe:
    """One line of the self-check."""

    name: str
    passed: bool
    detail: str


def run(kind: str = "auto") -> Iterator[Probe]:
    """Try everything once in the sandbox of this kind. Takes seconds; leaves nothing behind."""
    try:
        server = ForkServer(sandbox.resolve(kind), interpret=False)
    except AutoTritonError as error:
        yield Probe("sandbox", False, str(error))
        return
    with contextlib.ExitStack() as stack:
        stack.callback(server.close)
        bench = _Bench(server, stack)
        for name, check in _CHECKS.items():
            yield _judged(name, check, bench)


def _judged(name: str, check: Callable[[_Bench], _Finding], bench: _Bench) -> Probe:
    try:
        finding = check(bench)
    except AutoTritonError as error:
        return Probe(name, False, str(error))
    survivors = bench.survivors()
    if survivors:
        return Probe(name, False, f"{survivors} processes outlived their end")
    return Probe(name, not finding.broken, finding.broken or finding.fine)


@dataclass(frozen=True)
class _Finding:
    broken: str
    """What got through; empty when nothing did."""
    fine: str
    """What was seen instead."""


@dataclass(frozen=True)
class _Result:
    """What the inmate said (None: nothing), and how it ended."""

    answer: dict[str, Any] | None
    ending: Ending

    def refused(self, what: str) -> _Finding:
        """The usual case: everything tried must have been refused, and the inmate must have lived to say so."""
        if self.answer is None:
            return _Finding(f"the probe died: {self.how()}", "")
        done = self.answer["done"]
        more = f" and {len(done) - 6} more" if len(done) > 6 else ""
        return _Finding(", ".join(done[:6]) + more, what)

    def how(self) -> str:
        reason = self.ending.reason or f"exit code {self.ending.exit_code}"
        return f"{reason} {self.ending.output.strip()[-200:]}".strip()


class _Bench:
    """A fork server, and places with something to steal or to spoil."""

    def __init__(self, server: ForkServer, stack: contextlib.ExitStack) -> None:
        self.server, self.stack = server, stack
        self.mark = f"probe-{secrets.token_hex(4)}"  # 14 characters: a process name holds 15
        self.elsewhere = self.folder(Path(tempfile.gettempdir()))
        self.home = Path.home()
        try:
            self.in_home: Path | None = self.folder(self.home)
        except OSError:  # a home that cannot be written has no place for a canary
            self.in_home = None

    def folder(self, where: Path) -> Path:
        path = Path(tempfile.mkdtemp(prefix=f".{self.mark}-", dir=where))
        self.stack.callback(shutil.rmtree, path, ignore_errors=True)
        (path / "canary.py").write_text(f"SECRET = '{secrets.token_hex(16)}'\n")
        return path

    def outside(self) -> list[int]:
        return [os.getpid(), self.server._process.pid]

    def try_(self, probe: str, limits: Limits, **more: object) -> _Result:
        process = self.server.spawn("probe", limits)
        answer = None
        with contextlib.suppress(ChannelError):
            process.channel.send({"probe": probe, "mark": self.mark, **more})
            answer = process.channel.receive(limits.deadline_s + _LATE_S)[0]
        return _Result(answer, process.end(abandon=False, timeout_s=limits.deadline_s + 10))

    def survivors(self) -> int:
        """Processes that bear this run's mark, once the last one has ended."""
        for wait_s in (0.0, 0.1, 0.5):
            time.sleep(wait_s)
            count = sum(_name_of(pid) == self.mark for pid in os.listdir("/proc") if pid.isdigit())
            if count == 0:
                return 0
        return count


def _name_of(pid: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


# --- the probes, in the order they are shown --------------------------------------------------------------


def _honest_code(bench: _Bench) -> _Finding:
    result = bench.try_("honest", Limits(deadline_s=5))
    missing = {"write", "read", "import", "thread"} - set(result.answer["done"] if result.answer else [])
    if missing:
        return _Finding(f"does not work inside: {', '.join(sorted(missing))} ({result.how()})", "")
    left = result.answer is not None and os.path.exists(result.answer["folder"])
    return _Finding("its folder was left behind" if left else "", "files, imports and threads of its own work")


def _network(bench: _Bench) -> _Finding:
    path = str(bench.elsewhere / "socket")
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unix:  # fmt: skip
        udp.bind(("127.0.0.1", 0))
        unix.bind(path)
        ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
        result = bench.try_("network", Limits(deadline_s=10), **ports, path=path)
        arrived = [name for name, listener in (("UDP", udp), ("unix", unix)) if _received(listener)]
    finding = result.refused("TCP, UDP, DNS and unix sockets refused")
    return _Finding(finding.broken or ", ".join(arrived), finding.fine)


def _received(listener: socket.socket) -> bool:
    listener.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        return bool(listener.recv(16))
    return False


def _reading_home(bench: _Bench) -> _Finding:
    if bench.in_home is None:
        result = bench.try_("read", Limits(deadline_s=5), files=[], folders=[str(bench.home)])
        return result.refused("listing refused; no file could be put there to read")
    folders = [str(bench.home), str(bench.in_home)]
    result = bench.try_("read", Limits(deadline_s=5), files=[str(bench.in_home / "canary.py")], folders=folders)
    return result.refused("reading and listing refused")


def _reading_reference(bench: _Bench) -> _Finding:
    files = [str(bench.elsewhere / "canary.py")]
    folders = [str(bench.elsewhere), str(bench.elsewhere.parent), os.getcwd(), "/"]
    result = bench.try_("read", Limits(deadline_s=5), files=files, folders=folders)
    return result.refused("task file, temporary and current folder refused")


def _other_processes(bench: _Bench) -> _Finding:
    result = bench.try_("processes", Limits(deadline_s=5), outside=bench.outside())
    return result.refused("command lines, environments and memory of processes outside are out of sight")


def _writing_outside(bench: _Bench) -> _Finding:
    canary = (bench.in_home or bench.elsewhere) / "canary.py"
    before = (canary.read_bytes(), canary.stat().st_mode, canary.stat().st_mtime_ns)
    own = {str(bench.home), str(bench.elsewhere), os.getcwd(), str(Path(__file__).parent)}
    places = own | {tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"}
    try:
        result = bench.try_("write", Limits(deadline_s=5), folders=sorted(places), canary=str(canary))
        written = [place for place in places if Path(place, bench.mark).exists()]
    finally:
        _clear(places, bench.mark)
    if not canary.exists() or before != (canary.read_bytes(), canary.stat().st_mode, canary.stat().st_mtime_ns):
        written.append("an existing file changed")
    finding = result.refused(f"{len(places)} folders and an existing file refused")
    return _Finding(finding.broken or ", ".join(written), finding.fine)


def _clear(places: set[str], mark: str) -> None:
    for place in places:
        with contextlib.suppress(OSError):
            Path(place, mark).unlink()
        with contextlib.suppress(OSError):
            Path(place, f"{mark}-folder").rmdir()


def _signalling(bench: _Bench) -> _Finding:
    with _bystander() as bystander:
        result = bench.try_("signals", Limits(deadline_s=5), outside=[*bench.outside(), bystander])
        reached = _pending(bystander)
    if result.ending.reason:
        return _Finding(f"a signal reached the monitor: {result.how()}", "")
    finding = result.refused("signals, limits, priorities and ptrace refused")
    return _Finding(finding.broken or ("a process outside got a signal sent to all" if reached else ""), finding.fine)


@contextlib.contextmanager
def _bystander() -> Iterator[int]:
    """A process outside that keeps a SIGURG pending for us to see."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})  # a child inherits the mask
    try:
        process = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _pending(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask >> (signal.SIGURG - 1) & 1 for mask in masks)


def _privileges(bench: _Bench) -> _Finding:
    result = bench.try_("privileges", Limits(deadline_s=15, allow_processes=True))
    return result.refused("namespaces, mounts, chroot, setuid and capabilities refused")


def _descriptors(bench: _Bench) -> _Finding:
    result = bench.try_("descriptors", Limits(deadline_s=5))
    found = [] if result.answer is None else [descriptor for descriptor in result.answer["open"] if descriptor > 2]
    extra = found[1:]  # the first is the control socket
    finding = result.refused("0, 1, 2 and the control socket are open, nothing else")
    return _Finding(finding.broken or ", ".join(map(str, extra)), finding.fine)


def _processes_refused(bench: _Bench) -> _Finding:
    return bench.try_("fork_refused", Limits(deadline_s=5)).refused("fork, spawn and exec refused")


def _process_bomb(bench: _Bench) -> _Finding:
    result = bench.try_("fork_bomb", Limits(deadline_s=5, allow_processes=True, processes=8))
    ended = result.ending.reason == "processes"
    return _Finding("" if ended else f"not stopped: {result.how()}", "stopped, and every process of it is gone")


def _daemon(bench: _Bench) -> _Finding:
    result = bench.try_("daemon", Limits(deadline_s=5, allow_processes=True))
    return result.refused("died with the process that started it")


def _memory_bomb(bench: _Bench) -> _Finding:
    for shared in (False, True):  # shared memory can be had only where processes are allowed
        limits = Limits(deadline_s=10, memory_bytes=_MEMORY, allow_processes=shared)
        finding = _stopped(bench.try_("memory_bomb", limits, shared=shared, limit=_MEMORY), "memory", _MEMORY)
        if finding.broken:
            break
    return finding


def _disk_bomb(bench: _Bench) -> _Finding:
    limits = Limits(deadline_s=10, disk_bytes=_DISK)
    for deleted in (False, True):
        finding = _stopped(bench.try_("disk_bomb", limits, deleted=deleted, limit=_DISK), "disk", _DISK)
        if finding.broken:
            break
    return finding


def _stopped(result: _Result, reason: str, limit: int) -> _Finding:
    """A bomb must be killed for this reason, or be refused more at about its limit."""
    if result.ending.reason == reason:
        return _Finding("", "ended by the monitor")
    if result.answer is None:
        return _Finding(f"the probe died: {result.how()}", "")
    held = result.answer["held"]
    got = f"{held >> 20} MB of {limit >> 20} MB allowed"
    return _Finding(got if held > 1.5 * limit or result.answer["done"] else "", f"refused at {got}")


def _hang(bench: _Bench) -> _Finding:
    start = time.monotonic()
    result = bench.try_("hang", Limits(deadline_s=_DEADLINE_S))
    took = time.monotonic() - start
    in_time = result.ending.reason == "deadline" and took < _DEADLINE_S + _LATE_S
    return _Finding("" if in_time else f"{result.how()} after {took:.1f} s", f"ended after {took:.1f} s")


def _flood(bench: _Bench) -> _Finding:
    result = bench.try_("flood", Limits(deadline_s=10, output_bytes=_OUTPUT), bytes=8 << 20)
    kept = len(result.ending.output.encode())
    finding = result.refused(f"{kept} bytes of 16 MB kept")
    return _Finding(finding.broken or (f"{kept} bytes kept" if kept > _OUTPUT else ""), finding.fine)


_CHECKS: dict[str, Callable[[_Bench], _Finding]] = {
    "honest code": _honest_code, "network": _network, "reading the home folder": _reading_home,
    "reading the reference": _reading_reference, "looking at other processes": _other_processes,
    "writing outside": _writing_outside, "signalling the judge": _signalling, "new privileges": _privileges,
    "inherited descriptors": _descriptors, "starting processes": _processes_refused, "process bomb": _process_bomb,
    "daemon": _daemon, "memory bomb": _memory_bomb, "disk bomb": _disk_bomb, "hang": _hang, "output flood": _flood,
}  # fmt: skip
