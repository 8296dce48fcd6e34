"""One worker process as the tuner sees it: started in a process group of its own, listened to, answered, ended.

Nothing here imports torch. Ending kills the whole group: the worker, its compilers, and what the candidate started.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from autotriton.tune.messages import RaceRequest, Request
from autotriton.tune.nursery import hire

_POLL_S = 0.5
_live: set[Session] = set()
_OUTPUT_CHARACTERS = 300


class Session:
    def __init__(self, request: Request | RaceRequest, folder: Path, worker: str) -> None:
        path = folder / "request.json"
        path.write_text(request.model_dump_json(), encoding="utf-8")
        self._log = (folder / "output.txt").open("wb")
        child_in, self._to_child = os.pipe()
        self._from_child, child_out = os.pipe()
        self._buffer = b""
        try:
            self.process = hire(
                worker, [str(path)], [child_in, child_out], self._log.fileno(), interpret=request.device != "cuda"
            )
        finally:
            os.close(child_in)
            os.close(child_out)
        _live.add(self)

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        """The worker's next event; None when it has ended or said nothing for that long."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            ended = self.process.poll() is not None
            ready, _, _ = select.select([self._from_child], [], [], 0 if ended else min(left, _POLL_S))
            if ready:
                data = os.read(self._from_child, 1 << 16)
                if not data:
                    return None
                self._buffer += data
            elif ended:  # a process it left behind may hold the pipe open
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def answer(self, left_s: float, **more: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # `next` will say that it has ended
            os.write(self._to_child, (json.dumps({"left_s": left_s, **more}) + "\n").encode())

    def end(self) -> str:
        """Ends whatever is left of it; how it ended, in words."""
        exited = self.process.wait(_POLL_S) if self.process.poll() is None else self.process.returncode
        self.kill()
        self.process.wait(10.0)  # a process inside the GPU's driver may take its time, or never end
        self._close()
        if exited is None:
            return "it did not answer any more"
        said = Path(self._log.name).read_bytes().decode(errors="replace").strip().splitlines()[-1:]
        return f"it ended with status {exited}" + (f": {said[0][:_OUTPUT_CHARACTERS]}" if said else "")

    def kill(self) -> None:
        _live.discard(self)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _close(self) -> None:
        os.close(self._to_child)
        os.close(self._from_child)
        self._log.close()


@atexit.register
def _kill_all() -> None:
    """A tuner that is interrupted in another thread leaves nothing behind."""
    for session in list(_live):
        session.kill()
