"""The parent's handles on reference processes: one per task, kept while they are used or recent, within the GPU's
memory.

Must stay true: a reference in use is never ended, and a task that needs much GPU memory waits until others have given
theirs back.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from autotriton.errors import JudgeError, TaskError
from autotriton.judge.admissions import Admissions
from autotriton.judge.channel import ChannelError
from autotriton.judge.floor import Floor, Turn
from autotriton.judge.forks import Process
from autotriton.judge.room import Room, Share
from autotriton.judge.sandbox.limits import Limits
from autotriton.types import Task

if TYPE_CHECKING:
    from autotriton.judge.processes import Processes

_OPEN_TIMEOUT_S = 600.0
_KEPT = 24
_INPUT_COPIES = 16
"""GPU memory a task takes, in sizes of its inputs, where nothing else is known of it."""
_CONTEXTS_BYTES = 3 << 30
"""The reference's and the candidate's CUDA contexts, what comparisons take, and the small cases that are kept."""
_WEIGHT_COPIES = 7
"""Of parameters and buffers, beside a run's own: two sets, both arenas, two baselines and the candidate's."""
_SHARED = 0.95
"""Of the GPU's memory: what a library takes for itself is known only when it is taken."""
Key = tuple[str, str, int, bool, int, bool]
Aside = Callable[[], AbstractContextManager[None]]


@cache
def _torch_version() -> str:
    return importlib.metadata.version("torch")


class TooLarge(Exception):
    """The task's inputs are larger than the caller wants them."""


class ReferenceClient:
    """The parent's handle on one task's reference process."""

    def __init__(self, process: Process, about: dict[str, Any], share: Share | None, floor: Floor) -> None:
        self.process, self.about, self.share, self._floor = process, about, share, floor
        self.users = 0
        self.lock = threading.RLock()
        """Held for a request, and around several by whoever has the GPU alone: never wait for it while one has that."""
        self.turns: list[Turn] = []
        """It has had the GPU alone, to choose among a baseline's configurations."""
        self._numbers = itertools.count()

    def session(self, *, timed: bool) -> tuple[int, dict[str, Any], list[int]]:
        number = next(self._numbers)
        with self.lock:
            self.process.channel.send({"do": "session", "session": number, "timed": timed})
            answer, descriptors = self._receive()
        return number, answer, descriptors

    def ask(self, do: str, session: int, **more: Any) -> dict[str, Any]:
        with self.lock:
            self.process.channel.send({"do": do, "session": session, **more})
            return self._receive()[0]

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        try:
            answer, descriptors = self.process.receive(_OPEN_TIMEOUT_S)
            while answer.get("gate") == "enter":  # it needs the GPU alone before it can go on
                with self._floor.alone(self.process) as turn:
                    self.turns.append(turn)
                    self.process.channel.send({"go": True})
                    answer, descriptors = self.process.receive(_OPEN_TIMEOUT_S)
                if answer.get("gate") == "leave":
                    self.process.channel.send({"go": True})
                    answer, descriptors = self.process.receive(_OPEN_TIMEOUT_S)
        except ChannelError as error:
            raise _died(self.process) from error
        _raise_if_error(answer)
        return answer, descriptors


