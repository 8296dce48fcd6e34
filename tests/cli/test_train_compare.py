"""`autotriton train compare` on runs that were written to a store; no model, no torch."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from rich.console import Console

from autotriton.cli import train_compare
from autotriton.store import Store
from autotriton.train import comparing
from autotriton.train.journal import METRICS_FILE


@pytest.fixture
def store(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def stored(store):
    """Writes a run whose metrics have these values at the steps 1, 2, ...; returns its id."""

    def write(verb="grpo", config=None, **metrics):
        made = Store(store).create(verb, config or {}, judge_version="9")
        steps = max(map(len, metrics.values()), default=0)
        rows = [
            {"step": step + 1, **{name: values[step] for name, values in metrics.items() if step < len(values)}}
            for step in range(steps)
        ]
        (made.path / METRICS_FILE).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return made.id

    return write


@pytest.fixture
def pair(stored):
    """The main run and its ablation, of equal length."""
    rates = {"attempts/cheated": [0.0, 0.1, 0.1, 0.2]}
    return (
        stored(config={"name": "main", "reward": {"rule": True}}, reward=[0.1, 0.3, 0.4, 0.5], **rates),
        stored(config={"name": "no rule", "reward": {"rule": False}}, reward=[0.1, 0.2, 0.7, 0.9], **rates),
    )


def test_table_shows_each_run_its_difference_and_its_numbers(run, store, pair):
    code, out, err = run("train", "compare", *pair, "--runs", store, "--window", 2)
    assert (code, err) == (0, "")
    for part in (*pair, "main", "no rule", "4 steps", "reward.rule=true", "reward.rule=false", "cheated",
                 "means over steps 1 to 2 -> 3 to 4", "0.200", "-> 0.450", "0.150", "-> 0.800"):  # fmt: skip
        assert part in out
    assert "note" not in out
    assert "loss" not in out


def test_json_holds_the_same_numbers(run, store, pair):
    code, out, _ = run("train", "compare", *pair, "--runs", store, "--window", 2, "--json")
    found = json.loads(out, parse_constant=pytest.fail)
    assert code == 0
    assert (found["verb"], found["steps"], found["window"], found["notes"]) == ("grpo", 4, 2, [])
    assert [row["id"] for row in found["runs"]] == list(pair)
    assert [row["differs"] for row in found["runs"]] == [{"reward.rule": True}, {"reward.rule": False}]
    changes = [row["metrics"]["reward"] for row in found["runs"]]
    assert [change["start"]["mean"] for change in changes] == pytest.approx([0.2, 0.15])
    assert [change["end"]["mean"] for change in changes] == pytest.approx([0.45, 0.8])
    assert changes[0]["end"]["first"] == 3


def test_a_run_is_named_by_its_folder_too(run, store, pair):
    code, out, _ = run("train", "compare", store / pair[0], f"{store / pair[1]}/", "--json")
    assert code == 0
    assert [row["id"] for row in json.loads(out)["runs"]] == list(pair)


def test_one_run_shows_itself(run, store, pair):
    code, out, err = run("train", "compare", pair[0], "--runs", store, "--window", 2)
    assert (code, err) == (0, "")
    assert "-> 0.450" in out
    assert "reward.rule" not in out


def test_different_lengths_are_said_and_cut(run, store, stored):
    ids = [stored(reward=[0.0, 0.0, 0.25, 0.25, 9.0, 9.0]), stored(reward=[0.0, 0.0, 0.5, 0.5])]
    code, out, _ = run("train", "compare", *ids, "--runs", store, "--window", 2)
    assert code == 0
    assert f"compared over the first 4, which is all that {ids[1]} has made" in out
    assert "-> 0.250" in out
    assert "9.000" not in out


def test_numbers_that_are_not_finite_do_no_harm(run, store, stored, tmp_path):
    id = stored(loss=[1.0, 1.0, "nan", "inf"], entropy=["-inf", 0.5, 0.25, 0.125])
    code, out, _ = run("train", "compare", id, "--runs", store, "--window", 2)
    assert code == 0
    assert "-> nan" in out
    assert "loss is nan at step 3 and 1 more" in out
    code, out, _ = run("train", "compare", id, "--runs", store, "--window", 2, "--json")
    assert code == 0
    assert json.loads(out, parse_constant=pytest.fail)["runs"][0]["metrics"]["loss"]["end"]["mean"] is None


def test_unknown_run_is_one_line_with_the_nearest(run, store, pair):
    code, out, err = run("train", "compare", pair[0], pair[1] + "x", "--runs", store)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"no run '{pair[1]}x' in {store} (nearest: {pair[1]}" in err


def test_run_of_another_verb_is_refused(run, store, stored):
    id = stored("bench", loss=[1.0])
    expected = f"error: run {id} is no training run but one of bench (name runs of `train sft` or `train grpo`)\n"
    assert run("train", "compare", id, "--runs", store) == (2, "", expected)


def test_run_without_metrics_is_refused(run, store, stored):
    id = stored()
    expected = f"error: run {id} has no metrics (it has made no step yet)\n"
    assert run("train", "compare", id, "--runs", store) == (2, "", expected)


def test_run_named_twice_is_refused_however_it_is_named(run, store, pair):
    expected = f"error: run {pair[0]} is named twice (name different runs)\n"
    assert run("train", "compare", pair[0], store / pair[0], "--runs", store) == (2, "", expected)


def test_sft_beside_grpo_is_refused(run, store, stored):
    code, _, err = run("train", "compare", stored(loss=[1.0]), stored("sft", loss=[1.0]), "--runs", store)
    assert code == 2
    assert err == "error: the runs are of different kinds: grpo, sft (compare runs of one kind)\n"


@pytest.mark.parametrize("wrong", [[], ["--window", "0"], ["--nonsense"]])
def test_wrong_call_is_one_line_and_exit_2(run, store, pair, wrong):
    code, out, err = run("train", "compare", *(pair if wrong else ()), "--runs", store, *wrong)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
@pytest.mark.parametrize("name", ["a.png", "a.svg", "new/A.PNG"])
def test_curves_are_drawn(run, store, pair, tmp_path, name):
    code, out, err = run("train", "compare", *pair, "--runs", store, "--plot", tmp_path / name)
    assert (code, err) == (0, f"wrote {tmp_path / name}\n")
    assert pair[0] in out
    start = (tmp_path / name).read_bytes()[:1000]
    assert b"<svg" in start if name.endswith("svg") else start.startswith(b"\x89PNG")


@pytest.mark.parametrize(("name", "said"), [("a.pdf", "neither .png nor .svg"), ("file/a.png", "cannot write")])
def test_plot_that_cannot_be_written_is_one_line(run, store, pair, tmp_path, name, said):
    (tmp_path / "file").touch()
    code, out, err = run("train", "compare", *pair, "--runs", store, "--plot", tmp_path / name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "name another --plot" in err


def test_plot_without_matplotlib_names_the_package(run, store, pair, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run("train", "compare", *pair, "--runs", store, "--plot", tmp_path / "a.png")
    assert (code, out) == (3, "")
    assert err == "error: plots need matplotlib (pip install 'autotriton[report]')\n"


def test_narrow_screens_get_several_tables_and_every_metric(store, stored):
    metrics = {name: [0.0, 0.5] for name in comparing.METRICS}
    opened = Store(store).open(stored(config={"name": "[red]x[/] [/]"}, **metrics))
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    train_compare._show(comparing.compare([comparing.read(opened)]), console)
    text = console.export_text()
    assert text.count("means over") == 2
    assert text.count("-> 0.500") == len(comparing.METRICS)
    assert "[red]x[/] [/]" in text


def test_comparing_needs_no_torch(store, pair):
    code = (
        "import sys; from autotriton.cli.main import main; code = main(sys.argv[1:]);"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    call = [sys.executable, "-c", code, "train", "compare", *pair, "--runs", str(store)]
    assert subprocess.run(call, capture_output=True, check=False).returncode == 0
