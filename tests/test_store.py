"""Runs on disk survive kills, full disks, second writers and changed configs."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from autotriton import store as store_module
from autotriton.errors import PrerequisiteError, UsageError
from autotriton.store import ATTEMPTS_FILE, Store

SRC = Path(store_module.__file__).resolve().parent.parent

# Appends without end; prints the number of each attempt after `append` returned, which is the promise under test.
WRITER = """
import sys
from autotriton.store import Store
from autotriton.types import Attempt, Candidate, Outcome, Policy, Task, Tier, Verdict
run = Store(sys.argv[1]).resume(sys.argv[2], {})
task = Task(id="task", source="source")
verdict = Verdict(outcome=Outcome.WRONG, message="m" * 200_000, policy=Policy.STRICT, tier=Tier.RUN)
for n in range(int(sys.argv[3]), 10**6):
    run.append(Attempt(run_id=run.id, task=task, candidate=Candidate(task_id="task", code=str(n)), verdict=verdict))
    print(n, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def codes(run):
    return [attempt.candidate.code for attempt in run.attempts()]


def test_attempts_come_back_in_order(store, make_attempt):
    run = store.create("judge", {})
    for code in "abc":
        run.append(make_attempt(code))
    assert codes(store.open(run.id)) == ["a", "b", "c"]


def test_new_run_has_no_attempts(store):
    run = store.create("judge", {})
    assert list(run.attempts()) == []
    assert run.done() == set()


def test_run_info_names_what_made_the_numbers(store):
    info = store.open(store.create("judge", {"policy": "strict", "targets": ("sm_80",)}, judge_version="7").id).info
    assert info.verb == "judge"
    assert info.config == {"policy": "strict", "targets": ["sm_80"]}
    assert info.judge_version == "7"
    assert info.machine.python
    assert "torch" in info.versions
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", info.started)
    assert info.commit


def test_run_ids_are_readable_and_unique(store):
    ids = [store.create("judge", {}).id for _ in range(20)]
    assert len(set(ids)) == 20
    assert all(re.fullmatch(r"\d{8}-\d{6}-judge-[0-9a-f]{4}", id) for id in ids)
    assert store.ids() == sorted(ids)


def test_done_names_pairs_with_a_verdict_and_leaves_broken_judgements_to_be_repeated(store, make_attempt):
    run = store.create("judge", {})
    good, broken = make_attempt("a"), make_attempt("b", error="judge broke")
    run.append(good)
    run.append(broken)
    assert run.done() == {("task", good.candidate.id)}
    assert len(list(run.attempts())) == 2


def test_torn_last_line_is_skipped_and_cut_off_at_every_byte(store, make_attempt):
    run = store.create("judge", {})
    run.append(make_attempt("a"))
    run.append(make_attempt("b"))
    run.close()
    path = run.path / ATTEMPTS_FILE
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert codes(run) == ["a"]
        with store.resume(run.id, {}) as resumed:
            assert path.read_bytes() == whole[:first]
            resumed.append(make_attempt("c"))
        assert codes(run) == ["a", "c"]


def test_whole_last_line_that_lacks_only_its_newline_is_kept(store, make_attempt):
    run = store.create("judge", {})
    run.append(make_attempt("a"))
    run.close()
    path = run.path / ATTEMPTS_FILE
    path.write_bytes(path.read_bytes()[:-1])
    assert codes(run) == ["a"]
    with store.resume(run.id, {}) as resumed:
        resumed.append(make_attempt("b"))
    assert codes(run) == ["a", "b"]


def test_corrupt_middle_line_is_an_error_naming_file_and_line(store, make_attempt):
    run = store.create("judge", {})
    for code in "abc":
        run.append(make_attempt(code))
    path = run.path / ATTEMPTS_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[2])
    with pytest.raises(UsageError, match=rf"{ATTEMPTS_FILE}, line 2 "):
        list(run.attempts())


def test_last_line_of_another_schema_is_an_error_not_a_torn_line(store, make_attempt):
    run = store.create("judge", {})
    run.append(make_attempt("a"))
    path = run.path / ATTEMPTS_FILE
    path.write_bytes(path.read_bytes() + b'{"schema_version": 99}\n')
    with pytest.raises(UsageError, match="line 2 "):
        list(run.attempts())


def test_unknown_run_lists_the_nearest_ids(store):
    run = store.create("judge", {})
    with pytest.raises(UsageError, match=run.id):
        store.open(run.id[:-1])


def test_unknown_run_in_an_empty_store_says_so(store):
    with pytest.raises(UsageError, match="no runs yet"):
        store.open("x")


