"""The templates' speed table: who may use the GPU when, what a dead process leaves behind, and what is counted."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import templates_speed
from templates_timing import Gate, Work


def _row(name: str, ms: float, error: float = 1e-6, **more: Any) -> dict[str, Any]:
    timed = {"status": "timed", "ms": ms, "eager_ms": 1.0, "error": error}
    return {"level": 1, "name": name, "file": "0", "family": "norm", **timed, **more}


def _suite(folder: Path, names: list[str]) -> list[str]:
    (folder / "level1").mkdir()
    (folder / "kernels").mkdir()
    for name in names:
        (folder / "level1" / f"{name}.py").write_text("import torch\n")
        (folder / "kernels" / f"level1_{name}.py").write_text(f"# {name}\n")
    return [f"--{key}={value}" for key, value in (("root", folder), ("kernels", folder / "kernels"), ("levels", "1"))]


def test_one_process_times_alone_and_a_dead_one_leaves_nothing_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log, out = tmp_path / "log", tmp_path / "out.jsonl"

    def note(text: str) -> None:
        with log.open("a") as file:
            file.write(f"{text}\n")

    def measure(work: Work, gate: Gate) -> dict[str, Any]:
        gate.memory(1 << 62 if "2" in work.task.stem else 1 << 30)
        with gate.held("shared"):
            note("shared")
            time.sleep(0.02)
            note("freed")
        with gate.held("alone"):
            note("alone")
            if "3" in work.task.stem:
                note("freed")
                os._exit(1)
            time.sleep(0.05)
            note("freed")
        return {"ms": 2.0, "eager_ms": 3.0, "error": 0.0}

    monkeypatch.setattr(templates_speed, "measure", measure)
    arguments = _suite(tmp_path, ["1_a", "2_b", "3_c", "4_d"])
    assert templates_speed.main([*arguments, f"--out={out}", "--workers=4"]) == 0
    sharing = 0
    alone = False
    for line in log.read_text().splitlines():
        assert not alone or line == "freed"
        assert line != "alone" or sharing == 0
        sharing += 1 if line == "shared" else -1 if line == "freed" and not alone else 0
        alone = line == "alone"
    rows = {row["name"]: row["status"] for row in map(json.loads, out.read_text().splitlines())}
    assert rows == {"1_a": "timed", "2_b": "timed", "3_c": "failed", "4_d": "timed"}


def test_a_second_call_does_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr(templates_speed, "measure", lambda work, gate: {"ms": 1.0, "eager_ms": 1.0, "error": 0.0})
    arguments = [*_suite(tmp_path, ["1_a", "2_b"]), f"--out={out}"]
    templates_speed.main(arguments)
    (tmp_path / "kernels" / "level1_2_b.py").write_text("# changed\n")
    templates_speed.main(arguments)
    assert [json.loads(line)["name"] for line in out.read_text().splitlines()].count("1_a") == 1
    assert len(templates_speed.load(out)) == 2
    assert len(out.read_text().splitlines()) == 3


def test_wrong_and_failed_problems_are_named_and_not_in_the_mean():
    rows = [_row("1_a", 0.5), _row("2_b", 2.0), _row("3_c", 0.001, error=0.5)]
    rows += [_row("4_d", 1.0, status="failed", reason="no memory"), _row("5_e", 0.001, error=float("nan"))]
    text = templates_speed.report(rows)
    assert "| 1 | norm | 2 of 5 | 1.00 |  | 2: 0.50, 1: 2.00 |" in text
    assert "4_d: no memory" in text
    assert "3_c: wrong" in text
    assert "5_e: wrong" in text