class References:
    """Opens, shares and ends reference processes."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._clients: OrderedDict[Key, ReferenceClient] = OrderedDict()
        self._opening: dict[Key, threading.Lock] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._room: Room | None = None
        self._too_large: set[tuple[str, int]] = set()
        self.admissions = Admissions()

    @property
    def room(self) -> Room:
        """The GPU's memory, of which every task's share is taken."""
        with self._changed:
            if self._room is None:
                self._room = Room(_SHARED * self._processes.gpu_memory())
            return self._room

    def take(
        self,
        task: Task,
        device: str,
        *,
        seed: int,
        cases: int,
        admit: bool,
        at_most: int | None = None,
        reduced: bool = False,
        aside: Aside = nullcontext,
        whole_gpu: bool = False,
    ) -> ReferenceClient:
        """The task's reference process, in use until `give_back`.

        With `at_most`, a task whose inputs and outputs hold more elements is taken at smaller shapes (`reduced`) or
        raises TooLarge. `aside` is entered around every wait for other threads. `whole_gpu` waits until nobody else
        has memory there.
        """
        key = (task.hash, device, seed, reduced, cases, admit)
        with self._changed:
            opening = self._opening.setdefault(key, threading.Lock())
            if at_most is not None and not reduced and (task.hash, at_most) in self._too_large:
                raise TooLarge
        with aside():
            opening.acquire()
        try:
            with self._changed:
                client = self._clients.get(key)
                if client is not None:
                    self._clients.move_to_end(key)
                    client.users += 1
                    return client
            request = {
                "do": "open",
                "task": task.model_dump(mode="json"),
                "device": device,
                "seed": seed,
                "cases": cases,
                "admit": admit,
            }
            client = self._open_known(task, request, at_most, reduced, aside, whole_gpu)
            client.users = 1
            with self._changed:
                closed = self._closed
                if not closed:
                    self._clients[key] = client
            if closed:
                self._end([client])
                raise JudgeError("the judge was closed while a task was being opened")
        finally:
            opening.release()
        self._trim(_KEPT)
        return client

    def give_back(self, client: ReferenceClient) -> None:
        with self._changed:
            client.users -= 1
        self._trim(_KEPT)
        if client.share is not None:
            self.room.look_again()  # an idle reference makes room

    def forget(self, task: Task) -> None:
        """End a task's references, unless somebody uses them."""
        with self._changed:
            keys = [key for key, client in self._clients.items() if key[0] == task.hash and client.users == 0]
            clients = [self._clients.pop(key) for key in keys]
        self._end(clients)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            clients = list(self._clients.values())
            self._clients.clear()
        self._end(clients)

    def _trim(self, kept: int) -> None:
        """End the least recent ones beyond `kept`, never one in use."""
        with self._changed:
            idle = [key for key, client in self._clients.items() if client.users == 0]
            clients = [self._clients.pop(key) for key in idle[: max(0, len(self._clients) - kept)]]
        self._end(clients)

    def _end(self, clients: list[ReferenceClient]) -> None:
        for client in clients:
            client.process.end()
            if client.share is not None:
                self.room.give_back(client.share)

    def _open_known(
        self, task: Task, request: dict[str, Any], at_most: int | None, reduced: bool, aside: Aside, whole_gpu: bool
    ) -> ReferenceClient:
        """Opened, without another admission of a task that had its own before."""
        if not request["admit"]:
            return self._open(task, request, at_most, reduced, aside, whole_gpu)
        where = f"{request['device']} {at_most if reduced else 'whole'} torch {_torch_version()}"
        known = self.admissions.known(task, where)
        client = self._open(task, {**request, "admit": known is None}, at_most, reduced, aside, whole_gpu)
        if known is None:
            self.admissions.keep(task, where, client.about)
        else:
            client.about |= {"problems": list(known.problems), "notes": list(known.notes), "random": known.random}
        return client

    def _open(
        self,
        task: Task,
        request: dict[str, Any],
        at_most: int | None,
        reduced: bool,
        aside: Aside,
        whole_gpu: bool,
    ) -> ReferenceClient:
        readable = (task.import_root,) if task.import_root else ()
        gpu = request["device"] == "cuda"
        limits = Limits(
            deadline_s=24 * 3600,
            memory_bytes=64 << 30,
            devices=gpu,
            allow_processes=True,
            readable=readable,
            disk_bytes=4 << 30,
            processes=256,
        )
        server = self._processes.references_server(readable)
        start = partial(server.spawn, "reference", limits)
        process = self._processes.floor.admit(start) if gpu else start()
        share: Share | None = None
        try:
            if gpu or at_most is not None:
                size = _answer(process, {"do": "size", "task": request["task"]})
                if at_most is not None and size["elements"] is not None and size["elements"] > at_most:
                    if not reduced:
                        with self._changed:
                            self._too_large.add((task.hash, at_most))
                        raise TooLarge
                    request = {**request, "shrink": at_most}
                if gpu:
                    total = int(self.room.total)
                    with aside():
                        share = self.room.take(total if whole_gpu else gpu_bytes_of(size, total), self._make_room)
            return ReferenceClient(process, _answer(process, request), share, self._processes.floor)
        except Exception:
            process.end()
            if share is not None:
                self.room.give_back(share)
            raise

    def _make_room(self) -> bool:
        """End an idle reference; false where there is none."""
        with self._changed:
            if self._closed:
                raise JudgeError("the judge was closed while a task waited for memory")
            idle = [key for key, client in self._clients.items() if client.users == 0 and client.share is not None]
            clients = [self._clients.pop(key) for key in idle[:1]]
        self._end(clients)
        return bool(clients)


