"""Threads that parse at the same time do not spoil each other's trees."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

import autotriton.syntax as module
from autotriton.syntax import parse_expression, parse_literal, parse_source


def test_threads_parse_beside_each_other() -> None:
    source = Path(module.__file__).read_text(encoding="utf-8") * 20
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(40):
                assert parse_source(source).body
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failures.append(error)

    # A collection that runs Python code lets other threads in while a tree is built.
    gc.callbacks.append(_busy)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
        gc.callbacks.remove(_busy)
    assert failures == []


def _busy(*_: object) -> None:
    sum(range(300))


def test_what_is_read_is_what_ast_reads() -> None:
    assert parse_literal("{'a': (1, 2.5)}") == {"a": (1, 2.5)}
    assert parse_expression("a + b").__class__.__name__ == "BinOp"
    with pytest.raises(SyntaxError):
        parse_source("def (")
