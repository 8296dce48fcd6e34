"""One sandboxed process, from its monitor's point of view. No fork server: the monitor is forked from the test."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotriton.judge import sandbox
from autotriton.judge.channel import Channel
from autotriton.judge.forks import Ending, Process
from autotriton.judge.sandbox.enter import run_monitored
from autotriton.judge.sandbox.limits import Limits


@pytest.fixture(autouse=True)
def private_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests make and remove folders in the shared one while these count them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


MB = 1 << 20
SMALL = Limits(deadline_s=20, memory_bytes=96 * MB, disk_bytes=8 * MB, processes=8)
WITH_PROCESSES = Limits(deadline_s=20, memory_bytes=96 * MB, processes=8, allow_processes=True)

Main = Callable[[socket.socket], None]


def kinds() -> list[str]:
    strong = {"bwrap": ["namespaces", "landlock"], "namespaces": ["namespaces", "landlock"], "landlock": ["landlock"]}
    return [*strong.get(sandbox.detect(), []), "none"]


@pytest.fixture(params=kinds())
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def start(main: Main, limits: Limits, kind: str) -> tuple[Process, int]:
    """The process, and the pid of its monitor."""
    control, control_theirs = socket.socketpair()
    report, report_theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        control.close()
        report.close()
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # pytest's own are files that get closed
        run_monitored(main, control_theirs, report_theirs, kind, limits)
    control_theirs.close()
    report_theirs.close()
    return Process(Channel(control), report), pid


def run(main: Main, limits: Limits, kind: str, *, abandon: bool = False) -> Ending:
    process, pid = start(main, limits, kind)
    ending = process.end(abandon=abandon)
    os.waitpid(pid, 0)
    return ending


def mark_itself(name: str) -> None:
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)


def marked(name: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


def scratch_folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("autotriton-")}


def sleep(control: socket.socket) -> None:
    time.sleep(60)


def test_exit_code_and_output_are_reported(kind: str) -> None:
    def main(control: socket.socket) -> None:
        print("said", flush=True)
        os.write(2, b"complained")
        os._exit(7)

    ending = run(main, SMALL, kind)
    assert (ending.reason, ending.exit_code) == ("", 7)
    assert ending.output == "said\ncomplained"


def test_a_clean_return_is_exit_code_zero(kind: str) -> None:
    assert run(lambda control: None, SMALL, kind) == Ending("", 0, "")


def test_an_escaped_exception_is_exit_code_70_and_named(kind: str) -> None:
    def main(control: socket.socket) -> None:
        raise ValueError("odd")

    assert run(main, SMALL, kind) == Ending("", 70, "ValueError: odd\n")


def test_a_crash_is_reported_as_its_signal(kind: str) -> None:
    def main(control: socket.socket) -> None:
        ctypes.string_at(0)

    ending = run(main, SMALL, kind)
    assert (ending.reason, ending.exit_code) == ("", -signal.SIGSEGV)


def test_the_deadline_ends_a_process_that_blocks_every_signal(kind: str) -> None:
    def main(control: socket.socket) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            pass

    begin = time.monotonic()
    ending = run(main, Limits(deadline_s=0.3), kind)
    assert (ending.reason, ending.exit_code) == ("deadline", -signal.SIGKILL)
    assert 0.3 <= time.monotonic() - begin < 5


def test_private_memory_beyond_the_limit_is_refused_or_ends_it(kind: str) -> None:
    def main(control: socket.socket) -> None:
        held = []
        try:
            for _ in range(40):
                held.append(bytearray(b"x") * (8 * MB))
        except MemoryError:
            os._exit(3)
        time.sleep(2)

    ending = run(main, SMALL, kind)
    assert ending.reason == "memory" or ending.exit_code == 3


def test_shared_memory_counts_too(kind: str) -> None:
    def main(control: socket.socket) -> None:
        held = [mmap.mmap(-1, 8 * MB) for _ in range(40)]
        for block in held:
            block.write(b"x" * (8 * MB))
        time.sleep(5)

    assert run(main, WITH_PROCESSES, kind).reason == "memory"


def test_memory_of_several_processes_is_added_up(kind: str) -> None:
    def main(control: socket.socket) -> None:
        for _ in range(4):
            if os.fork() == 0:
                break
        held = bytearray(b"x") * (48 * MB)
        time.sleep(5 if held else 0)

    assert run(main, WITH_PROCESSES, kind).reason == "memory"


def test_memory_inherited_from_the_fork_server_does_not_count(kind: str) -> None:
    inherited = bytearray(b"x") * (128 * MB)

    def main(control: socket.socket) -> None:
        time.sleep(0.2)
        os._exit(inherited[5] - ord("x"))

    assert run(main, SMALL, kind) == Ending("", 0, "")


def test_too_many_processes_end_it_even_when_a_thread_forks_them(kind: str) -> None:
    name = f"t-{secrets.token_hex(4)}"

    def main(control: socket.socket) -> None:
        mark_itself(name)

        def fork() -> None:
            for _ in range(30):
                if os.fork() == 0:
                    time.sleep(60)
            time.sleep(60)

        threading.Thread(target=fork).start()
        time.sleep(60)

    assert run(main, WITH_PROCESSES, kind).reason == "processes"
    assert marked(name) == []


def test_too_many_threads_end_it(kind: str) -> None:
    def main(control: socket.socket) -> None:
        threading.stack_size(32768)
        for _ in range(1400):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        time.sleep(60)

    ending = run(main, Limits(deadline_s=20, processes=8), kind)
    assert ending.reason == "processes" or "can't start new thread" in ending.output


def test_daemons_die_with_the_process_that_started_them(kind: str) -> None:
    name = f"t-{secrets.token_hex(4)}"

    def main(control: socket.socket) -> None:
        mark_itself(name)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
        os.wait()

    assert run(main, WITH_PROCESSES, kind) == Ending("", 0, "")
    assert marked(name) == []


def test_output_is_kept_up_to_its_limit_and_the_rest_thrown_away(kind: str) -> None:
    def main(control: socket.socket) -> None:
        for _ in range(64):
            os.write(1, b"y" * 65536)

    ending = run(main, Limits(deadline_s=20, output_bytes=1000), kind)
    assert ending == Ending("", 0, "y" * 1000)


def test_files_beyond_the_limit_are_refused_or_end_it(kind: str) -> None:
    def main(control: socket.socket) -> None:
        held = []
        try:
            for number in range(20):
                held.append(open(f"file-{number}", "wb", buffering=0))  # noqa: SIM115
                held[-1].write(b"x" * (2 * MB))
                os.unlink(f"file-{number}")
        except OSError:
            os._exit(3)
        time.sleep(5)

    ending = run(main, SMALL, kind)
    assert ending.reason == "disk" or ending.exit_code == 3


def test_abandoned_processes_die_with_everything_below(kind: str) -> None:
    name = f"t-{secrets.token_hex(4)}"

    def main(control: socket.socket) -> None:
        mark_itself(name)
        os.fork()
        control.send(b"x")
        time.sleep(60)

    process, pid = start(main, WITH_PROCESSES, kind)
    process.channel.socket.recv(1)
    assert process.end().reason == "abandoned"
    os.waitpid(pid, 0)
    assert marked(name) == []


def test_when_the_fork_server_dies_the_process_and_its_folder_go_too(kind: str) -> None:
    name = f"t-{secrets.token_hex(4)}"
    before = scratch_folders()

    def main(control: socket.socket) -> None:
        mark_itself(name)
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # it would rather not die with its parent
        control.send(b"x")
        time.sleep(60)

    control, control_theirs = socket.socketpair()
    report, report_theirs = socket.socketpair()
    server = os.fork()
    if server == 0:
        if os.fork() == 0:
            run_monitored(main, control_theirs, report_theirs, kind, SMALL)
        time.sleep(60)
    control.recv(1)
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    assert b'"abandoned"' in report.recv(65536)
    for sock in (control, control_theirs, report, report_theirs):
        sock.close()
    assert marked(name) == []
    assert scratch_folders() <= before


def test_the_scratch_folder_is_private_writable_and_removed(kind: str) -> None:
    folder = tempfile.gettempdir()

    def main(control: socket.socket) -> None:
        Path("deep/er").mkdir(parents=True)
        Path("deep/er/file").write_text("x")
        print(os.getcwd(), os.environ["HOME"] == os.getcwd() == tempfile.gettempdir(), end="", flush=True)

    path, same = run(main, SMALL, kind).output.split()
    assert same == "True"
    assert path.startswith(folder)
    assert not os.path.exists(path)


def test_only_the_standard_streams_and_the_control_socket_are_open(kind: str) -> None:
    high = os.dup2(0, 900)

    def main(control: socket.socket) -> None:
        found = []
        for descriptor in range(2000):
            with contextlib.suppress(OSError):
                os.fstat(descriptor)
                found.append(descriptor)
        print(found == [0, 1, 2, control.fileno()], end="", flush=True)

    try:
        assert run(main, SMALL, kind).output == "True"
    finally:
        os.close(high)


def test_a_monitor_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(flags: int) -> None:
        raise PermissionError("unshare: not here")

    monkeypatch.setattr("autotriton.judge.sandbox.syscalls.unshare", refuse)
    ending = run(sleep, SMALL, "namespaces")
    assert ending.reason == "monitor: PermissionError: unshare: not here"


def test_thirty_processes_leave_nothing_in_the_parent(kind: str) -> None:
    folders, descriptors = scratch_folders(), sorted(os.listdir("/proc/self/fd"))
    name = f"t-{secrets.token_hex(4)}"
    for number in range(30):
        ending = run(sleep if number % 2 else lambda control: mark_itself(name), SMALL, kind, abandon=number % 2 == 1)
        assert ending.reason == ("abandoned" if number % 2 else "")
    assert sorted(os.listdir("/proc/self/fd")) == descriptors
    assert scratch_folders() <= folders
    assert marked(name) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.fixture
def outside() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_text("secret")
        path.chmod(0o600)
        yield path


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind != "none"])
def test_folders_named_readable_can_be_read_and_not_written(kind: str, outside: Path) -> None:
    def main(control: socket.socket) -> None:
        print(outside.read_text(), flush=True)
        for attempt in (
            lambda: outside.write_text("x"),
            lambda: outside.chmod(0o777),
            lambda: os.utime(outside, (1, 1)),
        ):
            with contextlib.suppress(OSError):
                attempt()
                print("changed", flush=True)

    assert run(main, Limits(deadline_s=20, readable=(str(outside.parent),)), kind).output == "secret\n"
    assert outside.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind != "none"])
def test_a_shared_library_can_be_built(kind: str) -> None:
    """Triton builds its launchers with the C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")

    def main(control: socket.socket) -> None:
        Path("source.c").write_text("int answer(void) { return 42; }")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "source.c", "-o", "answer.so"], check=True)
        print(ctypes.CDLL("./answer.so").answer(), flush=True)

    assert run(main, Limits(deadline_s=20, allow_processes=True), kind) == Ending("", 0, "42\n")


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind != "none"])
def test_programs_can_be_run_where_processes_are_allowed(kind: str) -> None:
    def main(control: socket.socket) -> None:
        answer = subprocess.run(
            [sys.executable, "-I", "-c", "print(6 * 7)"], capture_output=True, text=True, check=True
        )
        print(answer.stdout, end="", flush=True)

    assert run(main, Limits(deadline_s=20, allow_processes=True), kind).output == "42\n"


@pytest.mark.skipif("landlock" not in kinds(), reason="no landlock on this machine")
@pytest.mark.parametrize("abi", [1, 3, 5])
def test_older_kernels_confine_signals_too(monkeypatch: pytest.MonkeyPatch, abi: int) -> None:
    """Landlock learned about signals in version 6; below that the system call filter sees to it."""
    parent = os.getpid()

    def main(control: socket.socket) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: print("own signal", flush=True))
        signal.raise_signal(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        for pid in (parent, os.getppid(), -1, 0):
            with contextlib.suppress(PermissionError):
                os.kill(pid, signal.SIGURG)
                print("sent to", pid, flush=True)

    monkeypatch.setattr("autotriton.judge.sandbox.syscalls.landlock_abi", lambda: abi)
    assert run(main, SMALL, "landlock") == Ending("", 0, "own signal\nown signal\n")
