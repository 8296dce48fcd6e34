"""An event loop in a thread, for requests that run while the caller judges what has already come.

Must stay true: leaving the `with` block cancels what is still under way, so that a caller who stops (Ctrl-C, its budget
is spent) neither waits for a slow server nor keeps it busy. A thread, since the caller may have a running loop itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
_PATIENCE_S = 5.0


class Background:
    """`with Background() as background: future = background.submit(coroutine)`."""

    def __enter__(self) -> Background:
        self._last: Callable[[], Awaitable[Any]] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="autotriton-requests", daemon=True)
        self._thread.start()
        return self

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def at_end(self, last: Callable[[], Awaitable[Any]]) -> None:
        """What to do once everything is done or cancelled: close the client."""
        self._last = last

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        # Should something ignore its cancellation: the thread is a daemon and ends with the program.
        with contextlib.suppress(TimeoutError):
            self.submit(self._finish()).result(_PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _finish(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._last is not None:
            await self._last()
