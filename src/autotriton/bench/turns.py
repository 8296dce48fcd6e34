"""Runs of one user on one GPU take turns: while one judges, another would disturb its clock, and both count on all of
the memory. Models may answer side by side; whoever judges is alone.

A lock of the operating system's: it ends with its process, however that ends. Where no such file can be made, nobody
waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from autotriton.line_cache import cache_folder

WAITING = "another run is using the GPU; waiting for it"
FOLDER = "turns"


class Turns:
    """Turns on the GPU that `lock` stands for; without one there is nobody to wait for."""

    def __init__(self, lock: Path | None = None, tell: Callable[[str], None] = lambda _: None) -> None:
        self._lock, self._tell = lock, tell

    def answering(self) -> contextlib.AbstractContextManager[None]:
        """Others may answer as well; nobody judges."""
        return self._held(fcntl.LOCK_SH)

    def judging(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else is there."""
        return self._held(fcntl.LOCK_EX)

    @contextlib.contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        descriptor = self._opened()
        if descriptor is None:
            yield
            return
        try:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self._tell(WAITING)
                fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)

    def _opened(self) -> int | None:
        if self._lock is None:
            return None
        try:
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None


def on_the_gpu(tell: Callable[[str], None]) -> Turns:
    """Of whatever this process sees as its GPU."""
    visible = re.sub(r"\W+", "-", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    return Turns(cache_folder() / FOLDER / f"gpu-{visible}.lock", tell)
