"""Files of a run: whole or absent, beside whatever else is in the folder."""

from __future__ import annotations

import json
import os

import pytest

from autotriton.errors import UsageError
from autotriton.report import folder
from autotriton.types import Task


def test_winner_verdict_and_page_are_written(tmp_path, result):
    found = result()
    files = folder.write(tmp_path / "new" / "folder", found)
    assert {kind: path.name for kind, path in files.items()} == {
        "kernel": "mine_rms_norm_triton.py",
        "verdict": "verdict.json",
        "report": "report.html",
    }
    assert files["kernel"].read_text(encoding="utf-8") == found.winner.candidate.code
    verdict = json.loads(files["verdict"].read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert (verdict["accepted"], verdict["task"], verdict["run"]) == (True, "mine:rms_norm", "run-1")
    assert verdict["candidate"] == found.winner.candidate.id
    assert files["report"].read_text(encoding="utf-8").startswith("<!doctype html>")


def test_code_is_written_byte_for_byte(tmp_path, result, attempt):
    code = "x = 'ü'\r\ny = 1"
    files = folder.write(tmp_path, result(attempt(code)))
    assert files["kernel"].read_bytes() == code.encode()


def test_other_files_stay_and_no_temporary_ones_do(tmp_path, result):
    (tmp_path / "notes.txt").write_text("mine")
    folder.write(tmp_path, result())
    folder.write(tmp_path, result())
    assert sorted(os.listdir(tmp_path)) == ["mine_rms_norm_triton.py", "notes.txt", "report.html", "verdict.json"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_without_a_winner_only_the_page_is_written(tmp_path, result):
    assert list(folder.write(tmp_path, result(winner=None))) == ["report"]
    assert os.listdir(tmp_path) == ["report.html"]


def test_failed_write_leaves_the_old_file(tmp_path, result, monkeypatch):
    files = folder.write(tmp_path, result())
    before = files["report"].read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        folder.write(tmp_path, result())
    assert files["report"].read_bytes() == before
    assert len(os.listdir(tmp_path)) == 3


def test_files_have_ordinary_permissions(tmp_path, result):
    plain = tmp_path / "plain"
    plain.touch()
    files = folder.write(tmp_path / "out", result())
    assert {path.stat().st_mode for path in files.values()} == {plain.stat().st_mode}


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_folder_that_cannot_be_is_told_before_any_work(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write into .*: Not a directory"):
        folder.require_writable(tmp_path / place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_permission_is_told_before_any_work(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        folder.require_writable(tmp_path / "new")


def test_asking_leaves_nothing_behind(tmp_path):
    folder.require_writable(tmp_path / "new" / "deep")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("id", "stem"),
    [
        ("softmax", "softmax"),
        ("a:B", "a_B"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("...", "task"),
        ("a b/c", "a_b_c"),
    ],
)
def test_task_ids_become_plain_file_names(id, stem):
    assert folder.stem(Task(id=id, source="")) == stem


@pytest.mark.parametrize(
    ("id", "name"), [("softmax", "softmax"), ("23_Softmax", "task_23_softmax"), ("My-Task.v2:Net", "my_task_v2_net")]
)
def test_task_ids_become_package_names(id, name):
    assert folder.identifier(Task(id=id, source="")) == name
