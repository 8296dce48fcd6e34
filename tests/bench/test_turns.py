"""Runs on one GPU take turns."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from autotriton.bench.turns import WAITING, Turns

_HOLDER = """
import sys
from pathlib import Path
from autotriton.bench.turns import Turns
with getattr(Turns(Path(sys.argv[1])), sys.argv[2])():
    print("have it", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """Starts another process that has a turn, until the test or the test's `kill` ends it."""
    started = []

    def start(kind):
        command = [sys.executable, "-c", _HOLDER, str(tmp_path / "turns" / "gpu.lock"), kind]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "have it\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wanted(tmp_path, kind):
    """Asks for a turn in a thread; what it said, and whether it had it."""
    said, had = [], threading.Event()

    def ask():
        with getattr(Turns(tmp_path / "turns" / "gpu.lock", said.append), kind)():
            had.set()

    threading.Thread(target=ask, daemon=True).start()
    return said, had


@pytest.mark.parametrize(
    ("first", "second"), [("judging", "judging"), ("judging", "answering"), ("answering", "judging")]
)
def test_whoever_judges_is_alone_and_a_killed_run_gives_its_turn_back(tmp_path, held, first, second):
    process = held(first)
    said, had = wanted(tmp_path, second)
    assert not had.wait(0.3)
    assert said == [WAITING]
    process.kill()
    assert had.wait(20)


def test_models_answer_side_by_side(tmp_path, held):
    held("answering")
    said, had = wanted(tmp_path, "answering")
    assert had.wait(20)
    assert said == []


def test_where_no_lock_can_be_made_nobody_waits(tmp_path):
    (tmp_path / "turns").write_text("a file where the folder should be")
    with Turns(tmp_path / "turns" / "gpu.lock").judging(), Turns(tmp_path / "turns" / "gpu.lock").judging():
        pass
    with Turns().judging(), Turns().judging():
        pass
