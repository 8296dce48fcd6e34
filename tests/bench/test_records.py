"""Benchmark runs by name, and what became of their files."""

from __future__ import annotations

import pytest

from autotriton.bench.records import SUITE_FILE, load, named, save_suite
from autotriton.errors import UsageError
from autotriton.store import Store


@pytest.fixture
def stored(tmp_path, suite):
    """A run of the suite in `tmp_path/runs`."""
    with Store(tmp_path / "runs").create("bench", {"k": 1}) as run:
        save_suite(run, suite)
    return run


def test_a_run_is_named_by_its_id_or_by_its_folder(stored, tmp_path):
    assert [run.path for run in named([stored.id], tmp_path / "runs")] == [stored.path]
    assert [run.path for run in named([str(stored.path)], tmp_path / "elsewhere")] == [stored.path]


def test_one_run_under_two_names_is_refused(stored, tmp_path):
    with pytest.raises(UsageError, match=f"run {stored.id} is named twice"):
        named([stored.id, str(stored.path)], tmp_path / "runs")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00junk", b'{"name": "ta', b"[]", b""])
def test_a_damaged_suite_file_is_one_clear_error(stored, content):
    (stored.path / SUITE_FILE).write_bytes(content)
    with pytest.raises(UsageError, match=r"suite\.json is damaged"):
        load(stored)


def test_a_run_that_ended_before_it_began_can_be_resumed(tmp_path):
    with Store(tmp_path / "runs").create("bench", {"k": 1}) as run, pytest.raises(UsageError, match="resume it"):
        load(run)
