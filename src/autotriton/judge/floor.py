"""Who works on the GPU: many at once, or one alone while all the others stand still.

What is timed must have the device to itself, and must not wait for its neighbours to finish: they are stopped where
they are (their monitors do it, see sandbox/pausing.py) for a short slice, and go on afterwards. What they had queued
drains meanwhile; the one who times waits until the device is quiet.
Must stay true: whoever has the floor waits for nobody but its own processes, and everybody stopped is continued.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

_OTHERS_SHARE = 0.25
"""After a slice the others work for at least this part of its length, however many wait for a slice of their own."""

_STOP_S = 1.0
"""A process in the middle of a system call may take a while to stop."""


class Member(Protocol):
    """Something that works on the GPU and can be stopped."""

    def ask_to_pause(self) -> None:
        """Begin to stop it; it may have ended already."""

    def wait_paused(self) -> None:
        """Wait until it stands still."""

    def resume(self) -> None: ...

    def over(self) -> bool:
        """It has ended for good."""


One = TypeVar("One", bound=Member)


@dataclass
class Turn:
    """What one turn alone cost: everybody else stands still for its two last parts."""

    waited_s: float = 0.0
    """For the turn itself."""
    stopping_s: float = 0.0
    """Until the others stood still."""
    alone_s: float = 0.0


class Floor:
    """Hands out the GPU, first come, first served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._members: set[Member] = set()
        self._waiting: deque[object] = deque()
        self._held = False
        self._not_before = 0.0

    def admit(self, start: Callable[[], One]) -> One:
        """Start something that will work on the GPU, when nobody has it alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held)
            member = start()
            self._members.add(member)
        return member

    def leave(self, member: Member) -> None:
        with self._changed:
            self._members.discard(member)

    @contextlib.contextmanager
    def alone(self, *own: Member) -> Iterator[Turn]:
        """The GPU for one's own processes only; the turn is known whole when it is over."""
        turn, came = Turn(), time.monotonic()
        others = self._seize(own)
        started = time.monotonic()
        turn.waited_s = started - came
        try:
            for member in others:
                member.ask_to_pause()
            for member in others:
                member.wait_paused()
            turn.stopping_s = time.monotonic() - started
            yield turn
        finally:
            turn.alone_s = time.monotonic() - started - turn.stopping_s
            for member in others:
                member.resume()
            with self._changed:
                self._held = False
                now = time.monotonic()
                self._not_before = now + _OTHERS_SHARE * (now - started) if others else now
                self._changed.notify_all()

    def _seize(self, own: tuple[Member, ...]) -> list[Member]:
        """Wait for one's turn; who has to stop."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                while self._held or self._waiting[0] is not ticket or time.monotonic() < self._not_before:
                    self._changed.wait(max(0.001, self._not_before - time.monotonic()))
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
            self._held = True
            self._members = {member for member in self._members if not member.over()}
            return [member for member in self._members if member not in own]


class Group:
    """A process group of our own making, such as a tuner's; nobody outside watches it.

    Should this process end while the group is stopped, the kernel hangs it up and continues it: that is what happens
    to stopped process groups that lose their parent.
    """

    def __init__(self, group: int) -> None:
        self._group = group

    def ask_to_pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def wait_paused(self) -> None:
        """Until its leader stands still: the kernel looks for stopped processes at the moment their parent ends."""
        deadline = time.monotonic() + _STOP_S
        while time.monotonic() < deadline and self._state() not in ("T", "Z", ""):
            time.sleep(0.0005)

    def _state(self) -> str:
        """The leader's, by the kernel's letters; empty when it is gone."""
        try:
            return Path(f"/proc/{self._group}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return ""

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def over(self) -> bool:
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._group, number)
        except OSError:
            return False
        return True
