"""The fork server: fresh sandboxed processes on demand, and nothing left when it closes."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotriton.errors import JudgeError
from autotriton.judge import forks, sandbox
from autotriton.judge.channel import ChannelError
from autotriton.judge.forks import ForkServer, Process
from autotriton.judge.sandbox.limits import Limits

QUICK = Limits(deadline_s=10)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer(sandbox.resolve("auto"), interpret=False)
    yield server
    server.close()


def ask(process: Process, probe: str) -> dict[str, object]:
    """The answer of a process that then ends by itself."""
    answer = process.channel.ask({"probe": probe, "mark": f"t-{secrets.token_hex(4)}"}, 10)
    with pytest.raises(ChannelError):
        process.channel.receive(10)
    return answer


@pytest.mark.interp
def test_a_process_answers_and_ends_well(server: ForkServer) -> None:
    process = server.spawn("probe", QUICK)
    assert ask(process, "honest")["done"] == ["write", "read", "import", "thread"]
    ending = process.end(abandon=False)
    assert (ending.reason, ending.exit_code, ending.output) == ("", 0, "")


@pytest.mark.interp
def test_end_can_be_called_again_and_says_the_same(server: ForkServer) -> None:
    process = server.spawn("probe", QUICK)
    assert process.end() is process.end(abandon=False)


@pytest.mark.interp
def test_an_abandoned_process_is_gone_at_once(server: ForkServer) -> None:
    process = server.spawn("probe", Limits(deadline_s=60))
    process.channel.send({"probe": "hang", "mark": "t-hang"})
    begin = time.monotonic()
    assert process.end().reason == "abandoned"
    assert time.monotonic() - begin < 5


@pytest.mark.interp
def test_processes_share_nothing(server: ForkServer) -> None:
    first, second = server.spawn("probe", QUICK), server.spawn("probe", QUICK)
    folders = {ask(process, "honest")["folder"] for process in (first, second)}
    assert len(folders) == 2
    for process in (first, second):
        assert process.end(abandon=False).exit_code == 0


@pytest.mark.interp
def test_an_unknown_role_ends_that_process_only(server: ForkServer) -> None:
    process = server.spawn("nobody", QUICK)
    with pytest.raises(JudgeError, match="did not report"):
        process.end(abandon=False)
    assert server.spawn("probe", QUICK).end().reason in ("", "abandoned")


@pytest.mark.interp
def test_a_process_that_ends_before_answering_is_a_channel_error(server: ForkServer) -> None:
    process = server.spawn("probe", QUICK)
    with pytest.raises(ChannelError):
        ask(process, "no such probe")
    ending = process.end(abandon=False)
    assert ending.exit_code == 70
    assert "KeyError" in ending.output


@pytest.mark.interp
def test_threads_may_spawn_at_once(server: ForkServer) -> None:
    codes: list[int] = []

    def one() -> None:
        process = server.spawn("probe", QUICK)
        ask(process, "honest")
        codes.append(process.end(abandon=False).exit_code)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 8


@pytest.mark.interp
def test_thirty_processes_leave_no_descriptor_and_no_zombie(server: ForkServer) -> None:
    def below(pid: int | str) -> list[str]:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def children() -> list[str]:
        return below(below(server._process.pid)[0] if server.kind == "bwrap" else server._process.pid)

    before = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        server.spawn("probe", QUICK).end()
    assert len(os.listdir("/proc/self/fd")) == before
    give_up = time.monotonic() + 5
    while children() and time.monotonic() < give_up:  # a monitor reports just before it ends
        time.sleep(0.02)
    assert children() == []


@pytest.mark.interp
def test_closing_the_server_ends_what_it_forked() -> None:
    server = ForkServer(sandbox.resolve("auto"), interpret=False)
    process = server.spawn("probe", Limits(deadline_s=60))
    process.channel.send({"probe": "hang", "mark": "t-closing"})
    time.sleep(0.2)
    server.close()
    assert process.end(abandon=False).reason == "abandoned"
    with pytest.raises(JudgeError, match="gone"):
        server.spawn("probe", QUICK)


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false") or "/bin/false")
    server = ForkServer("none", interpret=False)
    with pytest.raises(JudgeError, match="did not start"):
        server.spawn("probe", QUICK)
    server.close()


def test_bwrap_shows_the_runtime_read_only_and_a_private_tmp_first() -> None:
    command = forks._bwrap(["/usr/share/extra"])
    binds = [command[i + 1] for i, word in enumerate(command) if word == "--ro-bind"]
    assert "/usr" in binds
    assert str(Path.home()) not in binds
    assert command.index("--tmpfs") < command.index("--ro-bind")  # a runtime below /tmp stays visible
    assert "--proc" not in command
    assert command[-1] == "--"
