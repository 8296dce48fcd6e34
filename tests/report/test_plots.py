"""Plots as files: both formats, the same bytes for the same run, a clear line without matplotlib."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.report.plots import draw

_spec = importlib.util.spec_from_file_location("made_up", Path(__file__).with_name("made_up.py"))
made_up = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made_up)


def test_every_plot_is_written_in_both_formats(tmp_path):
    run = made_up.made_up(tasks=20)
    written = draw([run], tmp_path / "new" / "plots")
    stems = {path.stem.removeprefix(f"{run.info.id}-kernelbench-l1-") for path in written}
    assert stems == {"speedups-eager", "speedups-compile", "fast-p", "outcomes", "cheats"}
    assert len(written) == 10
    assert sorted((tmp_path / "new" / "plots").iterdir()) == sorted(written)
    for path in written:
        start = path.read_bytes()[:1000]
        assert start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<svg" in start


def test_same_run_gives_the_same_files(tmp_path):
    one, two = (draw([made_up.made_up(tasks=1)], tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_without_matplotlib_the_package_to_install_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PrerequisiteError, match=r"plots need matplotlib.*autotriton\[report\]"):
        draw([made_up.made_up(tasks=3)], tmp_path)


def test_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write into"):
        draw([made_up.made_up(tasks=3)], tmp_path / "file" / "below")
