"""Launchers by argument types: what is believed of a candidate's list, and what becomes of what is built."""

from __future__ import annotations

import base64
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotriton.errors import JudgeError
from autotriton.judge.channel import Channel, ChannelError
from autotriton.judge.launchers import Launchers, known, launched_types


class Builder:
    """The building process' end of a real channel, in a thread: answers with a file named after what it was sent."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.channel, self._theirs = Channel(ours), Channel(theirs)
        self.asked: list[Any] = []
        self.ended = False
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                types = self._theirs.receive()[0]["types"]
            except (ChannelError, OSError):
                return
            self.asked.append(types)
            content = base64.b64encode(" ".join(types).encode()).decode()
            self._theirs.send({"files": {f"{len(self.asked)}/launcher.so": content}})

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def builder() -> Builder:
    return Builder()


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_what_is_asked_for_is_built_once_and_found_in_the_folder(tmp_path: Path, builder: Builder) -> None:
    folder = tmp_path / "seed"
    folder.mkdir()
    launchers = Launchers(lambda: builder, folder)  # type: ignore[arg-type, return-value]
    launchers.want([["*fp32", "i32", "constexpr"]])
    launchers.want([["*fp32", "i32", "constexpr"], ["*bf16", "fp32"]])
    wait_for(lambda: (folder / "2/launcher.so").exists())
    launchers.close()
    assert builder.asked == [["*fp32", "i32", "constexpr"], ["*bf16", "fp32"]]
    assert (folder / "1/launcher.so").read_text() == "*fp32 i32 constexpr"
    assert (folder / "1/launcher.so").stat().st_mode & 0o777 == 0o644
    assert builder.ended
    assert [path.name for path in tmp_path.iterdir()] == ["seed"]


@pytest.mark.parametrize(
    "types",
    [
        ['*fp32"; system("true")'],
        ["i32\n"],
        ["tensordesc<fp16[128, 64]>"],
        ["*fp32"] * 65,
        [3],
        [["*fp32"]],
        ["__import__"],
    ],
)
def test_nothing_but_names_of_types_is_passed_on(tmp_path: Path, builder: Builder, types: list[Any]) -> None:
    launchers = Launchers(lambda: builder, tmp_path)  # type: ignore[arg-type, return-value]
    launchers.want([types])
    launchers.close()
    assert known(types) is None
    assert builder.asked == []


def test_a_builder_that_dies_costs_the_launchers_only(tmp_path: Path, builder: Builder) -> None:
    launchers = Launchers(lambda: builder, tmp_path)  # type: ignore[arg-type, return-value]
    builder._theirs.close()
    launchers.want([["i32"]])
    wait_for(lambda: builder.ended)
    launchers.want([["i64"]])
    launchers.close()


def test_a_judge_that_is_closed_starts_no_builder(tmp_path: Path) -> None:
    def refused() -> Any:
        raise JudgeError("the judge is closed")

    launchers = Launchers(refused, tmp_path)
    launchers.want([["i32"]])
    launchers.close()
    assert list(tmp_path.iterdir()) == []


def test_types_of_a_compiled_kernel() -> None:
    metadata = SimpleNamespace(tensordesc_meta=None)
    signature = {"x": "*fp32", "n": "i32", "B": "constexpr"}
    plain = SimpleNamespace(src=SimpleNamespace(signature=signature), metadata=metadata)
    assert launched_types(plain) == ("*fp32", "i32", "constexpr")
    nested = SimpleNamespace(src=SimpleNamespace(signature={"x": ("*fp32", "i32")}), metadata=metadata)
    assert launched_types(nested) is None
    described = SimpleNamespace(src=plain.src, metadata=SimpleNamespace(tensordesc_meta=[{}]))
    assert launched_types(described) is None
    assert launched_types(object()) is None