def gpu_bytes_of(size: dict[str, Any], total: int) -> int:
    """What is reserved of a GPU's memory for a task of this size.

    Its larger moments: a case's run in fp64 (twice the peak) beside the arenas, the case and an earlier answer of the
    candidate's; and the candidate's run beside the arenas, the case with its oracle and an earlier answer. An oracle
    beside a run in fp64 is needed for answers that fail only: whoever finds no memory for it is judged again with all
    of it. Two tasks of half the memory would otherwise never run side by side.
    """
    known = _known(size)
    if known is None:
        needed = gpu_bytes_needed(size)
        return total // 4 if needed is None else min(needed, total)
    inputs, outputs, peak, weights = known
    needed = max(2 * inputs + 3 * outputs + 2 * peak, inputs + 5 * outputs + peak) + _WEIGHT_COPIES * weights
    return min(needed + _CONTEXTS_BYTES, total)


def gpu_bytes_needed(size: dict[str, Any]) -> int | None:
    """What judging a task takes of a GPU at most: the bound docs/judging.md states, and the candidate's own share.

    None where the inputs' size is not known.
    """
    known = _known(size)
    if known is None:
        return None if size.get("bytes") is None else _INPUT_COPIES * int(size["bytes"]) + _CONTEXTS_BYTES
    inputs, outputs, peak, weights = known
    # Arenas and one case are twice inputs and outputs, an oracle twice the outputs; a run in fp64, which makes one, is
    # twice the reference's own peak. The candidate is given one such peak, less the inputs, which lie in the arena.
    return inputs + 4 * outputs + 3 * peak + (_WEIGHT_COPIES - 1) * weights + _CONTEXTS_BYTES


def _known(size: dict[str, Any]) -> tuple[int, int, int, int] | None:
    """Bytes of inputs, outputs, a forward pass at its peak, and weights."""
    found = [size.get(name) for name in ("bytes", "output_bytes", "peak_bytes")]
    if any(one is None for one in found):
        return None
    inputs, outputs, peak = (int(one) for one in found if one is not None)
    return inputs, outputs, peak, int(size.get("state_bytes") or 0)


def _answer(process: Process, request: dict[str, Any]) -> dict[str, Any]:
    try:
        process.channel.send(request)
        answer, _ = process.receive(_OPEN_TIMEOUT_S)
    except ChannelError as error:
        raise _died(process) from error
    _raise_if_error(answer)
    return answer


def _raise_if_error(answer: dict[str, Any]) -> None:
    if "task_error" in answer:
        raise TaskError(str(answer["task_error"]))
    if "judge_error" in answer:
        raise JudgeError(f"the reference process failed: {answer['judge_error']}")


def _died(process: Process) -> Exception:
    ending = process.end()
    if ending.reason or ending.exit_code:
        how = {"memory": "it used too much memory", "deadline": "it took too long"}.get(
            ending.reason, f"exit code {ending.exit_code}"
        )
        return TaskError(
            f"the task's own reference ended its process: {how}", hint=ending.output[-300:].strip() or None
        )
    return JudgeError("a reference process closed without a word")
