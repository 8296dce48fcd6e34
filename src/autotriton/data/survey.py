"""The parent's handle on a survey process: asks about draft after draft, and starts a new one when one ends."""

from __future__ import annotations

from typing import Any

from autotriton.judge.channel import ChannelError, Late
from autotriton.judge.forks import Process
from autotriton.judge.processes import Processes
from autotriton.judge.sandbox.limits import Limits

_PER_PROCESS = 200
"""Drafts one process serves: what they leave behind in it stays bounded."""
_LIFE_S = 7200.0
_MEMORY_BYTES = 6 << 30


class Taking(Exception):
    """A draft took longer than its deadline."""


class Crashed(Exception):
    """A draft ended its process."""


class Surveyor:
    """One survey process at a time. Not thread-safe: a worker has its own."""

    def __init__(self, processes: Processes, device: str = "cpu") -> None:
        self._processes, self._device = processes, device
        self._process: Process | None = None
        self._served = 0

    def ask(self, request: dict[str, Any], deadline_s: float, *, alone: bool = False) -> dict[str, Any]:
        """The answer about one draft. `alone`: a process of its own, before and after."""
        if alone or self._served >= _PER_PROCESS:
            self.close()
        process = self._ready()
        self._served += 1
        try:
            process.channel.send(request)
            answer, _ = process.channel.receive(deadline_s)
        except Late:
            self.close()
            raise Taking(f"it took longer than {deadline_s:g} s") from None
        except ChannelError:
            ending = process.end()
            self._process = None
            text = ending.output.strip().splitlines()[-1:] or [f"exit code {ending.exit_code}"]
            raise Crashed(f"{ending.reason or 'its process ended'}: {text[0][:200]}") from None
        if alone or answer.get("last"):
            self.close()
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process, self._served = None, 0

    def _ready(self) -> Process:
        if self._process is None:
            gpu = self._device == "cuda"
            limits = Limits(
                deadline_s=_LIFE_S, memory_bytes=(64 << 30) if gpu else _MEMORY_BYTES, devices=gpu, allow_processes=gpu
            )
            self._process = self._processes.server(interpret=False).spawn("survey", limits)
        return self._process
