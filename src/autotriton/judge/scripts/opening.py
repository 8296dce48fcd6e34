"""A gold's trusted process, started as often as it takes: a fault on a GPU ends the process it happens in.

The parent's side. Which call was fatal is known here, and the next process is told to take more care with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from autotriton.errors import TaskError
from autotriton.judge.channel import ChannelError
from autotriton.judge.floor import Floor
from autotriton.judge.forks import Process
from autotriton.judge.processes import Processes
from autotriton.judge.references import ReferenceClient, _died, _raise_if_error
from autotriton.judge.sandbox.limits import Limits
from autotriton.types import Task

_GOLD_RUNS = 8
"""How often the gold is run for the answers to one call, and two to spare."""
_OPENINGS = 5
"""How often a gold's process is started anew after a call has cost it its device, before no call is repeated."""


class Faulted(TaskError):
    """The gold's process has ended, or lost its device, over something the gold did: another one may be started."""


class ScriptClient(ReferenceClient):
    """The parent's handle on one gold file's process."""

    def __init__(self, process: Process, about: dict[str, Any], timeout_s: float, floor: Floor) -> None:
        super().__init__(process, about, None, floor)
        self.timeout_s = timeout_s
        self.notes: list[str] = []
        """What every candidate of this gold should know of it."""

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        return _received(self.process, self.timeout_s)

    def session(self, *, timed: bool) -> tuple[int, dict[str, Any], list[int]]:
        with _faults():
            return super().session(timed=timed)

    def ask(self, do: str, session: int, **more: Any) -> dict[str, Any]:
        with _faults():
            return super().ask(do, session, **more)

    def truth(self, number: int) -> bool:
        """Let it find the answers to a call; whether the gold writes past the end of a tensor there."""
        return bool(self.ask("truth", -1, call=number)["strays"])

    def leave(self, session: int) -> None:
        """End a session. A process that cannot do that is of no use to anybody."""
        try:
            self.ask("close", session)
        except TaskError as error:
            raise Faulted(str(error)) from error


@contextmanager
def _faults() -> Iterator[None]:
    """A process that is gone, perhaps ended by another candidate's thread, is one that may be started anew."""
    try:
        yield
    except ChannelError as error:
        raise Faulted(f"the gold's process is gone: {error}") from error


@dataclass(frozen=True)
class Care:
    """How a gold is repeated, from what earlier processes of it came to."""

    quiet: tuple[int, ...] = ()
    """Calls whose fresh memory, and what lies behind their inputs, holds zeros instead of poison."""
    left_out: tuple[int, ...] = ()
    """Calls that are not repeated at all."""

    def after(self, fault: int, calls: list[dict[str, Any]]) -> Care:
        """First zeros, for all calls of the same function; then without the call."""
        if fault not in self.quiet:
            alike = (n for n, call in enumerate(calls) if call["path"] == calls[fault]["path"])
            return replace(self, quiet=(*self.quiet, *alike))
        return replace(self, left_out=(*self.left_out, fault))

    def notes(self, calls: list[dict[str, Any]]) -> list[str]:
        names = sorted({calls[number]["path"].lstrip(".") for number in self.quiet})
        if not names:
            return []
        text = f"the gold reads memory it was not given in `{'`, `'.join(names)}`"
        return [f"{text}: zeros lie there for gold and candidate alike"]


def open_reference(
    processes: Processes, task: Task, device: str, *, seed: int, timeout_s: float, settles: bool = True
) -> ScriptClient:
    """The gold's process, with its test run and the answers to its calls known.

    A fault on the device ends the process it happens in, so that the next one is told to take more care. Raises
    TaskError where the gold does not work here. `settles`: it may be run again before a candidate is found wrong.
    """
    care = Care()
    for opening in range(_OPENINGS + 1):
        client = _opened(processes, task, device, care, seed=seed, timeout_s=timeout_s, settles=settles)
        calls = client.about["calls"]
        try:
            fault = _first_fault(client, calls)
        except Exception:
            client.process.end()
            raise
        if fault is None:
            client.notes += care.notes(calls)
            return client
        client.process.end()
        everything = tuple(range(len(calls)))
        care = care.after(fault, calls) if opening < _OPENINGS - 1 else replace(care, left_out=everything)
    raise TaskError("the gold's process ends whatever is done with it")


def _first_fault(client: ScriptClient, calls: list[dict[str, Any]]) -> int | None:
    """The call in whose repetition the process is lost."""
    straying = []
    for number in range(len(calls)):
        try:
            if client.truth(number):
                straying.append(number + 1)
        except Faulted:
            return number
    if straying:
        text = f"the gold writes past the end of a tensor in call {', '.join(map(str, straying))}"
        client.notes.append(f"{text}: that is not held against a candidate there")
    return None


def _opened(
    processes: Processes, task: Task, device: str, care: Care, *, seed: int, timeout_s: float, settles: bool
) -> ScriptClient:
    limits = Limits(
        deadline_s=24 * 3600,
        memory_bytes=(16 if device == "cpu" else 64) << 30,
        devices=device == "cuda",
        allow_processes=True,
        disk_bytes=4 << 30,
        processes=256,
        triton_seed=processes.triton_seed() if device == "cuda" else None,
    )
    start = partial(processes.server(interpret=device == "cpu").spawn, "script-reference", limits)
    process = processes.floor.admit(start) if device == "cuda" else start()
    try:
        about = {"source": task.source, "name": task.id, "device": device, "seed": seed}
        process.channel.send({"do": "open", **about, "settles": settles, **asdict(care)})
        about, _ = _received(process, timeout_s)
    except Exception:
        process.end()
        raise
    return ScriptClient(process, about, _GOLD_RUNS * timeout_s, processes.floor)


def _received(process: Process, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
    try:
        answer, descriptors = process.channel.receive(timeout_s)
    except ChannelError as error:
        if "in time" in str(error):
            process.end()
            raise TaskError(f"the gold file takes longer than {timeout_s:g} s here") from error
        raise Faulted(str(_died(process))) from error
    if "fault" in answer:
        raise Faulted(f"the gold lost its device: {answer['fault']}")
    _raise_if_error(answer)
    return answer, descriptors
