"""GPU memory, reserved before it is used: who may have how much, in which order.

Large tasks are served in their order, and a place is always kept for the next of them; small ones share the rest, and
pass each other, but nobody is passed for long. Without the kept place small tasks would push the large ones to the end,
where they run one by one; in plain order everybody would stand behind a large one that waits. Whoever needs nearly
everything comes when the others have gone, unless that takes very long: before, all of them would stand still until the
slowest one under way is done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

_LARGE = 1 / 6
"""Of all memory: from this on a task is large. Beside a large one of two thirds there is then always room for two small
ones, so that none of them has to wait until all others are gone.
"""
_NEARLY_ALL = 3 / 4
_LONG = 10
"""Patience of one who needs nearly all, as a multiple of the others'."""


class Size(IntEnum):
    SMALL = 0
    LARGE = 1
    NEARLY_ALL = 2

    @classmethod
    def of(cls, part: float) -> Size:
        return cls.NEARLY_ALL if part > _NEARLY_ALL else cls.LARGE if part > _LARGE else cls.SMALL


@dataclass(eq=False)
class Share:
    """Memory somebody has or waits for."""

    nbytes: float
    size: Size
    came: float = field(default_factory=time.monotonic)

    def waited(self, seconds: float) -> bool:
        return time.monotonic() - self.came > seconds


class Room:
    """The memory of one GPU."""

    def __init__(self, total_bytes: float, patience_s: float = 30.0) -> None:
        self.total = total_bytes
        self._patience_s = patience_s
        self._waiting: list[Share] = []
        self._held: list[Share] = []
        self._changed = threading.Condition()

    @property
    def used(self) -> float:
        with self._changed:
            return _sum(self._held)

    def take(self, nbytes: float, make_room: Callable[[], bool] = lambda: False) -> Share:
        """Waits for it; more than there is counts as all of it. `make_room` is asked to give something back, as long
        as it did; what it raises ends the wait.
        """
        wanted = min(nbytes, self.total)
        share = Share(wanted, Size.of(wanted / self.total if wanted else 0.0))
        with self._changed:
            self._waiting.append(share)
        try:
            while not self._entered(share):
                if not make_room():
                    with self._changed:
                        self._changed.wait(1.0)  # patience ends without a notice
        except BaseException:
            with self._changed:
                self._waiting.remove(share)
                self._changed.notify_all()
            raise
        return share

    def give_back(self, share: Share) -> None:
        with self._changed:
            self._held.remove(share)
            self._changed.notify_all()

    def look_again(self) -> None:
        """Those who wait may ask for room again."""
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def hold(self, nbytes: float) -> Iterator[None]:
        share = self.take(nbytes)
        try:
            yield
        finally:
            self.give_back(share)

    def _entered(self, share: Share) -> bool:
        with self._changed:
            if not self._may_go(share):
                return False
            self._waiting.remove(share)
            self._held.append(share)
            self._changed.notify_all()
            return True

    def _may_go(self, share: Share) -> bool:
        if _sum(self._held) + share.nbytes > self.total:
            return False
        alike = [other for other in self._waiting if other.size == share.size]
        if share.size is not Size.SMALL and alike[0] is not share:
            return False
        if share.size is not Size.NEARLY_ALL and self._kept_waiting():
            return False
        if share.size is not Size.SMALL:
            return True
        large = [other for other in [*self._waiting, *self._held] if other.size is Size.LARGE]
        kept = max((other.nbytes for other in large), default=0.0)
        used = _sum(other for other in self._held if other.size is Size.SMALL)
        passed = share is not alike[0] and alike[0].waited(self._patience_s)
        return not passed and used + share.nbytes <= self.total - kept

    def _kept_waiting(self) -> bool:
        """Somebody who needs nearly everything has waited long enough for the others to go."""
        return any(other.size is Size.NEARLY_ALL and other.waited(_LONG * self._patience_s) for other in self._waiting)


def _sum(shares: Iterable[Share]) -> float:
    return sum(share.nbytes for share in shares)
