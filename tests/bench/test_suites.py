"""Suites by name, out of what their root holds."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from autotriton.bench import suites
from autotriton.data.build import tables
from autotriton.data.rows import TaskRow
from autotriton.errors import UsageError

SOURCE = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n"


def row(number: int) -> TaskRow:
    return TaskRow(id=f"synth/{number}", prompt="Rewrite it.", source=SOURCE, origin="synth", licence="Apache-2.0")


def test_the_held_out_tasks_of_a_data_set_are_a_suite(tmp_path: Path) -> None:
    tables.write([row(1), row(2)], TaskRow, tmp_path / "held_out.parquet")
    found = suites.load("held-out", tmp_path)
    assert [task.id for task in found.tasks] == ["synth/1", "synth/2"]
    assert not found.scripts
    assert found.tasks[0].suite == f"held-out@{found.version}"
    tables.write([row(1)], TaskRow, tmp_path / "held_out.parquet")
    assert suites.load("held-out", tmp_path).version != found.version


def test_a_folder_without_a_data_set_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no held_out\.parquet"):
        suites.load("held-out", tmp_path)
    (tmp_path / "held_out.parquet").write_text("no parquet")
    with pytest.raises(UsageError, match=r"held_out\.parquet is damaged"):
        suites.load("held-out", tmp_path)


def test_the_shipped_held_out_tasks_load() -> None:
    found = suites.load("held-out", Path(__file__).parent.parent.parent / "data")
    assert len(found.tasks) >= 600
    assert len({task.id for task in found.tasks}) == len(found.tasks)


def test_a_damaged_script_is_handed_over_under_its_tasks_name_without_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "TritonBench_T_v1"
    folder.mkdir(parents=True)
    rows, listing = [], []
    for name in ("abs", "exp"):
        (folder / f"{name}.py").write_text(f"def {name}(x):\n    return x\n{'#' * 146}\nprint({name}(1))\n")
        about = f"Functional Description: gives {name} Wrapper Entry Information: {name}(x)"
        rows.append({"instruction": about})
        listing.append({"file": f"{name}.py", "description": f"gives {name}"})
    (folder / "exp.py").write_bytes(b"\xff\x00")
    (tmp_path / "data" / "TritonBench_T_simp_alpac_v1.json").write_text(json.dumps(rows))
    (tmp_path / "data" / "TritonBench_T_v1.jsonl").write_text(json.dumps(listing))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = suites.load("tritonbench-t", tmp_path)
    assert [task.id for task in found.tasks] == ["abs"]
    assert found.damaged == {"exp": "it is not UTF-8 text"}
