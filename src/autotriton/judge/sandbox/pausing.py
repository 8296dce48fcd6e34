"""Stopping and continuing an inmate from its monitor, when the judge wants the GPU for somebody else.

Two words from the parent over the report socket: `PAUSE`, answered with `STOPPED` once everything below the monitor
stands still, and `RESUME`. What is stopped loses no time of its deadline. Nothing stays stopped for good: the monitor
itself never stops, and when the parent goes away it ends its inmate, which SIGKILL does to a stopped process as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

PAUSE, RESUME, STOPPED = b"P", b"R", b"+"
_PATIENCE_S = 0.05
"""For a process inside a system call: it stops when it comes out of it, and enqueues nothing meanwhile."""


class Pauses:
    """The monitor's side."""

    def __init__(self, family: Callable[[], list[int]]) -> None:
        self._family = family
        self._since: float | None = None
        self._past_s = 0.0

    def lost_s(self) -> float:
        """Time the inmate has stood still so far."""
        return self._past_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def obey(self, report: socket.socket) -> bool:
        """Do what the parent asks; false when it has hung up instead."""
        try:
            words = report.recv(64)
        except OSError:
            return False
        for number in words:
            if number == PAUSE[0]:
                self._pause()
                with contextlib.suppress(OSError):
                    report.send(STOPPED)
            elif number == RESUME[0]:
                self._resume()
        return bool(words)

    def _pause(self) -> None:
        """Stop everything, again and again until nothing moves: a process may fork while its siblings are stopped."""
        self._since = self._since if self._since is not None else time.monotonic()
        until = time.monotonic() + _PATIENCE_S
        while True:
            moving = [pid for pid in self._family() if _moves(pid)]
            for pid in moving:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            if not moving or time.monotonic() > until:
                return
            time.sleep(0.0005)

    def _resume(self) -> None:
        if self._since is None:
            return
        self._past_s += time.monotonic() - self._since
        self._since = None
        for pid in self._family():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)


def _moves(pid: int) -> bool:
    """Neither stopped nor dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"T", b"t", b"Z", b"X")
    except (OSError, IndexError):
        return False
