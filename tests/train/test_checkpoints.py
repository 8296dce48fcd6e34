"""Which checkpoint a run goes on from: the newest that is still what was written. Nothing whole goes too early."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from autotriton.errors import TrainError, UsageError
from autotriton.train import checkpoints
from autotriton.train.checkpoints import WHOLE_FILE


def written(folder: Path, step: int) -> Path:
    """As the trainer leaves one, before it is marked."""
    made = checkpoints.at(folder, step)
    made.mkdir(parents=True)
    (made / "weights").write_bytes(bytes([step]) * 100)
    (made / "optimizer").write_bytes(b"moments")
    return made


def sealed(folder: Path, *steps: int, keep: int = 9) -> None:
    for step in steps:
        checkpoints.seal(written(folder, step), keep)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_whole_one_is_gone_on_from_and_what_is_newer_goes(tmp_path: Path) -> None:
    assert checkpoints.start(tmp_path / "none") is None
    sealed(tmp_path, 2, 4, 10)
    written(tmp_path, 12)  # the run was killed before its mark
    (tmp_path / "checkpoint-notes").mkdir()
    assert checkpoints.newest(tmp_path) == tmp_path / "checkpoint-10"
    assert checkpoints.start(tmp_path) == tmp_path / "checkpoint-10"
    assert names(tmp_path) == ["checkpoint-10", "checkpoint-2", "checkpoint-4", "checkpoint-notes"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "mark"])
def test_a_damaged_one_is_named_and_the_one_before_it_taken(tmp_path: Path, damage: str, capsys) -> None:
    sealed(tmp_path, 2, 4)
    last = tmp_path / "checkpoint-4"
    if damage == "cut":
        (last / "weights").write_bytes(bytes([4]) * 50)
    elif damage == "flipped":
        (last / "weights").write_bytes(bytes([4]) * 99 + b"x")
    elif damage == "gone":
        (last / "optimizer").unlink()
    else:
        (last / WHOLE_FILE).write_text("{")
    assert checkpoints.start(tmp_path) == tmp_path / "checkpoint-2"
    assert "checkpoint-4 is not used" in capsys.readouterr().err
    assert names(tmp_path) == ["checkpoint-2"]


def test_where_all_are_damaged_nothing_is_begun_anew(tmp_path: Path) -> None:
    sealed(tmp_path, 2, 4)
    for step in (2, 4):
        (checkpoints.at(tmp_path, step) / "weights").unlink()
    with pytest.raises(UsageError, match=r"every checkpoint in .* is damaged"):
        checkpoints.start(tmp_path)
    assert names(tmp_path) == ["checkpoint-2", "checkpoint-4"]


def test_an_older_one_goes_only_when_a_newer_one_is_whole(tmp_path: Path) -> None:
    sealed(tmp_path, 1, 2, keep=2)
    newer = written(tmp_path, 3)
    assert names(tmp_path) == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    checkpoints.seal(newer, keep=2)
    assert names(tmp_path) == ["checkpoint-2", "checkpoint-3"]


def test_a_mark_without_checksums_is_believed(tmp_path: Path) -> None:
    (written(tmp_path, 3) / WHOLE_FILE).touch()
    assert checkpoints.start(tmp_path) == tmp_path / "checkpoint-3"


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    full = r"No space left on device \(free some space, then go on with --resume"
    with pytest.raises(TrainError, match=full), checkpoints.writing(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    other = r"cannot be written: unexpected pos 5 vs 3 \(go on with --resume"
    with pytest.raises(TrainError, match=other), checkpoints.writing(tmp_path):
        raise RuntimeError("unexpected\npos 5 vs 3")
    with pytest.raises(UsageError, match="ours"), checkpoints.writing(tmp_path):
        raise UsageError("ours")
