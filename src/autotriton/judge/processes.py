"""The judge's processes: fork servers, one reference per task, candidates by the dozen.

Thread-safe; everything ends with `close`. The parent that holds this never imports torch.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotriton.errors import JudgeError, PrerequisiteError, UsageError
from autotriton.judge import sandbox
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.floor import Floor
from autotriton.judge.forks import ForkServer, Process
from autotriton.judge.launchers import Launchers
from autotriton.judge.references import References
from autotriton.judge.sandbox.limits import Limits
from autotriton.machine import describe
from autotriton.types import Machine


@dataclass(frozen=True)
class Gpu:
    """What the judge must know about the device."""

    name: str
    capability: str
    memory_bytes: int
    l2_bytes: int
    processors: int
    spin_ms: float | None = None
    """How long a spin of the stopwatch takes while nobody else uses the device."""


class Processes:
    """Fork servers and references, started when first needed."""

    def __init__(self, sandbox_kind: str = "auto", *, gpu_memory_bytes: int | None = None) -> None:
        """`gpu_memory_bytes`: how much of the GPU's memory to use at once; None: all of it."""
        self.kind = sandbox.resolve(sandbox_kind)
        self._gpu_memory_bytes = gpu_memory_bytes
        self._servers: dict[tuple[bool, tuple[str, ...], bool], ForkServer] = {}
        self.references = References(self)
        self.floor = Floor()
        self._lock = threading.Lock()
        self._closed = False
        self._stuck: list[Process] = []
        self.stuck_total = 0
        self._seeding = threading.Lock()
        self._seed_folder: str | None = None
        self._launchers: Launchers | None = None
        self._gpu: Gpu | None = None
        self._gpu_known = False

    def server(self, *, interpret: bool, readable: tuple[str, ...] = (), compiles: bool = False) -> ForkServer:
        """The fork server, with folders its processes may be allowed to read, and with torch.compile where wanted.

        Under bwrap those must be in the server's own walls, so that it takes a server of its own: candidates, which
        come from the other one, never see them. Elsewhere each process has its own walls and one server does.
        """
        key = (interpret, readable if self.kind == "bwrap" else (), compiles)
        with self._lock:
            if self._closed:  # a thread that goes on while the judge ends must not start anything new
                raise JudgeError("the judge was closed while a candidate was being judged")
            if key not in self._servers:
                references = compiles or not (interpret or _gpu_files())
                self._servers[key] = ForkServer(
                    self.kind, interpret=interpret, readable=key[1], references=references, compiles=compiles
                )
            return self._servers[key]

    def references_server(self, readable: tuple[str, ...] = ()) -> ForkServer:
        """Where references come from: on a machine that can time them, with torch.compile loaded."""
        return self.server(interpret=False, readable=readable, compiles=self.gpu() is not None)

    def gpu(self) -> Gpu | None:
        """The GPU, as a throw-away process sees it; None on a machine without one."""
        if not self._gpu_known:
            if _gpu_files():
                process = self.server(interpret=False).spawn("device", Limits(devices=True, allow_processes=True))
                try:
                    answer = process.channel.receive(60)[0]
                except ChannelError:
                    answer = {}
                process.end()
                self._gpu = Gpu(**answer["gpu"]) if answer.get("gpu") else None
            self._gpu_known = True
        return self._gpu

    def gpu_memory(self) -> int:
        """Bytes that tasks may have between them; 0 without a GPU."""
        gpu = self.gpu()
        total = gpu.memory_bytes if gpu is not None else 0
        return total if self._gpu_memory_bytes is None else min(total, self._gpu_memory_bytes)

    def machine(self) -> Machine:
        """This machine, with its GPU once something has looked at it."""
        gpu = self._gpu
        more = (
            {}
            if gpu is None
            else {
                "gpu": gpu.name,
                "compute_capability": gpu.capability,
                "gpu_memory_gib": round(gpu.memory_bytes / 2**30, 1),
            }
        )
        return describe(gpu=False).model_copy(update=more)

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
                    raise JudgeError(
                        "Triton cannot start on this GPU", hint=process.end().output[-300:].strip()
                    ) from error
                process.end()
                self._seed_folder = tempfile.mkdtemp(prefix="autotriton-seed-")
                for name, content in files.items():
                    path = Path(self._seed_folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(base64.b64decode(content))
                self._launchers = Launchers(self._builder, Path(self._seed_folder))
        return self._seed_folder

    def launched(self, types: Iterable[Sequence[Any]]) -> None:
        """Lists of argument types a candidate's kernels were launched with: the next candidate finds them built."""
        if self._launchers is not None:
            self._launchers.want(types)

    def _builder(self) -> Process:
        limits = Limits(deadline_s=24 * 3600, allow_processes=True)
        return self.server(interpret=False).spawn("launchers", limits)

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

    def close(self) -> None:
        """End everything. What other threads start in the meantime ends too, or is refused."""
        with self._lock:
            self._closed = True
            servers = list(self._servers.values())
            self._servers.clear()
        if self._launchers is not None:
            self._launchers.close()
        self.references.close()
        for server in servers:
            server.close()
        if self._seed_folder is not None:
            shutil.rmtree(self._seed_folder, ignore_errors=True)


def _gpu_files() -> bool:
    """Whether it is worth looking for a GPU."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()


def device_main(control: Any) -> None:
    """Role of the throw-away process that looks at the GPU, before anything of ours runs there."""
    import torch

    from autotriton.idle import spin_ms

    found = None
    if torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        found = {
            "name": p.name,
            "capability": f"{p.major}.{p.minor}",
            "memory_bytes": p.total_memory,
            "l2_bytes": getattr(p, "L2_cache_size", 0) or 64 << 20,
            "processors": p.multi_processor_count,
            "spin_ms": spin_ms(),
        }
    Channel(control).send({"gpu": found})


def seed_main(control: Any) -> None:
    """Role of the process that makes Triton build its GPU helper library, and sends it home."""
    import os

    import torch
    from triton.runtime import driver

    torch.cuda.init()  # type: ignore[no-untyped-call]
    driver.active.get_current_device()
    root = Path(os.environ["TRITON_CACHE_DIR"])
    files = {
        str(path.relative_to(root)): base64.b64encode(path.read_bytes()).decode()
        for path in root.rglob("*")
        if path.is_file()
    }
    Channel(control).send({"files": files})
