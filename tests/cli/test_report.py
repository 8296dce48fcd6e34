"""`autotriton report` and the comparing of runs, on runs that were written to a store."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import typer
from rich.console import Console

from autotriton.bench.comparing import compare as compare_runs
from autotriton.bench.records import load, save_suite
from autotriton.cli import compare, show_bench
from autotriton.errors import UsageError
from autotriton.store import Store

_spec = importlib.util.spec_from_file_location("made_up", Path(__file__).parents[1] / "report" / "made_up.py")
made_up = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made_up)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def stored(store):
    """Writes a made-up run to the store as the runner does; returns its id."""

    def write(suite="kernelbench-l1", tasks=12, k=1, **more):
        made = made_up.made_up(suite, tasks, k, **more)
        with Store(store).create("bench", made.info.config, judge_version="9") as run:
            save_suite(run, made.suite)
            for attempt in made.attempts:
                run.append(attempt.model_copy(update={"run_id": run.id}))
            return run.id

    return write


def test_tables_show_the_run_beside_the_published_rows(run, store, stored):
    id = stored()
    code, out, err = run("report", id, "--runs", store)
    assert (code, err) == (0, "")
    for part in (id, "model:made-up-1b", "AutoTriton 8B", "DeepSeek-R1-0528", "checked", "delegation", "skipped"):
        assert part in out
    assert "not measured: TritonBench G, TritonBench T, KernelBench 2, KernelBench 3" in out


def test_json_holds_every_score(run, store, stored):
    ids = [stored(), stored("kernelbench-l2", 10, 4)]
    code, out, _ = run("report", *ids, "--runs", store, "--json")
    found = json.loads(out, parse_constant=pytest.fail)["scores"]
    assert code == 0
    assert [score["run_id"] for score in found] == ids
    assert [score["suite"] for score in found] == ["kernelbench-l1", "kernelbench-l2"]
    assert set(found[1]["pass_at"]) == {"1", "2", "4"}
    assert found[0]["checked"]["low"] <= found[0]["checked"]["value"] <= found[0]["checked"]["high"]


def test_page_and_plots_are_written(run, store, stored, tmp_path):
    code, out, err = run(
        "report", stored(), "--runs", store, "--html", tmp_path / "new" / "page.html", "--plots", tmp_path / "plots"
    )
    assert (code, out) == (0, "")
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert len(list((tmp_path / "plots").glob("*.svg"))) == len(list((tmp_path / "plots").glob("*.png"))) >= 4
    assert err.count("wrote ") == 1 + len(list((tmp_path / "plots").iterdir()))


def test_unknown_run_is_one_line_with_the_nearest(run, store, stored):
    id = stored()
    code, out, err = run("report", "20240101-nothing", "--runs", store)
    assert (code, out) == (2, "")
    assert err == f"error: no run '20240101-nothing' in {store} (nearest: {id})\n"


def test_run_of_another_verb_is_refused(run, store):
    with Store(store).create("optimize", {}) as other:
        code, _, err = run("report", other.id, "--runs", store)
    assert code == 2
    assert "is no benchmark run" in err


def test_run_named_twice_is_refused(run, store, stored):
    id = stored()
    code, _, err = run("report", id, id, "--runs", store)
    assert (code, err) == (2, f"error: run {id} is named twice (name different runs)\n")


def test_page_that_cannot_be_written_is_one_line(run, store, stored, tmp_path):
    code, _, err = run("report", stored(), "--runs", store, "--html", tmp_path)
    assert code == 2
    assert err.startswith(f"error: cannot write {tmp_path}: ")


@pytest.fixture
def comparing(capsys):
    """The verb as it is registered below `bench`, called as typer calls it."""
    app = typer.Typer()
    app.command()(compare.compare)

    def call(*args):
        app(args=[str(arg) for arg in args], standalone_mode=False)
        return capsys.readouterr().out

    return call


def test_runs_are_compared_over_common_tasks(comparing, store, stored):
    one, two = stored(), stored(proposer="model:made-up-1b", seed=7)
    out = comparing(one, two, "--runs", store)
    assert "12 common tasks" in out
    assert f"{two} against {one}: solves 0 tasks more often, 0 less often" in out
    assert "p = 1.000" in out
    assert "AutoTriton 8B" in out


def test_comparison_as_json(comparing, store, stored):
    one, two = stored(), stored()
    found = json.loads(comparing(one, two, "--runs", store, "--json"), parse_constant=pytest.fail)
    assert (found["suite"], len(found["tasks"]), len(found["pairs"])) == ("kernelbench-l1", 12, 1)
    assert found["published"][0]["numbers"]["kernelbench-l1"]["exec"] == 10


@pytest.mark.parametrize("others", [{"suite": "kernelbench-l2"}, None])
def test_what_cannot_be_compared_is_refused(comparing, store, stored, others):
    ids = [stored(), stored(**others)] if others else [stored()]
    with pytest.raises(UsageError, match=r"different suites|nothing to compare"):
        comparing(*ids, "--runs", store)


def test_foreign_text_is_no_markup(store, stored):
    hostile = "[red]x[/red] [/]"
    runs = [load(Store(store).open(stored(proposer=hostile))) for _ in range(2)]
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show_bench.comparison(compare_runs(runs), console)
    assert hostile in console.export_text()


def test_a_run_is_found_by_the_folder_that_bench_prints(run, comparing, store, stored):
    one, two = stored(), stored()
    code, out, err = run("report", store / one, "--json")
    assert (code, json.loads(out)["scores"][0]["run_id"]) == (0, one), err
    assert f"{two} against {one}" in comparing(store / one, store / two)


def test_foreign_text_gives_the_terminal_no_commands(run, store, stored):
    id = stored(proposer="model:\x1b[2J\x1b]0;title\x07")
    code, out, _ = run("report", id, "--runs", store)
    assert (code, "\x1b" in out, "\x07" in out) == (0, False, False)
    assert "\\x1b[2J" in "".join(out.split())


def test_an_interrupted_run_says_what_is_missing_and_a_share_of_nothing_is_a_dash(run, store, stored):
    made = made_up.made_up(tasks=6, k=2)
    broken = next(attempt for attempt in made_up.made_up(tasks=12).attempts if attempt.verdict is None)
    first = made.suite.tasks[0]
    with Store(store).create("bench", {**made.info.config, "tier": "rules"}) as part:
        save_suite(part, made.suite.model_copy(update={"tasks": (first,)}))
        told = {"task": broken.task.model_copy(update={"id": first.id}), "run_id": part.id, "official": None}
        part.append(broken.model_copy(update=told))
    code, out, err = run("report", part.id, "--runs", store)
    assert code == 0, err
    assert "1 of 1 answered; 1 answer never came" in out
    with Store(store).create("bench", {**made.info.config, "k": 1}) as none:
        save_suite(none, made.suite.model_copy(update={"tasks": (first,)}))
        none.append(broken.model_copy(update={**told, "run_id": none.id}))
    code, out, _ = run("report", none.id, "--runs", store)
    assert "checked - of 0 tasks" in out
    assert "0.0" not in out.split("Seed-Coder")[0]