@pytest.mark.parametrize("id", ["../outside", "", ".", "/etc"])
def test_run_id_never_leaves_the_store(store, id):
    with pytest.raises(UsageError):
        store.open(id)


def test_resume_with_a_changed_config_names_the_keys(store):
    run = store.create("bench", {"policy": "strict", "k": 1, "time": {"repeats": 3}})
    with pytest.raises(UsageError) as error:
        store.resume(run.id, {"policy": "paper", "k": 1, "time": {"repeats": 5}, "new": None})
    for part in ('policy ("strict" became "paper")', "time.repeats (3 became 5)", "new"):
        assert part in str(error.value)
    assert "k (" not in str(error.value)


def test_resume_with_the_same_config_goes_on(store, make_attempt):
    run = store.create("bench", {"targets": ("sm_80", "sm_90")})
    run.append(make_attempt("a"))
    run.close()
    with store.resume(run.id, {"targets": ("sm_80", "sm_90")}) as resumed:
        resumed.append(make_attempt("b"))
    assert codes(run) == ["a", "b"]


def test_config_that_is_not_json_is_a_usage_error(store):
    with pytest.raises(UsageError, match="JSON"):
        store.create("judge", {"x": object()})


def test_second_writer_is_refused_and_may_write_after_the_first_closed(store, make_attempt):
    run = store.create("judge", {})
    run.append(make_attempt("a"))
    second = store.open(run.id)
    with pytest.raises(UsageError, match="another process"):
        second.append(make_attempt("b"))
    run.close()
    second.append(make_attempt("b"))
    assert codes(run) == ["a", "b"]


def test_threads_of_one_process_lose_nothing(store, make_attempt):
    run = store.create("judge", {})
    threads = [
        threading.Thread(target=lambda n=n: [run.append(make_attempt(f"{n}.{i}")) for i in range(20)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes(run)) == sorted(f"{n}.{i}" for n in range(4) for i in range(20))


def test_full_disk_is_one_clear_error_and_leaves_no_half_line(store, make_attempt, monkeypatch):
    run = store.create("judge", {})
    run.append(make_attempt("a"))
    real = os.write
    written = []

    def short_then_full(descriptor, data):
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(real(descriptor, data[:30]))
        return written[-1]

    monkeypatch.setattr(os, "write", short_then_full)
    with pytest.raises(PrerequisiteError, match="No space left on device"):
        run.append(make_attempt("b"))
    monkeypatch.undo()
    run.append(make_attempt("c"))
    assert codes(run) == ["a", "c"]


def test_store_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(PrerequisiteError, match="cannot use the run store"):
        Store(tmp_path / "file" / "runs").create("judge", {})


@pytest.mark.parametrize("content", [b"{", b"\xff\x00 no text"])
def test_damaged_run_info_is_one_clear_error(store, content):
    run = store.create("judge", {})
    (run.path / "run.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"run\.json is damaged"):
        store.open(run.id)


@pytest.mark.timeout(120)
def test_killed_writer_loses_nothing_it_had_acknowledged(store):
    """SIGKILL at random moments, eight times over, always resuming the same run."""
    rng = random.Random(1)
    run = store.create("judge", {})
    acknowledged: list[int] = []
    for _ in range(8):
        start = acknowledged[-1] + 1 if acknowledged else 0
        command = [sys.executable, "-c", WRITER, str(store.root), run.id, str(start)]
        writer = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SRC)}
        )
        assert writer.stdout is not None
        acknowledged.append(int(writer.stdout.readline()))
        time.sleep(rng.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
        writer.wait()
        found = [int(code) for code in codes(store.open(run.id))]
        assert set(acknowledged) <= set(found)
    # At most one attempt per kill was written whole yet not acknowledged, and so written again.
    assert len(found) - len(set(found)) <= 8
    assert sorted(set(found)) == list(range(max(found) + 1))


def test_lock_of_a_killed_writer_is_free(store, make_attempt):
    run = store.create("judge", {})

    def hold(ready):
        store.open(run.id).append(make_attempt("a"))
        ready.set()
        time.sleep(60)

    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=hold, args=(ready,))
    process.start()
    assert ready.wait(30)
    with pytest.raises(UsageError, match="another process"):
        run.append(make_attempt("b"))
    process.kill()
    process.join()
    run.append(make_attempt("b"))
    assert codes(run) == ["a", "b"]


def test_a_copied_tree_is_told_its_commit(store, monkeypatch):
    monkeypatch.setenv("AUTOTRITON_COMMIT", "0123abc")
    assert store.create("bench", {}).info.commit == "0123abc"
