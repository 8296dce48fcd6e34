"""`train sft|grpo` as it is called: what is checked, and who may write a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotriton.cli.main import main
from autotriton.data.rows import TaskRow
from autotriton.store import Store
from autotriton.train.dataset import write

CONFIG = """tasks_per_step = 1
group = 2
[model]
path = "nowhere"
[data]
train = ["{folder}/rl.jsonl"]
held_out = "{folder}/held.jsonl"
"""


def _row(name: str, graph: str) -> TaskRow:
    return TaskRow(id=name, prompt=name, source="x = 1", origin="a test", licence="Apache-2.0", graph=graph)


@pytest.fixture
def config(tmp_path: Path) -> str:
    write([_row("a", "one"), _row("b", "two"), _row("c", "two")], tmp_path / "rl.jsonl")
    write([_row("d", "two")], tmp_path / "held.jsonl")
    path = tmp_path / "grpo.toml"
    path.write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    return str(path)


def test_a_check_counts_what_is_trained_on(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "grpo", config, "--check"]) == 0
    assert capsys.readouterr().out == "the config is fine; 3 rows, 2 of them share a program with a held-out task\n"
    assert main(["train", "grpo", config, "--check", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["used"]) == (3, 1)


@pytest.mark.parametrize("change", ["data.held_out=missing.jsonl", 'data.train=["missing.jsonl"]'])
def test_a_check_reads_every_file(config: str, change: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "grpo", config, "--check", "--set", change]) == 2
    assert "missing.jsonl does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-5", "0.5", "nan", "soon"])
def test_seconds_are_a_number_of_them(config: str, seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "grpo", config, "--check", "--seconds", seconds]) == 2
    assert "--seconds" in capsys.readouterr().err


def test_a_new_run_has_its_lock_before_anything_is_loaded(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, seen = tmp_path / "runs", []

    def training(wanted: object, run: object, seconds: object) -> None:
        seen.append(main(["train", "grpo", config, "--runs", str(runs), "--resume", Store(runs).ids()[0]]))
        raise KeyboardInterrupt

    monkeypatch.setattr("autotriton.train.grpo.train", training)
    assert main(["train", "grpo", config, "--runs", str(runs)]) == 130
    assert seen == [2]
    assert "is being written by another process" in capsys.readouterr().err


def test_a_run_of_another_kind_is_not_gone_on_with(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Store(tmp_path / "runs").create("sft", {})
    assert main(["train", "grpo", config, "--resume", str(made.path)]) == 2
    assert capsys.readouterr().err == f"error: run {made.id} is one of `sft` (name one of `train grpo`)\n"
