"""Files and folders in parts, and back: nothing damaged, missing or malicious gets through."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.models import packing
from autotriton.models.packing import MANIFEST, pack, size, unpack


@pytest.fixture
def folder(tmp_path):
    """Files smaller, larger and exactly as large as a part of 1000 bytes, and an empty one."""
    place = tmp_path / "model"
    (place / "inner").mkdir(parents=True)
    for name, count in {"a": 10, "b": 1000, "inner/c": 2990, "d": 0, "e": 1}.items():
        (place / name).write_bytes(bytes(number * 7 % 251 for number in range(count)))
    return place


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("part_size", [1, 7, 1000, 4001, 10**6])
def test_a_folder_comes_back_as_it_was(folder, tmp_path, part_size):
    if part_size == 1:
        (folder / "inner" / "c").write_bytes(b"xyz")
        (folder / "b").write_bytes(b"")
    made = pack(folder, tmp_path / "packed", part_size)
    assert all(part.bytes == part_size for part in made.parts[:-1])
    assert 0 < made.parts[-1].bytes <= part_size
    assert unpack(tmp_path / "packed", tmp_path / "back") == tmp_path / "back"
    assert contents(tmp_path / "back") == contents(folder)


def test_a_file_comes_back_under_its_own_name(folder, tmp_path):
    pack(folder / "inner" / "c", tmp_path / "packed", 1000)
    assert unpack(tmp_path / "packed").read_bytes() == (folder / "inner" / "c").read_bytes()
    assert (tmp_path / "c").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"model", "packed", "c"}


def test_a_damaged_part_is_named_and_nothing_is_written(folder, tmp_path):
    pack(folder, tmp_path / "packed", 1000)
    part = tmp_path / "packed" / "part-0002"
    data = bytearray(part.read_bytes())
    data[500] ^= 1
    part.write_bytes(data)
    with pytest.raises(UsageError, match=r"part-0002 is damaged"):
        unpack(tmp_path / "packed", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_parts_that_have_not_arrived_are_named(folder, tmp_path):
    pack(folder, tmp_path / "packed", 1000)
    (tmp_path / "packed" / "part-0003").unlink()
    with pytest.raises(UsageError, match=r"1 of 5 parts are missing from .*: part-0003"):
        unpack(tmp_path / "packed", tmp_path / "back")


def test_all_that_is_wrong_is_told_at_once(folder, tmp_path):
    pack(folder, tmp_path / "packed", 1000)
    for name in ("part-0001", "part-0004"):
        (tmp_path / "packed" / name).write_bytes(b"damaged")
    (tmp_path / "packed" / "part-0002").unlink()
    (tmp_path / "packed" / "part-0099").write_bytes(b"of another pack")
    with pytest.raises(UsageError) as caught:
        unpack(tmp_path / "packed", tmp_path / "back")
    told = str(caught.value).replace(f"{tmp_path}/packed", "P")
    assert "1 of 5 parts are missing from P: part-0002" in told
    assert "P/part-0001, P/part-0004 are damaged" in told
    assert "P/part-0099 is not in its manifest.json" in told
    assert not (tmp_path / "back").exists()


def test_an_extra_part_is_named(folder, tmp_path):
    pack(folder, tmp_path / "packed", 1000)
    (tmp_path / "packed" / "part-0006").write_bytes(b"of another pack")
    with pytest.raises(UsageError, match=r"part-0006 is not in its manifest.json \(remove what is not in it"):
        unpack(tmp_path / "packed", tmp_path / "back")


def test_what_cannot_be_packed_is_named(folder, tmp_path):
    (folder / "inner" / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="inner/gone cannot be packed"):
        pack(folder, tmp_path / "packed", 1000)
    assert not (tmp_path / "packed").exists()


def test_a_file_has_its_name_only_when_it_is_whole(folder, tmp_path, monkeypatch):
    pack(folder / "inner" / "c", tmp_path / "packed", 1000)
    copy = packing._copy

    def killed(*given):
        copy(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packing, "_copy", killed)
        with pytest.raises(KeyboardInterrupt):
            unpack(tmp_path / "packed", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    rename = Path.rename
    seen = []

    def watched(self, target):
        made = rename(self, target)
        seen.append((tmp_path / "back").is_file())
        return made

    monkeypatch.setattr(Path, "rename", watched)
    unpack(tmp_path / "packed", tmp_path / "back")
    assert seen == [True], "one step from nothing to the whole file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "model", "packed"]


def test_a_full_disk_is_one_line_and_leaves_the_room_it_had(folder, tmp_path, monkeypatch):
    pack(folder, tmp_path / "packed", 1000)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(packing, "_copy", full)
    with pytest.raises(PrerequisiteError, match=r"back cannot be made: No space left on device \(free some space"):
        unpack(tmp_path / "packed", tmp_path / "back")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "packed"]


def test_a_place_that_cannot_be_written_is_one_line(folder, tmp_path):
    with pytest.raises(UsageError, match=r"cannot be made: .*Not a directory"):
        pack(folder / "inner", folder / "a" / "packed", 1000)


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped", ""])
def test_a_manifest_cannot_point_outside(folder, tmp_path, name):
    pack(folder, tmp_path / "packed", 1000)
    manifest = tmp_path / "packed" / MANIFEST
    changed = json.loads(manifest.read_text())
    changed["files"][0]["path"] = name
    manifest.write_text(json.dumps(changed))
    with pytest.raises(UsageError, match="lies outside of the folder"):
        unpack(tmp_path / "packed", tmp_path / "back")


@pytest.mark.parametrize("text", ["", "{", '{"format": 2}', "[]", "\xff"])
def test_a_manifest_that_is_none_is_one_clear_line(tmp_path, text):
    (tmp_path / MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="is no manifest"):
        unpack(tmp_path, tmp_path / "back")


def test_what_is_there_is_not_overwritten(folder, tmp_path):
    pack(folder, tmp_path / "packed", 1000)
    with pytest.raises(UsageError, match="is there already"):
        unpack(tmp_path / "packed", folder)
    with pytest.raises(UsageError, match="is there already"):
        pack(folder, tmp_path / "packed", 1000)
    with pytest.raises(UsageError, match="lies inside"):
        pack(folder, folder / "packed", 1000)


def test_what_a_killed_unpack_left_is_thrown_away(folder, tmp_path):
    pack(folder, tmp_path / "packed", 1000)
    (tmp_path / "back.partial").mkdir()
    (tmp_path / "back.partial" / "stale").write_text("half")
    unpack(tmp_path / "packed", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(folder)
    assert not (tmp_path / "back.partial").exists()


def test_sizes_are_read_as_people_write_them():
    assert (size("61MiB"), size("500k"), size("1.5 GB"), size("7")) == (61 << 20, 500_000, 1_500_000_000, 7)
    for wrong in ("", "0", "61 apples", "-1MB"):
        with pytest.raises(UsageError, match="is no size"):
            size(wrong)
