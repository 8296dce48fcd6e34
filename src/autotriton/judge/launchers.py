"""Triton's launchers, built once by a trusted process instead of by every candidate's.

Up to 3.6, Triton has a C compiler build a small library for every list of argument types a kernel is launched with: a
third of a second of a core, more than half of what compiling a small kernel takes. The library follows from the types
alone. So candidates say which types they launched with, a process of ours writes and builds the source for them, and
whoever comes later finds it in the copy of Triton's cache it starts with.

Must stay true: nothing a candidate says gets further than a list of type names; what it built itself is never kept.
"""

from __future__ import annotations

import base64
import inspect
import os
import queue
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from autotriton.errors import AutoTritonError
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.forks import Process

Types = tuple[str, ...]
_TYPE = re.compile(r"constexpr|\*{0,2}(?:i|u|fp|bf)\d{1,2}|\*?fp8e\d\w{1,8}")
"""Numbers and pointers to them; kernels with descriptors or tuples build their own."""
_LONGEST, _MOST = 64, 512
"""Arguments of a kernel, and launchers that are kept: every candidate starts with a copy of all of them."""
_BUILD_S = 60.0


def launched_types(kernel: Any) -> Types | None:
    """What a compiled kernel's launcher follows from, in the candidate's process; None where it is not that simple."""
    signature = getattr(getattr(kernel, "src", None), "signature", None)
    described = getattr(getattr(kernel, "metadata", None), "tensordesc_meta", None)
    if not isinstance(signature, dict) or described:
        return None
    return known(list(signature.values()))


def known(types: Sequence[Any]) -> Types | None:
    """The list as types, if it is one."""
    fits = len(types) <= _LONGEST and all(isinstance(one, str) and _TYPE.fullmatch(one) for one in types)
    return tuple(types) if fits else None


class Launchers:
    """Builds what was asked for in the background, into a folder laid out as Triton's cache."""

    def __init__(self, spawn: Callable[[], Process], folder: Path) -> None:
        self._spawn, self._folder = spawn, folder
        self._asked: set[Types] = set()
        self._wanted: queue.SimpleQueue[Types | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def want(self, lists: Iterable[Sequence[Any]]) -> None:
        """What a candidate says it launched with. Returns at once."""
        for types in filter(None, map(known, lists)):
            with self._lock:
                if self._closed or types in self._asked or len(self._asked) >= _MOST:
                    continue
                self._asked.add(types)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._build, daemon=True, name="launchers")
                    self._thread.start()
            self._wanted.put(types)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._wanted.put(None)
            thread.join(_BUILD_S)

    def _build(self) -> None:
        try:
            process = self._spawn()
        except AutoTritonError:  # the judge was closed in the meantime
            return
        try:
            while (types := self._wanted.get()) is not None and not self._closed:
                process.channel.send({"types": types})
                for name, content in process.channel.receive(_BUILD_S)[0]["files"].items():
                    self._keep(name, base64.b64decode(content))
        except ChannelError:  # no compiler, or another Triton: candidates build their own
            with self._lock:
                self._closed = True
        finally:
            process.end()

    def _keep(self, name: str, content: bytes) -> None:
        """In place at once: candidates copy the folder at any moment."""
        place = self._folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder.parent, delete=False) as file:
            file.write(content)
        os.chmod(file.name, 0o644)
        os.replace(file.name, place)


def main(control: socket.socket) -> None:
    """Role of the process that builds."""
    channel = Channel(control)
    while True:
        try:
            request, _ = channel.receive()
        except ChannelError:
            return
        channel.send({"files": {name: base64.b64encode(data).decode() for name, data in built(request["types"])}})


def built(types: Sequence[str]) -> Iterable[tuple[str, bytes]]:
    """The launcher for these types, as files of Triton's cache; nothing where this Triton builds none."""
    from triton.backends.nvidia import driver
    from triton.runtime import build

    make = getattr(driver, "make_launcher", None)
    if make is None or len(inspect.signature(make).parameters) != 3:
        return
    source = make({}, dict(enumerate(types)), None)
    before = _files()
    build.compile_module_from_src(
        src=source,
        name="__triton_launcher",
        library_dirs=driver.library_dirs(),
        include_dirs=driver.include_dirs,
        libraries=driver.libraries,
    )
    root = Path(os.environ["TRITON_CACHE_DIR"])
    for path in _files() - before:
        yield str(path.relative_to(root)), path.read_bytes()


def _files() -> set[Path]:
    return set(Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.so"))
