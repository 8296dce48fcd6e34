"""Who gets GPU memory, and in which order."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import pytest

from autotriton.judge.room import Room


class Visitors:
    """Threads that hold a part of a room of ten until they are told to leave it."""

    def __init__(self, patience_s: float = 60.0) -> None:
        self.room, self.entered, self._told = Room(10.0, patience_s), [], {}

    def come(self, name: str, wanted: float) -> None:
        told = self._told[name] = threading.Event()

        def visit() -> None:
            with self.room.hold(wanted):
                self.entered.append(name)
                told.wait(10)

        threading.Thread(target=visit, daemon=True).start()
        self._settle(lambda: len(self.entered) + len(self.room._waiting) == len(self._told))

    def leave(self, name: str) -> None:
        before = self.room.used
        self._told[name].set()
        self._settle(lambda: self.room.used != before or not self.room._waiting)

    def _settle(self, reached: Callable[[], bool]) -> None:
        """On a busy machine threads take their time; those who may go have gone a moment later."""
        deadline = time.monotonic() + 10
        while not reached() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.1)


def test_large_ones_follow_each_other_and_small_ones_share_the_rest():
    visitors = Visitors()
    for name, wanted in (("large", 6.0), ("second large", 7.0), ("small", 1.5), ("too much", 1.6), ("tiny", 1.0)):
        visitors.come(name, wanted)
    assert visitors.entered == ["large", "small", "tiny"]  # three are left beside the second large one
    visitors.leave("large")
    assert visitors.entered[3:] == ["second large"]
    visitors.leave("second large")
    assert visitors.entered[4:] == ["too much"]


def test_a_small_one_is_not_passed_for_long():
    visitors = Visitors(patience_s=0.0)
    for name in "abcdef":
        visitors.come(name, 1.6)
    visitors.come("one more", 1.6)
    visitors.come("tiny", 0.2)
    assert visitors.entered == list("abcdef")
    visitors.leave("a")
    assert visitors.entered[6:] == ["one more", "tiny"]


def test_one_who_needs_nearly_all_comes_when_the_others_have_gone():
    visitors = Visitors()
    for name, wanted in (("small", 1.0), ("all", 9.8), ("large", 4.0), ("tiny", 0.5)):
        visitors.come(name, wanted)
    assert visitors.entered == ["small", "large", "tiny"]
    for name in ("small", "large", "tiny"):
        visitors.leave(name)
    assert visitors.entered[3:] == ["all"]


def test_one_who_needs_nearly_all_does_not_wait_for_ever():
    visitors = Visitors(patience_s=0.0)
    for name, wanted in (("small", 1.0), ("all", 9.8), ("large", 4.0), ("tiny", 0.5)):
        visitors.come(name, wanted)
    assert visitors.entered == ["small"]
    visitors.leave("small")
    assert visitors.entered == ["small", "all"]


def test_nobody_gets_more_than_there_is():
    visitors = Visitors()
    visitors.come("all", 99.0)
    visitors.come("small", 1.0)
    assert visitors.entered == ["all"]
    visitors.leave("all")
    assert visitors.entered == ["all", "small"]
    with Room(math.inf).hold(0.0):
        pass


def test_somebody_idle_is_asked_to_make_room():
    room = Room(10.0)
    idle = [room.take(6.0), room.take(3.0)]

    def make_room() -> bool:
        if idle:
            room.give_back(idle.pop(0))
            return True
        return False

    assert room.take(5.0, make_room).nbytes == 5.0
    assert len(idle) == 1
    assert room.used == 8.0


def test_who_gives_up_waiting_is_in_nobodys_way():
    room = Room(10.0)
    first = room.take(8.0)

    def give_up() -> bool:
        raise KeyError("closed")

    with pytest.raises(KeyError):
        room.take(9.0, give_up)
    room.give_back(first)
    assert room.take(7.0).nbytes == 7.0
