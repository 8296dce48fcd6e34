"""Who has the GPU: the others stand still meanwhile, lose no time by it, and are continued whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotriton.judge.channel import Late
from autotriton.judge.floor import Floor, Group
from autotriton.judge.forks import ForkServer, Process
from autotriton.judge.sandbox.limits import Limits

WAIT_S = 10.0


def eventually(claim: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_S
    while not claim() and time.monotonic() < deadline:
        time.sleep(0.01)
    return claim()


class Pretender:
    """Writes down what is asked of it."""

    def __init__(self, name: str, log: list[str], ended: bool = False) -> None:
        self.name, self.log, self.ended = name, log, ended

    def ask_to_pause(self) -> None:
        self.log.append(f"pause {self.name}")

    def wait_paused(self) -> None:
        self.log.append(f"wait {self.name}")

    def resume(self) -> None:
        self.log.append(f"resume {self.name}")

    def over(self) -> bool:
        return self.ended


# --- turns ------------------------------------------------------------------------------------------------


def test_the_others_stop_and_go_on_and_ones_own_do_not() -> None:
    floor, log = Floor(), []
    own = floor.admit(lambda: Pretender("own", log))
    floor.admit(lambda: Pretender("other", log))
    floor.admit(lambda: Pretender("dead", log, ended=True))
    with floor.alone(own):
        assert log == ["pause other", "wait other"]
    assert log == ["pause other", "wait other", "resume other"]


def test_a_turn_says_what_it_cost() -> None:
    floor = Floor()
    with floor.alone() as first:
        assert first.alone_s == 0.0, "it is not over"
        time.sleep(0.05)
    assert first.waited_s < 0.05 <= first.alone_s
    release, took = threading.Event(), []

    def hold() -> None:
        with floor.alone():
            release.wait(10)

    def come() -> None:
        with floor.alone() as turn:
            pass
        took.append(turn)

    holding, waiting = threading.Thread(target=hold), threading.Thread(target=come)
    holding.start()
    waiting.start()
    time.sleep(0.1)
    release.set()
    waiting.join(10)
    holding.join(10)
    assert took[0].waited_s >= 0.05 > took[0].alone_s


def test_everybody_is_continued_when_the_work_raises() -> None:
    floor, log = Floor(), []
    floor.admit(lambda: Pretender("other", log))
    with pytest.raises(ZeroDivisionError), floor.alone():
        raise ZeroDivisionError
    assert log[-1] == "resume other"
    with floor.alone():
        assert log[-1] == "wait other"


def test_one_at_a_time_in_the_order_of_asking_and_nobody_starts_meanwhile() -> None:
    floor, log = Floor(), []
    release = threading.Event()

    def first() -> None:
        with floor.alone():
            log.append("first in")
            release.wait(WAIT_S)
            log.append("first out")

    def later(name: str) -> None:
        with floor.alone():
            log.append(name)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert eventually(lambda: log == ["first in"])
    for name in ("second", "third"):
        waiting = len(floor._waiting)
        threads.append(threading.Thread(target=later, args=(name,)))
        threads[-1].start()
        assert eventually(lambda count=waiting: len(floor._waiting) == count + 1)  # type: ignore[misc]
    threads.append(threading.Thread(target=lambda: floor.admit(lambda: log.append("started") or Pretender("new", []))))
    threads[-1].start()
    time.sleep(0.05)
    assert log == ["first in"]
    release.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert [entry for entry in log if entry != "started"] == ["first in", "first out", "second", "third"]
    assert "started" in log


# --- real processes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer("namespaces", interpret=False)
    yield server
    server.close()


def endless(server: ForkServer, **limits: float) -> tuple[Process, int]:
    """A process that works for ever with every signal blocked, and its pid."""
    before = family_of(server._process.pid)
    process = server.spawn("probe", Limits(allow_processes=True, **limits))  # type: ignore[arg-type]
    process.channel.send({"probe": "hang", "mark": "endless"})
    inmate: list[int] = []

    def at_work() -> bool:
        inmate[:] = [pid for pid in family_of(server._process.pid) - before if ticks(pid) > 2]
        return len(inmate) == 1

    assert eventually(at_work)
    return process, inmate[0]


def family_of(pid: int) -> set[int]:
    """Everything below a process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def ticks(pid: int) -> int:
    """Processor time used, in hundredths of a second."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


@pytest.mark.interp
def test_a_paused_process_stands_still_and_goes_on(server: ForkServer) -> None:
    process, pid = endless(server)
    process.ask_to_pause()
    process.wait_paused()
    used = ticks(pid)
    time.sleep(0.3)
    assert ticks(pid) == used
    process.resume()
    assert eventually(lambda: ticks(pid) > used + 2)
    assert process.end().reason == "abandoned"


@pytest.mark.interp
def test_time_in_which_it_was_stopped_is_not_its_own(server: ForkServer) -> None:
    process, pid = endless(server, deadline_s=2.0)
    before = process.clock()
    process.ask_to_pause()
    process.wait_paused()
    time.sleep(2.5)  # beyond its deadline
    assert process.clock() - before < 1.0
    used = ticks(pid)
    process.resume()
    assert eventually(lambda: ticks(pid) > used + 2)  # alive and at work
    assert process.end(abandon=False).reason == "deadline"


@pytest.mark.interp
def test_waiting_for_an_answer_does_not_count_pauses(server: ForkServer) -> None:
    process = server.spawn("probe", Limits(allow_processes=True))
    process.ask_to_pause()
    process.wait_paused()
    process.channel.send({"probe": "honest", "mark": "late"})
    with pytest.raises(Late):
        process.channel.receive(0.1)
    threading.Timer(1.5, process.resume).start()
    assert process.receive(1.0)[0]["done"]
    process.end()


@pytest.mark.interp
def test_a_stopped_process_can_be_ended(server: ForkServer) -> None:
    process, pid = endless(server)
    process.ask_to_pause()
    process.wait_paused()
    assert process.end().reason == "abandoned"
    assert not Path(f"/proc/{pid}").exists()
    process.resume()
    process.wait_paused()
    assert process.over()


@pytest.mark.interp
def test_pausing_again_and_again_loses_no_word(server: ForkServer) -> None:
    process, pid = endless(server)
    for _ in range(20):
        process.ask_to_pause()
        process.wait_paused()
        used = ticks(pid)
        process.resume()
    assert process._acknowledged == 20
    assert eventually(lambda: ticks(pid) > used + 2)
    assert process.end().reason == "abandoned"


PARENT = """
import sys, time
from autotriton.judge.forks import ForkServer
from autotriton.judge.sandbox.limits import Limits

