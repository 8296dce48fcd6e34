"""The cache on disk: found again, safe against other writers, and never in the way."""

from __future__ import annotations

import multiprocessing
import os
import warnings

import pytest

from autotriton.tune.cache import Entry, TileCache, default_folder, task_key, wrapper_key
from autotriton.types import Task


def entry(key: str = "k", block: int = 16, **more) -> Entry:
    known = {"complete": True, "budget_s": 10.0, "gpu": "NVIDIA H200", "triton": "3.6.0", **more}
    return Entry(key=key, settings={"wrapper": {"BLOCK": block, "EVEN": True}}, **known)


def test_what_was_put_is_found_by_another_process_handle(tmp_path):
    TileCache(tmp_path).put(entry("one", 32), entry("two", 64))
    found = TileCache(tmp_path)
    assert found.get("one") == entry("one", 32, when=found.get("one").when)
    assert found.get("two").settings == {"wrapper": {"BLOCK": 64, "EVEN": True}}
    assert found.get("three") is None


def test_the_last_entry_of_a_key_counts(tmp_path):
    cache = TileCache(tmp_path)
    cache.put(entry(block=16))
    cache.put(entry(block=32))
    assert TileCache(tmp_path).get("k").settings["wrapper"]["BLOCK"] == 32


def test_entries_added_later_by_others_are_seen(tmp_path):
    reader, writer = TileCache(tmp_path), TileCache(tmp_path)
    assert reader.get("k") is None
    writer.put(entry())
    assert reader.get("k") is not None


def test_a_search_cut_short_serves_only_those_who_have_no_more_time(tmp_path):
    cache = TileCache(tmp_path)
    cache.put(entry(complete=False, budget_s=10.0))
    assert cache.get("k", 10.0) is not None
    assert cache.get("k", 10.1) is None


@pytest.mark.parametrize("rubbish", [b"{", b"\xff\xfe\n", b'{"key": 3}\n', b"null\n", b'{"key": "k", "unknown": 1}\n'])
def test_damaged_lines_are_skipped_with_one_warning(tmp_path, rubbish):
    cache = TileCache(tmp_path)
    cache.put(entry("before"))
    with cache.path.open("ab") as file:
        file.write(rubbish)
    cache.put(entry("after"))
    found = TileCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="damaged") as caught:
        entries = [found.get("before"), found.get("after"), found.get("k")]
    assert [one is None for one in entries] == [False, False, True]
    assert len(caught) == 1


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(tmp_path):
    cache = TileCache(tmp_path)
    cache.put(entry("first"))
    line = entry("second").model_dump_json().encode()
    reader = TileCache(tmp_path)
    with cache.path.open("ab", buffering=0) as file, warnings.catch_warnings():
        warnings.simplefilter("error")
        file.write(line[:20])
        assert reader.get("second") is None
        file.write(line[20:] + b"\n")
        assert reader.get("second") is not None


def test_a_file_that_was_replaced_is_read_again(tmp_path):
    cache = TileCache(tmp_path)
    cache.put(entry("old"))
    assert cache.get("old") is not None
    cache.path.unlink()
    TileCache(tmp_path).put(entry("new"))
    assert cache.get("new") is not None
    assert cache.get("old") is None


def _write(folder: str, number: int) -> None:
    cache = TileCache(folder)
    for line in range(50):
        cache.put(entry(f"{number}.{line}", block=line))


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(str(tmp_path), number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    cache = TileCache(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [cache.get(f"{number}.{line}") for number in range(4) for line in range(50)]
    assert all(one is not None for one in found)


def test_a_cache_that_cannot_be_written_warns_and_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    cache = TileCache(tmp_path / "file" / "folder")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        cache.put(entry())
    assert cache.get("k") is not None  # in this process at least


def test_the_folder_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOTRITON_CACHE", str(tmp_path))
    assert default_folder() == tmp_path / "tiles"
    assert TileCache().path == tmp_path / "tiles" / "tiles.jsonl"
    monkeypatch.delenv("AUTOTRITON_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert str(default_folder()) == os.path.expanduser("~/.cache/autotriton/tiles")


FILE = 'TILES = {"f": {"B": 1}}\ndef f(x):\n    return x + TILES["f"]["B"]\n'


def test_keys_name_everything_the_answer_depends_on_and_not_the_settings():
    task = Task(id="t", source="s")
    tuned = FILE.replace('"B": 1', '"B": 2')
    base = (FILE, "f", {"shape": 1}, "NVIDIA H200", "3.6.0")
    assert wrapper_key(*base) == wrapper_key(tuned, *base[1:])
    others = [
        (FILE.replace("x +", "x -"), *base[1:]),
        (FILE, "f", {"shape": 2}, *base[3:]),
        (*base[:3], "NVIDIA A100", "3.6.0"),
        (*base[:4], "3.9.0"),
    ]
    assert len({wrapper_key(*base), *(wrapper_key(*other) for other in others)}) == 5
    assert task_key(task, FILE, "gpu", "3.6.0") == task_key(task, tuned, "gpu", "3.6.0")
    assert task_key(task, FILE, "gpu", "3.6.0") != task_key(Task(id="t", source="z"), FILE, "gpu", "3.6.0")
