"""The parts of a build by themselves: lines, caps, configs, benchmarks, and the engine that stays."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotriton.cli.main import main
from autotriton.configs import checked, load
from autotriton.data.build import tables
from autotriton.data.build.benchmarks import with_graphs
from autotriton.data.build.building import build
from autotriton.data.build.capping import capped, largest
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.folder import Folder, Lines
from autotriton.data.build.forming import Wish, formed
from autotriton.data.build.records import Proposal
from autotriton.data.build.selecting import select
from autotriton.data.build.sources import drafts
from autotriton.data.gather import GatherOptions, gather, gathered
from autotriton.data.harvest import Report
from autotriton.data.records import Draft, SourceKind
from autotriton.data.rows import Example
from autotriton.errors import PrerequisiteError, ProposerError, UsageError
from autotriton.judge.processes import Processes
from autotriton.propose.compiler.serving import TemplatesServer
from autotriton.types import Candidate, Task

ROOT = Path(__file__).resolve().parents[3]
VALUES = {"name": "x", "synth": {"count": 5}, "finish": {"pairs": 5, "rl": 5, "held_out": 5}}
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
MODULE = HEAD + (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.fc = nn.Linear(8, 16)\n\n"
    "    def forward(self, x):\n        return F.relu(self.fc(x))\n\n\n"
    "def get_inputs():\n    return [torch.randn(4, 8)]\n"
)
FUNCTION = HEAD + (
    "def run(bias, inputs, weight):\n    y = torch.addmm(bias, inputs, weight.t())\n"
    "    return torch.relu(y.clone())\n\n\n"
    "def get_inputs():\n    return [torch.randn(16), torch.randn(4, 8), torch.randn(16, 8)]\n"
)


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "configs" / "data").glob("*.toml")))
def test_the_shipped_configs_are_valid(name):
    assert load(BuildConfig, ROOT / "configs" / "data" / name).finish.pairs


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"synt": {"count": 5}}, "unknown key synt"),
        ({"synth": {}}, "nothing to gather"),
        ({"verify": {"policy": "paper"}}, 'only "strict" makes data'),
        ({"propose": {"distil": {"share": 0.5}}}, "distil.share needs distil.url"),
    ],
)
def test_a_wrong_config_is_one_line(change, said):
    with pytest.raises(UsageError, match=said):
        checked(BuildConfig, {**VALUES, **change})


def test_a_build_without_benchmarks_to_keep_out_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no benchmark to keep out"):
        list(build(checked(BuildConfig, VALUES), tmp_path / "build"))


def test_a_harvest_folder_that_is_missing_is_one_line(tmp_path):
    values = {**VALUES, "select": {"decontaminate": False}, "harvest": {"folders": [str(tmp_path / "nowhere")]}}
    with pytest.raises(UsageError, match=r"harvest.folders: .*nowhere is not a folder"):
        list(build(checked(BuildConfig, values), tmp_path / "build"))


def _pair(name: str, family: str, origin: str = "synth") -> Example:
    about = {"prompt": "?", "source": MODULE, "origin": origin, "licence": "Apache-2.0 and BSD-3-Clause (PyTorch)"}
    return Example(id=name, families=(family,), completion="", code="", route="templates", **about)


def test_the_tasks_of_a_data_set_are_asked_again_each_once(tmp_path):
    pairs = [
        _pair("synth-1-2-mlp/templates-abc-0", "matmul"),
        _pair("synth-1-2-mlp/templates-abc-1", "matmul"),
        _pair("synth-1-3-chain/templates-def-0", "pointwise"),
        _pair("timm-block/templates-9-0", "matmul", "harvest:timm==1.0"),
        _pair("wrappers-7-1/wrappers-1-0", "matmul", "wrappers"),
    ]
    tables.write(pairs, Example, tmp_path / "sft.parquet")
    values = {**VALUES, "synth": {}, "rows": {"folder": str(tmp_path), "families": ["matmul"]}}
    found = list(drafts(checked(BuildConfig, values), Report()))
    assert [draft.task.id for draft in found] == ["synth-1-2-mlp", "timm-block"]
    assert [draft.kind for draft in found] == [SourceKind.SYNTH, SourceKind.HARVEST]
    assert found[1].origin == "timm==1.0"
    assert {draft.licence for draft in found} == {"Apache-2.0"}


def test_a_data_set_that_is_missing_is_one_line(tmp_path):
    values = {**VALUES, "synth": {}, "rows": {"folder": str(tmp_path)}}
    with pytest.raises(UsageError, match=r"holds no sft\.parquet"):
        list(drafts(checked(BuildConfig, values), Report()))


def test_stages_need_those_before_them(tmp_path, capsys):
    config = tmp_path / "c.toml"
    config.write_text('name = "x"\n[synth]\ncount = 2\n[finish]\npairs = 1\nrl = 1\nheld_out = 1\n', encoding="utf-8")
    assert main(["data", "build", str(config), "--folder", str(tmp_path / "b"), "--stage", "verify"]) == 2
    assert "run the stage `gather` first" in capsys.readouterr().err
    assert main(["data", "build", str(config), "--shard", "3/2"]) == 2
    assert main(["data", "stats", str(tmp_path)]) == 2


def _proposal(number: int) -> Proposal:
    return Proposal(task_hash=f"{number:04d}", route="templates", detail="x" * 200)


def test_a_torn_line_is_cut_off_and_made_again(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = Lines(path, Proposal)
    lines.append(_proposal(1))
    lines.close()
    with path.open("ab") as file:
        file.write(b"torn" * 40_000)
    assert [line.task_hash for line in lines] == ["0001"]
    lines.append(_proposal(2))
    assert [line.task_hash for line in lines] == ["0001", "0002"]
    lines.close()


def test_a_full_disk_is_one_line_and_finished_rows_stay(tmp_path):
    lines = Lines(tmp_path / "lines.jsonl", Proposal)
    lines.append(_proposal(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, hard))  # the next line fits in part only
    try:
        with pytest.raises(PrerequisiteError, match=r"lines.jsonl cannot be used"):
            lines.append(_proposal(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [line.task_hash for line in lines] == ["0001"]
    lines.append(_proposal(3))
    assert [line.task_hash for line in lines] == ["0001", "0003"]


def test_two_builds_do_not_share_a_folder(tmp_path):
    config = checked(BuildConfig, VALUES)
    with Folder(tmp_path, config), pytest.raises(UsageError, match="being written by another process"):
        Folder(tmp_path, config).__enter__()


def test_no_family_is_above_its_share():
    rows = ["a"] * 50 + ["b"] * 20 + ["c"] * 20 + ["d"] * 20
    reasons: list[str] = []
    kept = Counter(capped(rows, str, 0.35, 1000, lambda row, why: reasons.append(why)))
    # 60 others allow 92 rows: a third of that and a bit more, 32, is 35%.
    assert kept == {"a": 32, "b": 20, "c": 20, "d": 20}
    assert reasons == ["over its family's share"] * 18
    assert largest(Counter(rows), 0.35, 1000) == 92


def test_where_no_share_can_hold_all_rows_stay():
    assert len(capped(["a", "a", "b"], str, 0.35, 10, lambda row, why: None)) == 3


@pytest.fixture
def templates() -> Iterator[Callable[[str], str]]:
    server = TemplatesServer(timeout_s=4.0)

    def ask(body: str) -> str:
        text = f"{HEAD}import os\nimport sys\n\n\ndef run(x):\n    {body}\n\n\n"
        source = text + "def get_inputs():\n    return [torch.randn(4, 8)]\n"
        return next(server.propose(Task(id="task", source=source, entry="run"), ())).code

    yield ask
    server.close()


@pytest.mark.interp
def test_the_engine_that_stays_survives_what_tasks_do(templates):
    first = templates("return torch.relu(x) + 1")
    assert "@triton.jit" in first
    with pytest.raises(ProposerError, match="not supported"):
        templates("return torch.linalg.svdvals(x)")
    assert templates("print('noise', flush=True); return torch.relu(x) + 1") != ""
    assert ".reshape()" not in templates("return x.sum((0, 1), keepdim=True).reshape(())")
    with pytest.raises(ProposerError, match="was stopped after 4 s"):
        templates("while True: pass")
    with pytest.raises(ProposerError, match="ended with code 7"):
        templates("os._exit(7)")
    assert templates("return torch.relu(x) + 1") == first


@pytest.mark.interp
def test_a_benchmarks_twin_is_removed_whatever_it_looks_like(tmp_path):
    """The training task is a function, the benchmark's a module with other names: their graphs with shapes agree."""
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "1_Twin.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "suite" / "2_Broken.py").write_text(MODULE.replace("8, 16", "9, 16"), encoding="utf-8")
    other = FUNCTION.replace("torch.relu(y.clone())", "torch.tanh(y)")
    drafts = [
        Draft(task=Task(id=name, source=text, entry="run"), kind=SourceKind.SYNTH, origin=name, licence="Apache-2.0")
        for name, text in (("twin", FUNCTION), ("other", other))
    ]
    processes = Processes()
    try:
        gather(drafts, tmp_path / "tasks", GatherOptions(), workers=1, processes=processes)
        kept = with_graphs([tmp_path / "suite"], processes)
    finally:
        processes.close()
    assert (kept.files, kept.graphs, list(kept.without_graph)) == (2, 1, ["2_Broken.py"])
    config = checked(BuildConfig, {**VALUES, "select": {"family_share": 1.0, "held_out": 0.0}})
    chosen, removed = select(list(gathered(tmp_path / "tasks")), config, kept)
    assert [row.task.task.id for row in chosen] == ["other"]
    assert [(row.row, row.reason, row.detail) for row in removed] == [("twin", "benchmark: graph", "1_Twin.py")]


def test_forms_are_the_same_from_one_process_or_several():
    code = (ROOT / "examples" / "softmax_triton.py").read_text(encoding="utf-8")
    candidates = [Candidate(task_id=str(number), code=f"{code}\n# {number}\n") for number in range(33)]
    wishes = [Wish(candidate, 2, "1") for candidate in [*candidates, Candidate(task_id="x", code="def (")]]
    several, one = formed(wishes, 2), formed(wishes, 1)
    assert several == one
    assert isinstance(several[-1], str)
    assert several[-1].startswith("SyntaxError")
    assert all(form.code in form.completion for forms in several[:-1] for form in forms)