server = ForkServer("namespaces", interpret=False)
process = server.spawn("probe", Limits(allow_processes=True))
process.channel.send({"probe": "hang", "mark": "endless"})
time.sleep(0.5)
process.ask_to_pause()
process.wait_paused()
print("paused", flush=True)
time.sleep(60)
"""
CHILD = "import time\nprint('up', flush=True)\ntime.sleep(60)"
GROUP = f"""
import subprocess, sys, time
from autotriton.judge.floor import Group

child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], process_group=0, stdout=subprocess.PIPE)
child.stdout.readline()
group = Group(child.pid)
group.ask_to_pause()
group.wait_paused()
print("paused", child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.interp
def test_a_judge_that_is_killed_leaves_nothing_stopped_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().strip() == "paused"
        family = family_of(parent.pid)
        assert len(family) >= 3  # fork server, monitor, inmate
        parent.kill()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))


def test_a_group_is_stopped_and_continued_and_knows_when_it_is_over() -> None:
    ticks = "import time\nwhile True:\n    print('x', flush=True)\n    time.sleep(0.005)"
    with subprocess.Popen([sys.executable, "-c", ticks], process_group=0, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        group = Group(child.pid)
        group.ask_to_pause()
        state = Path(f"/proc/{child.pid}/stat")
        assert eventually(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
        group.resume()
        assert eventually(lambda: state.read_text().rpartition(")")[2].split()[0] != "T")
        assert not group.over()
        child.kill()
    assert group.over()


def test_a_stopped_group_goes_on_when_the_one_who_stopped_it_ends() -> None:
    """It is hung up and continued: one that ignores hangups, as under nohup, has to notice by itself."""
    with subprocess.Popen(
        [sys.executable, "-c", GROUP], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        word, pid = parent.stdout.readline().split()
        assert (word, _state(pid)) == ("paused", "T")
        parent.kill()
    try:
        assert eventually(lambda: _state(pid) != "T")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _state(pid: str) -> str:
    """By the kernel's letters; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
