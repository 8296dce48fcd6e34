"""The judge's processes: fork servers, one reference per task, candidates by the dozen.

Thread-safe; everything ends with `close`. The parent that holds this never imports torch.
"""

from __future__ import annotations

import base64
import itertools
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotriton.errors import JudgeError, PrerequisiteError, TaskError, UsageError
from autotriton.judge import sandbox
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.forks import ForkServer, Process
from autotriton.judge.sandbox.limits import Limits
from autotriton.types import Task

_OPEN_TIMEOUT_S = 600.0
_REFERENCES_KEPT = 24


class TooLarge(Exception):
    """The task's inputs are larger than the caller wants them."""


@dataclass(frozen=True)
class Gpu:
    """What the judge must know about the device."""

    name: str
    capability: str
    memory_bytes: int
    l2_bytes: int
    processors: int


class ReferenceClient:
    """The parent's handle on one task's reference process."""

    def __init__(self, process: Process, about: dict[str, Any]) -> None:
        self.process, self.about = process, about
        self.lock = threading.Lock()
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
            answer, descriptors = self.process.channel.receive(_OPEN_TIMEOUT_S)
        except ChannelError as error:
            raise _reference_died(self.process) from error
        _raise_if_error(answer)
        return answer, descriptors


class Processes:
    """Fork servers and references, started when first needed."""

    def __init__(self, sandbox_kind: str = "auto", readable: tuple[str, ...] = ()) -> None:
        self.kind = sandbox.resolve(sandbox_kind)
        self._readable = readable
        self._servers: dict[bool, ForkServer] = {}
        self._references: OrderedDict[tuple[str, str, int], ReferenceClient] = OrderedDict()
        self._opening: dict[tuple[str, str, int], threading.Lock] = {}
        self._lock = threading.Lock()
        self._too_large: set[str] = set()
        self._stuck: list[Process] = []
        self.stuck_total = 0
        self._seeding = threading.Lock()
        self._seed_folder: str | None = None
        self._gpu: Gpu | None = None
        self._gpu_known = False

    def server(self, *, interpret: bool) -> ForkServer:
        with self._lock:
            if interpret not in self._servers:
                self._servers[interpret] = ForkServer(self.kind, interpret=interpret, readable=self._readable)
            return self._servers[interpret]

    def gpu(self) -> Gpu | None:
        """The GPU, as a throw-away process sees it; None on a machine without one."""
        if not self._gpu_known:
            if any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists():
                process = self.server(interpret=False).spawn("device", Limits(devices=True, allow_processes=True))
                try:
                    answer = process.channel.receive(60)[0]
                except ChannelError:
                    answer = {}
                process.end()
                self._gpu = Gpu(**answer["gpu"]) if answer.get("gpu") else None
            self._gpu_known = True
        return self._gpu

    def triton_seed(self) -> str | None:
        """Triton's own GPU helper library, built once by a trusted process instead of by every candidate's."""
        if self.gpu() is None:
            return None
        with self._seeding:
            if self._seed_folder is None:
                process = self.server(interpret=False).spawn("seed", Limits(devices=True, allow_processes=True))
                try:
                    files = process.channel.receive(120)[0]["files"]
                except ChannelError as error:
                    raise JudgeError("Triton cannot start on this GPU", hint=process.end().output[-300:].strip()) from error
                process.end()
                self._seed_folder = tempfile.mkdtemp(prefix="autotriton-seed-")
                for name, content in files.items():
                    path = Path(self._seed_folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(base64.b64decode(content))
        return self._seed_folder

    def device(self, wanted: str) -> str:
        """cpu or cuda, for `auto`, `cpu` or `cuda`."""
        if wanted not in ("auto", "cpu", "cuda"):
            raise UsageError(f"unknown device {wanted!r}", hint="known: auto, cpu, cuda")
        if wanted == "cpu":
            return "cpu"
        if self.gpu() is not None:
            return "cuda"
        if wanted == "cuda":
            raise PrerequisiteError("no CUDA device found", hint="run `autotriton doctor`, or use --device cpu")
        return "cpu"

    def reference(self, task: Task, device: str, *, seed: int, cases: int, admit: bool, at_most: int | None = None) -> ReferenceClient:
        """The task's reference process, started once and kept while it is among the most recent.

        With `at_most`, a task whose inputs hold more elements raises TooLarge instead.
        """
        key = (task.hash, device, seed)
        with self._lock:
            opening = self._opening.setdefault(key, threading.Lock())
        with opening:
            with self._lock:
                if key in self._references:
                    self._references.move_to_end(key)
                    return self._references[key]
            if at_most is not None and task.hash in self._too_large:
                raise TooLarge
            try:
                client = self._open(task, device, seed, cases, admit, at_most)
            except TooLarge:
                self._too_large.add(task.hash)
                raise
            with self._lock:
                self._references[key] = client
                stale = [self._references.popitem(last=False)[1] for _ in range(len(self._references) - _REFERENCES_KEPT)]
        for old in stale:
            old.process.end()
        return client

    def _open(self, task: Task, device: str, seed: int, cases: int, admit: bool, at_most: int | None) -> ReferenceClient:
        readable = (task.import_root,) if task.import_root else ()
        limits = Limits(deadline_s=24 * 3600, memory_bytes=64 << 30, devices=device == "cuda", allow_processes=True,
                        readable=readable, disk_bytes=4 << 30)  # fmt: skip
        process = self.server(interpret=False).spawn("reference", limits)
        request = {"do": "open", "task": task.model_dump(mode="json"), "device": device, "seed": seed, "cases": cases, "admit": admit, "at_most": at_most}  # fmt: skip
        try:
            process.channel.send(request)
            about = process.channel.receive(_OPEN_TIMEOUT_S)[0]
        except ChannelError as error:
            raise _reference_died(process) from error
        try:
            _raise_if_error(about)
            if about.get("too_large"):
                raise TooLarge
        except Exception:
            process.end()
            raise
        return ReferenceClient(process, about)

    def note_stuck(self, process: Process) -> None:
        """A process the driver will not let go of; its neighbours may have been late because of it."""
        with self._lock:
            self.stuck_total += 1
            self._stuck.append(process)

    def stuck(self) -> int:
        """How many are stuck right now."""
        with self._lock:
            self._stuck = [process for process in self._stuck if not process.gone(0.01)]
            return len(self._stuck)

    def wait_until_free(self, timeout_s: float = 600.0) -> None:
        deadline = time.monotonic() + timeout_s
        while self.stuck() and time.monotonic() < deadline:
            time.sleep(0.5)

    def forget(self, task: Task) -> None:
        """End a task's references and give their memory back."""
        self._end([key for key in list(self._references) if key[0] == task.hash])

    def forget_all(self) -> None:
        self._end(list(self._references))

    def _end(self, keys: list[tuple[str, str, int]]) -> None:
        with self._lock:
            clients = [self._references.pop(key) for key in keys if key in self._references]
        for client in clients:
            client.process.end()

    def close(self) -> None:
        self.forget_all()
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        if self._seed_folder is not None:
            shutil.rmtree(self._seed_folder, ignore_errors=True)


def _raise_if_error(answer: dict[str, Any]) -> None:
    if "task_error" in answer:
        raise TaskError(str(answer["task_error"]))
    if "judge_error" in answer:
        raise JudgeError(f"the reference process failed: {answer['judge_error']}")


def _reference_died(process: Process) -> Exception:
    ending = process.end()
    if ending.reason or ending.exit_code:
        how = {"memory": "it used too much memory", "deadline": "it took too long"}.get(ending.reason, f"exit code {ending.exit_code}")
        return TaskError(f"the task's own reference ended its process: {how}", hint=ending.output[-300:].strip() or None)
    return JudgeError("a reference process closed without a word")


def device_main(control: Any) -> None:
    """Role of the throw-away process that looks at the GPU."""
    import torch

    found = None
    if torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        found = {"name": p.name, "capability": f"{p.major}.{p.minor}", "memory_bytes": p.total_memory,
                 "l2_bytes": getattr(p, "L2_cache_size", 0) or 64 << 20, "processors": p.multi_processor_count}  # fmt: skip
    Channel(control).send({"gpu": found})


def seed_main(control: Any) -> None:
    """Role of the process that makes Triton build its GPU helper library, and sends it home."""
    import os

    import torch
    from triton.runtime import driver

    torch.cuda.init()
    driver.active.get_current_device()
    root = Path(os.environ["TRITON_CACHE_DIR"])
    files = {str(path.relative_to(root)): base64.b64encode(path.read_bytes()).decode() for path in root.rglob("*") if path.is_file()}
    Channel(control).send({"files": files})
