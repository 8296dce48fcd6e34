"""A data set's answers written anew: what stayed the same keeps its verdict, what changed is judged or goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autotriton.cli.main import app
from autotriton.data.build import renewing, tables
from autotriton.data.build.renewing import JOURNAL, Renewed, renew
from autotriton.data.rows import Example, TaskRow
from autotriton.errors import UsageError

from .conftest import Built


@pytest.fixture
def old(built: Built, tmp_path: Path) -> Path:
    """The set as an earlier version might have written it: one program differs, one task is beyond the templates."""
    place = tmp_path / "set"
    shutil.copytree(built.resumed / "dataset", place)
    rows = tables.read(place, "sft", Example)
    assert len(rows) > 2
    rows[0] = rows[0].model_copy(update={"code": rows[0].code + "\n# written otherwise\n", "judge_version": "0.1"})
    rows[1] = rows[1].model_copy(update={"source": rows[1].source.replace("def get_inputs", "def get_nothing")})
    tables.write(rows, Example, place / "sft.parquet")
    return place


def test_what_changed_is_judged_and_what_fails_leaves(built: Built, old: Path) -> None:
    before = tables.read(old, "sft", Example)
    asked = [tables.read(old, name, TaskRow) for name in ("rl", "held_out")]
    progress = renew(built.config, old, workers=2)
    after = {row.id: row for row in tables.read(old, "sft", Example)}
    assert progress.done == len(before)
    assert (progress.counts["renewed"], progress.counts["not proposed"]) == (1, 1)
    assert list(after) == [row.id for row in before if row is not before[1]]
    first = after[before[0].id]  # named after the program, which is what it was before
    assert "# written otherwise" not in first.code
    assert first.code in first.completion
    assert first.judge_version != "0.1"
    assert first.prompt == before[0].prompt
    assert [after[row.id] for row in before[2:]] == before[2:]
    assert [tables.read(old, name, TaskRow) for name in ("rl", "held_out")] == asked
    assert json.loads((old / "stats.json").read_text())["sft"]["rows"] == len(after)
    last = (old / "removed.jsonl").read_text().splitlines()[-1]
    assert {key: json.loads(last)[key] for key in ("row", "stage")} == {"row": before[1].id, "stage": "renew"}
    assert f"| `sft.parquet` | {len(after)} |" in (old / "card.md").read_text()
    assert not (old / JOURNAL).exists()


def test_a_killed_renewal_goes_on(built: Built, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tables.read(old, "sft", Example)
    known = Renewed(row=rows[0].id, example=rows[0].model_copy(update={"completion": "judged before the kill"}))
    (old / JOURNAL).write_text(known.model_dump_json() + "\n" + '{"row": "unfini')
    renewed: list[str] = []
    real = renewing._renew

    def watched(rows: list[Example], *rest: Any) -> None:
        renewed.extend(row.id for row in rows)
        real(rows, *rest)

    monkeypatch.setattr(renewing, "_renew", watched)
    progress = renew(built.config, old, workers=2)
    assert (progress.before, progress.done) == (1, len(rows) - 1)
    assert renewed == [row.id for row in rows[1:]]
    assert tables.read(old, "sft", Example)[0].completion == "judged before the kill"


def test_only_the_families_asked_for(built: Built, old: Path) -> None:
    rows = tables.read(old, "sft", Example)
    progress = renew(built.config, old, families=("no such family",), workers=1)
    assert progress.done == 0
    assert tables.read(old, "sft", Example) == rows


def test_a_config_of_another_set_is_refused(built: Built, old: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(built.config_file.read_text().replace('"tiny"', '"another"'))
    result = CliRunner().invoke(app, ["data", "renew", str(other), str(old)])
    assert isinstance(result.exception, UsageError)
    assert "is the set 'tiny'" in str(result.exception)
