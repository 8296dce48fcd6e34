"""Gathering with the real judge's processes: every draft ends as a row, whatever it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotriton.data.gather import REFUSED_FILE, TASKS_FILE, GatherOptions, gather, gathered, refusals
from autotriton.data.records import Difficulty, Draft, GatheredTask, SourceKind
from autotriton.data.synth import synthesise
from autotriton.data.synth.recipes import networks
from autotriton.errors import UsageError
from autotriton.judge.processes import Processes
from autotriton.types import Task

pytestmark = pytest.mark.interp

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
INPUTS = "\n\n\ndef get_inputs():\n    return [torch.randn(4, 8)]\n"
MODULE = HEAD + (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.fc = nn.Linear(8, 16)\n\n"
    "    def forward(self, x):\n        return F.relu(self.fc(x))" + INPUTS
)
FUNCTION = HEAD + (
    "def run(bias, inputs, weight):\n    y = torch.addmm(bias, inputs, weight.t())\n"
    "    return torch.relu(y.clone())\n\n\n"
    "def get_inputs():\n    return [torch.randn(16), torch.randn(4, 8), torch.randn(16, 8)]\n"
)
TEXTS = {
    "module": MODULE,
    "function": FUNCTION,
    "raises": HEAD + "def run(x):\n    return x @ x" + INPUTS,
    "random": HEAD + "def run(x):\n    return x + torch.randn_like(x)" + INPUTS,
    "degenerate": HEAD + "def run(x):\n    return torch.zeros_like(x) + 1.0" + INPUTS,
    "not finite": HEAD + "def run(x):\n    return torch.log(x)" + INPUTS,
    "no compute": HEAD + "def run(x):\n    return x.t()" + INPUTS,
    "deadline": HEAD + "def run(x):\n    while True:\n        pass" + INPUTS,
    "crashed": HEAD + "import os\n\n\ndef run(x):\n    os._exit(3)" + INPUTS,
}


def _draft(name: str, source: str, *alternatives: str, kind: SourceKind = SourceKind.SYNTH) -> Draft:
    entry = "Model" if "class Model" in source else "run"
    task = Task(id=name, source=source, entry=entry)
    return Draft(task=task, kind=kind, origin="a test", licence="Apache-2.0", alternatives=alternatives)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.close()


NETWORKS = [recipe.name for recipe in networks.RECIPES]
OPTIONS = GatherOptions(deadline_s=4.0)


@pytest.fixture(scope="module")
def folder(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One gathering over every kind of draft; the tests look at what it left."""
    folder = tmp_path_factory.mktemp("gathered")
    drafts = [_draft(name, source) for name, source in TEXTS.items()]
    # The first text does not run, the second does: as a harvested module whose inputs were guessed.
    wrong = MODULE.replace("randn(4, 8)", "randn(4, 9)")
    drafts.append(_draft("second try", wrong, MODULE.replace("16", "12"), kind=SourceKind.HARVEST))
    drafts += [synthesise(4, number) for number in range(6)]
    drafts += [synthesise(4, number, scale="small", recipe=name) for name in NETWORKS for number in range(2)]
    summary = gather(drafts, folder, OPTIONS, workers=2, processes=processes)
    assert summary.drafts == len(drafts)
    return folder


def test_every_refusal_has_its_reason(folder: Path) -> None:
    reasons = {refusal.task_id: refusal.reason for refusal in refusals(folder)}
    for name in ("raises", "random", "degenerate", "not finite", "no compute", "deadline", "crashed"):
        assert reasons[name] == name
    assert all(refusal.detail for refusal in refusals(folder))


def test_admitted_tasks_are_measured_and_tagged(folder: Path) -> None:
    row = {row.task.id: row for row in gathered(folder)}["module"]
    assert row.ops == ("addmm", "relu")
    assert row.families == ("matmul", "pointwise")
    assert (row.depth, row.calls, row.difficulty) == (2, 2, Difficulty.MEDIUM)
    assert row.flops == 2 * 4 * 8 * 16 + 4 * 16
    assert row.bytes == 4 * (4 * 8 + 16 * 8 + 16 + 4 * 16)
    assert row.input_elements == 32
    assert row.dtypes == ("float32",)


def test_a_module_and_a_function_of_the_same_graph_are_twins(folder: Path) -> None:
    rows = {row.task.id: row for row in gathered(folder)}
    assert rows["module"].graph == rows["function"].graph
    assert rows["module"].shaped_graph == rows["function"].shaped_graph


def test_the_first_alternative_that_runs_becomes_the_task(folder: Path) -> None:
    row = {row.task.id: row for row in gathered(folder)}["second try"]
    assert "nn.Linear(8, 12)" in row.task.source
    assert row.kind is SourceKind.HARVEST


def test_what_the_generator_makes_is_admitted(folder: Path) -> None:
    rows = [row for row in gathered(folder) if row.task.id.startswith("synth-")]
    assert len(rows) >= 5
    assert all(row.kind is SourceKind.SYNTH and row.origin.startswith("autotriton-synth") for row in rows)


def test_networks_run_and_are_admitted(folder: Path) -> None:
    admitted = {row.task.id for row in gathered(folder)}
    assert admitted >= {f"synth-4-{number}-{name}" for name in NETWORKS for number in range(2)}


def test_a_resumed_run_does_nothing_twice_and_goes_on(folder: Path, processes: Processes, tmp_path: Path) -> None:
    for name in (TASKS_FILE, REFUSED_FILE, "gather.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with (tmp_path / TASKS_FILE).open("ab") as file:
        file.write(b'{"draft": "torn')
    before = len(list(gathered(tmp_path)))
    drafts = [*(_draft(name, source) for name, source in TEXTS.items()), _draft("new", MODULE.replace("16", "24"))]
    summary = gather(drafts, tmp_path, OPTIONS, workers=1, processes=processes)
    assert (summary.skipped, summary.drafts, summary.admitted) == (len(TEXTS), 1, 1)
    assert len(list(gathered(tmp_path))) == before + 1
    assert "done before" in summary.line()


def test_a_changed_configuration_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="begun with another seed"):
        gather([], folder, GatherOptions(deadline_s=4.0, seed=1))


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / TASKS_FILE).write_text(json.dumps({"draft": "x"}) + "\nno json\n")
    with pytest.raises(UsageError, match=f"{TASKS_FILE} line 1 is no GatheredTask"):
        list(gathered(tmp_path))


def test_rows_go_into_a_parquet_table_and_come_back(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table
    rows = list(gathered(folder))
    parquet.write_table(table.from_pylist([row.columns() for row in rows]), tmp_path / "tasks.parquet")
    read = parquet.read_table(tmp_path / "tasks.parquet").to_pylist()
    assert [GatheredTask.from_columns(line) for line in read] == rows
