"""A whole build with the real judge: interrupted or split, it comes to the same data set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotriton.cli.main import main
from autotriton.configs import checked, plain
from autotriton.data.build import tables
from autotriton.data.build.building import Machine, build
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.folder import Folder
from autotriton.data.quality.split import TEACH
from autotriton.data.rows import Example, TaskRow
from autotriton.errors import UsageError

# The first test waits for the whole build: minutes on a machine that is busy.
pytestmark = [pytest.mark.interp, pytest.mark.slow, pytest.mark.timeout(900)]


def _texts(folder: Path) -> dict[str, list[tuple[str, ...]]]:
    place = tables.place_of(folder)
    pairs = [(row.id, row.prompt, row.completion, row.code) for row in tables.read(place, "sft", Example)]
    tasks = {name: tables.read(place, name, TaskRow) for name in ("rl", "held_out")}
    return {"sft": pairs, **{name: [(row.id, row.prompt, row.source) for row in rows] for name, rows in tasks.items()}}


def test_a_killed_build_and_a_split_one_give_the_same_rows(built):
    resumed, split = _texts(built.resumed), _texts(built.split)
    assert resumed == split
    assert len(resumed["sft"]) >= 5
    assert resumed["rl"]
    assert resumed["held_out"]


def test_every_pair_was_accepted_and_says_so(built):
    for row in tables.read(built.resumed / "dataset", "sft", Example):
        assert (row.policy, row.tier, row.route) == ("strict", "interpret", "templates")
        assert row.cases >= 2
        assert row.kernels >= 1
        assert row.code in row.completion
        assert "@triton.jit" in row.code
        assert row.source in row.prompt or row.style == "prose"


def test_no_held_out_graph_is_taught(built):
    place = built.resumed / "dataset"
    held = {row.graph for row in tables.read(place, "held_out", TaskRow)}
    taught = {row.graph for name in ("sft", "rl") for row in tables.read(place, name, tables.FILES[name])}
    assert held
    assert not held & taught


def test_every_teaching_task_is_accounted_for(built):
    with Folder(built.resumed, built.config) as folder:
        teaching = {chosen.key for chosen in folder.selected if chosen.side == TEACH}
        proposals = list(folder.proposals)
        judged = list(folder.judged)
    assert {proposal.task_hash for proposal in proposals} == teaching
    assert len(proposals) == len(teaching)
    assert len({line.key for line in judged}) == len(judged)
    assert {line.task_hash for line in judged} == {line.task_hash for line in proposals if line.candidates}


def test_a_finished_build_does_nothing_again(built, monkeypatch):
    monkeypatch.setattr("autotriton.data.build.verifying.formed", lambda *_: pytest.fail("forms are made again"))
    before = (built.resumed / "judged.jsonl").read_bytes()
    told = list(build(built.config, built.resumed, ("gather", "propose", "verify"), Machine(workers=1)))
    assert [progress.done for progress in told] == [0, 0, 0]
    assert (built.resumed / "judged.jsonl").read_bytes() == before


def test_a_changed_config_is_refused_by_name(built):
    values = plain(built.config)
    values["synth"]["seed"] = 99
    with pytest.raises(UsageError, match=r"synth.seed \(21 became 99\)"):
        list(build(checked(BuildConfig, values), built.resumed))


def test_the_card_counts_what_is_there(built):
    place = built.resumed / "dataset"
    card = (place / "card.md").read_text(encoding="utf-8")
    stats = json.loads((place / "stats.json").read_text(encoding="utf-8"))
    pairs = tables.read(place, "sft", Example)
    assert stats["sft"]["rows"] == len(pairs)
    assert stats["sft"]["routes"] == {"templates": len(pairs)}
    assert "not decontaminated" in card
    assert card.count("**Answer**") == min(10, len(pairs))
    assert (place / "families.png").stat().st_size > 1000


def test_datasets_reads_the_files(built):
    datasets = pytest.importorskip("datasets")
    place = built.resumed / "dataset"
    loaded = datasets.load_dataset("parquet", data_files=str(place / "sft.parquet"), cache_dir=str(place / "cache"))
    rows = tables.read(place, "sft", Example)
    assert [row["completion"] for row in loaded["train"]] == [row.completion for row in rows]
    assert loaded["train"][0]["families"] == list(rows[0].families)


def test_exports_are_what_the_trainers_read(built, tmp_path, capsys):
    datasets = pytest.importorskip("datasets")
    for form in ("trl", "verl", "jsonl"):
        assert main(["data", "export", form, str(built.resumed), str(tmp_path / form)]) == 0
    rows = tables.read(built.resumed / "dataset", "sft", Example)
    tasks = tables.read(built.resumed / "dataset", "rl", TaskRow)

    def read(kind: str, path: Path) -> list[dict]:
        return list(datasets.load_dataset(kind, data_files=str(path), cache_dir=str(tmp_path / "cache"))["train"])

    first = read("json", tmp_path / "trl" / "sft.jsonl")[0]
    assert first["prompt"] == [{"role": "user", "content": rows[0].prompt}]
    assert first["completion"] == [{"role": "assistant", "content": rows[0].completion}]
    asked = read("parquet", tmp_path / "verl" / "rl.parquet")[0]
    assert asked["data_source"] == "autotriton"
    assert asked["prompt"] == [{"role": "user", "content": tasks[0].prompt}]
    assert asked["reward_model"] == {"style": "rule", "ground_truth": tasks[0].source}
    assert asked["extra_info"]["id"] == tasks[0].id
    taught = read("parquet", tmp_path / "verl" / "sft.parquet")[0]
    assert [message["role"] for message in taught["messages"]] == ["user", "assistant"]
    lines = (tmp_path / "jsonl" / "sft.jsonl").read_text(encoding="utf-8").splitlines()
    assert [Example.model_validate_json(line) for line in lines] == rows


def test_stats_and_verify_look_at_a_finished_set(built, capsys):
    assert main(["data", "stats", str(built.resumed), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["held_out"]["graphs_also_in_training"] == 0
    args = ["--rows", "2", "--seed", "1", "--tier", "interpret", "--device", "cpu", "--workers", "2"]
    assert main(["data", "verify", str(built.resumed), *args]) == 0
    assert "2 of 2 rows are correct" in capsys.readouterr().out


def test_verify_names_a_row_that_does_not_hold(built, tmp_path, capsys):
    row = tables.read(built.resumed / "dataset", "sft", Example)[0]
    wrong = row.model_copy(update={"code": row.code.replace("tl.store(", "tl.load(", 1)})
    tables.write([wrong], Example, tmp_path / "sft.parquet")
    assert main(["data", "verify", str(tmp_path), "--tier", "interpret", "--device", "cpu"]) == 1
    assert row.id in capsys.readouterr().out
