"""Runs side by side, without a model: what differs, means over windows, different lengths, what is no number."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.store import Run, RunInfo, Store
from autotriton.train.comparing import (
    Change,
    Training,
    Window,
    assignments,
    changed,
    compare,
    differences,
    read,
    running_mean,
)
from autotriton.train.curves import draw, overlay
from autotriton.train.journal import METRICS_FILE, Journal, number
from autotriton.types import Machine

_drawing = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")


def _training(id: str, config: dict[str, Any] | None = None, judge: str = "9", **metrics: Any) -> Training:
    """`metrics`: values of the steps 1, 2, ..., or by step."""
    machine = Machine()
    info = RunInfo(id=id, verb="grpo", config=config or {}, commit="c", started="", machine=machine, versions={},
                   judge_version=judge)  # fmt: skip
    points = {
        name: values if isinstance(values, dict) else dict(enumerate(values, start=1))
        for name, values in metrics.items()
    }
    return Training(info, points)


def _change(start: tuple[float | None, int, int], end: tuple[float | None, int, int]) -> Change:
    return Change(start=Window(mean=start[0], first=start[1], last=start[2]),
                  end=Window(mean=end[0], first=end[1], last=end[2]))  # fmt: skip


def _run(store: Path, *rows: dict[str, Any], verb: str = "grpo") -> Run:
    run = Store(store).create(verb, {"name": "n"})
    (run.path / METRICS_FILE).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return run


def test_a_metric_is_its_mean_over_the_first_and_the_last_window() -> None:
    points = dict(enumerate([1.0, 3.0, 50.0, 5.0, 6.0], start=1))
    assert changed(points, 2, 5) == _change((2.0, 1, 2), (5.5, 4, 5))


def test_what_comes_after_the_common_end_counts_in_no_mean() -> None:
    points = dict(enumerate([1.0, 3.0, 50.0, 5.0, 6.0], start=1))
    assert changed(points, 2, 4) == _change((2.0, 1, 2), (27.5, 3, 4))
    assert changed({5: 1.0}, 2, 4) is None


def test_a_rare_metric_is_shown_by_its_first_and_last_measurement() -> None:
    points = {25: 0.1, 50: 0.3, 75: 0.2, 100: 0.9}
    assert changed(points, 5, 84) == _change((0.1, 25, 25), (0.2, 75, 75))


def test_a_metric_measured_once_starts_where_it_ends() -> None:
    assert changed({25: 0.1}, 5, 84) == _change((0.1, 25, 25), (0.1, 25, 25))


def test_means_leave_out_what_is_not_finite_unless_nothing_else_is_there() -> None:
    points = {1: math.nan, 2: 4.0, 3: math.inf, 4: math.nan}
    assert changed(points, 2, 4) == _change((4.0, 1, 2), (None, 3, 4))


def test_the_running_mean_looks_back_over_steps_not_measurements() -> None:
    assert running_mean({1: 1.0, 2: 3.0, 3: 8.0, 9: 2.0}, 2) == {1: 1.0, 2: 2.0, 3: 5.5, 9: 2.0}


def test_the_running_mean_has_a_hole_where_nothing_is_finite() -> None:
    means = running_mean({1: math.inf, 2: 3.0}, 1)
    assert math.isnan(means[1])
    assert means[2] == 3.0


def test_the_last_running_mean_is_the_number_of_the_table() -> None:
    points = {step: float(step * step % 7) for step in range(1, 31)}
    found = changed(points, 5, 30)
    assert found is not None
    assert running_mean(points, 5)[30] == found.end.mean == (4 + 1 + 0 + 1 + 4) / 5


def test_with_a_majority_only_departures_are_told() -> None:
    usual, told = differences(
        [
            {"name": "a", "reward": {"rule": True, "speed": 0.0}, "steps": 4},
            {"name": "b", "reward": {"rule": False, "speed": 0.0}, "steps": 4},
            {"name": "c", "reward": {"rule": True, "speed": 0.5}, "steps": 4},
        ]
    )
    assert usual == {"reward.rule": True, "reward.speed": 0.0}
    assert told == [{}, {"reward.rule": False}, {"reward.speed": 0.5}]


def test_without_a_majority_each_one_tells_its_own() -> None:
    usual, told = differences([{"a": {"b": True, "c": [1]}}, {"a": {"b": False, "c": [1]}}])
    assert (usual, told) == ({}, [{"a.b": True}, {"a.b": False}])
    assert differences([{"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}])[0] == {}


def test_true_is_not_one_and_a_missing_key_is_none() -> None:
    assert differences([{"a": True}, {"a": 1}])[1] == [{"a": True}, {"a": 1}]
    assert differences([{"a": None}, {}])[1] == [{}, {}]
    assert differences([{"a": 1}, {}])[1] == [{"a": 1}, {"a": None}]


def test_names_and_checkpoints_are_no_difference() -> None:
    assert differences([{"name": "a", "save_every": 1, "keep": 1, "model": {"name": "x"}},
                        {"name": "b", "save_every": 2, "keep": 2, "model": {"name": "y"}}])[1] == [
        {"model.name": "x"}, {"model.name": "y"}]  # fmt: skip


def test_differences_read_like_set() -> None:
    values = {"reward.rule": False, "model.adapter": None, "judge.tier": "time", "data.train": ["a.parquet"]}
    assert assignments(values) == [
        "reward.rule=false", "model.adapter=none", "judge.tier=time", 'data.train=["a.parquet"]']  # fmt: skip


def test_all_runs_are_compared_over_the_steps_of_the_shortest() -> None:
    found = compare([_training("long", reward=[0, 0, 1, 1, 9, 9]), _training("short", reward=[2, 2, 4, 6])], 2)
    assert (found.steps, found.window) == (4, 2)
    assert [row.steps for row in found.runs] == [6, 4]
    assert [row.metrics["reward"].end.mean for row in found.runs] == [1.0, 5.0]
    [note] = found.notes
    assert note == (
        "the runs are of different lengths, 4 to 6 steps: compared over the first 4, which is all that short has made"
    )


def test_runs_of_one_length_need_no_word_about_it() -> None:
    assert compare([_training("a", loss=[1, 2]), _training("b", loss=[1, 2])], 1).notes == ()


def test_windows_shrink_until_two_of_them_fit() -> None:
    found = compare([_training("a", loss=[1.0, 2.0, 3.0, 4.0, 5.0])], 5)
    assert found.window == 2
    assert found.runs[0].metrics["loss"] == _change((1.5, 1, 2), (4.5, 4, 5))
    assert found.notes == ("5 steps are fewer than two windows of 5: means are over 2",)


def test_a_single_step_is_its_own_start_and_end() -> None:
    found = compare([_training("a", loss=[7.0])])
    assert (found.window, found.runs[0].metrics["loss"]) == (1, _change((7.0, 1, 1), (7.0, 1, 1)))


def test_metrics_that_any_run_has_are_listed_in_one_order() -> None:
    found = compare([_training("a", entropy=[1], loss=[1], grad_norm=[1]), _training("b", reward=[1], loss=[1])])
    assert found.metrics == ("reward", "loss", "entropy")
    assert [set(row.metrics) for row in found.runs] == [{"entropy", "loss"}, {"reward", "loss"}]


def test_labels_are_the_difference_then_the_name_then_the_id_and_never_the_same() -> None:
    def label(*configs: dict[str, Any]) -> list[str]:
        return [row.label for row in compare([_training(f"id{n}", c, loss=[1]) for n, c in enumerate(configs)]).runs]

    rule = {"reward": {"rule": True}}
    assert label({"name": "main", **rule}, {"name": "main", **rule}, {"reward": {"rule": False}}) == [
        "main (id0)", "main (id1)", "reward.rule=false"]  # fmt: skip
    assert label({}) == ["id0"]


def test_runs_of_different_kinds_or_judges_are_told_apart() -> None:
    one, two = _training("a", loss=[1, 1]), _training("b", judge="10", loss=[1, 1])
    assert compare([one, two], 1).notes == ("the runs have different judge versions: 9, 10",)
    sft = Training(two.info.model_copy(update={"verb": "sft"}), two.metrics)
    with pytest.raises(UsageError, match="different kinds: grpo, sft"):
        compare([one, sft])


def test_numbers_that_are_not_finite_are_told() -> None:
    found = compare([_training("a", loss=[1.0, math.nan, math.inf, 1.0]), _training("b", loss=[1, 1, 1, 1])], 2)
    assert found.notes == ("a: loss is nan at step 2 and 1 more; means leave that out",)
    assert found.runs[0].metrics["loss"] == _change((1.0, 1, 2), (1.0, 3, 4))


def test_reading_gives_back_what_the_journal_wrote(tmp_path: Path) -> None:
    run = _run(tmp_path)
    journal = Journal(run.path)
    journal.write(1, {"loss": math.nan, "reward": 1, "note": "text", "flag": True})
    journal.write(2, {"loss": -math.inf})
    journal.write(2, {"solve/pass@1": 0.5})
    found = read(run)
    assert math.isnan(found.metrics["loss"][1])
    assert found.metrics["loss"][2] == -math.inf
    assert {name: found.metrics[name] for name in found.metrics if name != "loss"} == {
        "reward": {1: 1.0}, "solve/pass@1": {2: 0.5}}  # fmt: skip
    assert (found.steps, found.unread) == (2, 0)


def test_only_numbers_are_numbers() -> None:
    assert [number(value) for value in (2, 0.5, "inf", "1.5", "x", True, None, [1])] == [
        2.0, 0.5, math.inf, None, None, None, None, None]  # fmt: skip


@pytest.mark.parametrize("damage", [b'{"step": 2, "lo', b"\xff\xfe\x00", b"7", b'{"loss": 1.0}', b""])
def test_lines_behind_a_damaged_one_are_told_not_read(tmp_path: Path, damage: bytes) -> None:
    run = _run(tmp_path, {"step": 1, "loss": 1.0})
    with (run.path / METRICS_FILE).open("ab") as file:
        file.write(damage + b'\n{"step": 3, "loss": 1.0}\n{"step": 4, "loss": 1.0}\n')
    found = read(run)
    assert (found.steps, found.unread) == (1, 2)
    assert compare([found], 1).notes[-1].endswith("metrics.jsonl is damaged after step 1; 2 lines behind that not read")


def test_a_torn_last_line_is_no_damage(tmp_path: Path) -> None:
    run = _run(tmp_path, {"step": 1, "loss": 1.0})
    with (run.path / METRICS_FILE).open("ab") as file:
        file.write(b'{"step": 2, "lo')
    assert (read(run).steps, read(run).unread) == (1, 0)


def test_runs_without_metrics_or_of_another_verb_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no metrics \(it has made no step yet\)"):
        read(_run(tmp_path))
    with pytest.raises(UsageError, match="is no training run but one of bench"):
        read(_run(tmp_path, {"step": 1, "loss": 1.0}, verb="bench"))


@_drawing
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_plot_is_the_same_file_each_time(tmp_path: Path, suffix: str) -> None:
    runs = [_training("a", reward=[0.1, math.nan, math.inf], loss=[1, 2, 3]), _training("b", loss=[3, 2, 1, 0])]
    files = [tmp_path / "new" / f"{name}{suffix}" for name in ("one", "two")]
    for file in files:
        overlay(compare(runs, 1), runs, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert sorted(files[0].parent.iterdir()) == files


@_drawing
def test_every_metric_has_a_panel_and_every_run_its_label(tmp_path: Path) -> None:
    runs = [
        _training("a", {"x": 1}, reward=[0.1, 0.2], loss=[1, 2]),
        _training("b", {"x": "$\\frac"}, loss=[3, 2, 1]),
    ]
    overlay(compare(runs, 1), runs, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for part in (">reward<", ">loss<", ">x=1<", ">x=$\\frac<", "2 GRPO runs: running mean over 1 step; dotted"):
        assert part in text


@_drawing
def test_a_runs_own_curves_are_drawn_as_they_are(tmp_path: Path) -> None:
    rows = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": "nan"}, {"step": 3, "loss": 3.0}]
    assert draw(rows, ("loss", "reward"), tmp_path / "curves.svg", "title")
    text = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    assert ">loss<" in text
    assert ">title<" in text
    assert ">reward<" not in text
    assert not draw(rows, ("reward",), tmp_path / "nothing.png", "title")
    assert not (tmp_path / "nothing.png").exists()


@_drawing
def test_a_plot_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    runs = [_training("a", loss=[1])]
    with pytest.raises(UsageError, match=r"neither .png nor .svg"):
        overlay(compare(runs), runs, tmp_path / "a.pdf")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        overlay(compare(runs), runs, tmp_path / "file" / "a.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        overlay(compare(runs), runs, tmp_path / "folder.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.png"]
    others = [_training("a", grad_norm=[1])]
    with pytest.raises(UsageError, match="nothing to draw"):
        overlay(compare(others), others, tmp_path / "a.png")


def test_without_matplotlib_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    runs = [_training("a", loss=[1])]
    with pytest.raises(PrerequisiteError, match=r"plots need matplotlib.*autotriton\[report\]"):
        overlay(compare(runs), runs, tmp_path / "a.png")
    assert not draw([{"step": 1, "loss": 1.0}], ("loss",), tmp_path / "a.png", "title")
