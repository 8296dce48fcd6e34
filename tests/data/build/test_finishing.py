"""The last stage over a small folder of judged answers: which become pairs, and what is said of the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autotriton.configs import checked
from autotriton.data.build import tables
from autotriton.data.build.building import build
from autotriton.data.build.config import BuildConfig
from autotriton.data.build.finishing import REMOVED_FILE, STATS_FILE
from autotriton.data.build.folder import SELECTION_FILE, Folder
from autotriton.data.build.questions import example
from autotriton.data.build.records import Judged, Removed, Selected
from autotriton.data.quality.split import HELD_OUT, REINFORCE, TEACH
from autotriton.data.records import Difficulty, GatheredTask, SourceKind
from autotriton.data.rows import Example, TaskRow
from autotriton.types import Task

SOURCE = "import torch\n\n\ndef run(x):\n    return {call}\n\n\ndef get_inputs():\n    return [torch.randn(4, 8)]\n"
CODE = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + offsets, offsets < n_cols)
    tl.store(out_ptr + tl.program_id(0) * n_cols + offsets, {formula}, offsets < n_cols)


def run(x):
    rows, n_cols = x.shape
    out = torch.empty(({rows}, n_cols), device=x.device)
    kernel[(rows,)](x, out, n_cols, BLOCK=8)
    return out
"""
GOOD = ("relu", "torch.relu(x)", CODE.format(formula="tl.maximum(x, 0.0)", rows="rows"))
OTHER = ("square", "torch.square(x) + torch.sin(x)", CODE.format(formula="x * x + tl.sin(x)", rows="rows"))
ONE_BATCH = (*OTHER[:2], OTHER[2].replace("(rows, n_cols)", "(1, n_cols)"))


def _config(way: str) -> BuildConfig:
    values = {
        "name": "small",
        "synth": {"count": 2},
        "select": {"decontaminate": False, "family_share": 1.0},
        "propose": {"way": way, "prose": 0.0},
        "finish": {"pairs": 9, "rl": 9, "held_out": 9},
    }
    return checked(BuildConfig, values)


def _gathered(name: str, call: str) -> GatheredTask:
    return GatheredTask(
        task=Task(id=name, source=SOURCE.format(call=call), entry="run"),
        kind=SourceKind.SYNTH,
        origin="a test",
        licence="Apache-2.0",
        ops=(name,),
        families=("pointwise",),
        depth=1,
        calls=1,
        difficulty=Difficulty.EASY,
        flops=1,
        bytes=1,
        input_elements=1,
        dtypes=("float32",),
        graph=name,
        shaped_graph=name,
    )


def _select(folder: Folder, sides: dict[str, str]) -> None:
    calls = {name: call for name, call, _ in (GOOD, OTHER)}
    folder.selected.replace(Selected(task=_gathered(name, calls[name]), side=side) for name, side in sides.items())
    about = {
        "gathered": 2,
        "removed": [],
        "benchmarks": None,
        "harvest": {"packages": [], "refused": {}, "problems": {}},
    }
    (folder.path / SELECTION_FILE).write_text(json.dumps(about), encoding="utf-8")


@pytest.fixture
def judged(tmp_path: Path, make_verdict) -> Callable[..., Folder]:
    """A build's folder whose answers were all accepted, each to a task that teaches."""

    def make(*answers: tuple[str, str, str], way: str = "plain") -> Folder:
        folder = Folder(tmp_path / "build", _config(way))
        with folder:
            _select(folder, {name: TEACH for name, _, _ in answers})
            for name, call, code in answers:
                task, said = _gathered(name, call), f"```python\n{code}```"
                about = {"name": f"{name}/0", "route": "templates", "code": code, "completion": said}
                row = example(task, folder.config, verdict=make_verdict(), **about)
                line = {"task_hash": task.task.hash, "route": "templates", "candidate": name, "form": 0}
                folder.judged.append(Judged(**line, outcome="correct", example=row))
        return folder

    return make


def _pairs(folder: Folder) -> set[str]:
    """What teaches after the last stage."""
    list(build(folder.config, folder.path, ("finish",)))
    return {row.id for row in tables.read(folder.dataset, "sft", Example)}


def _asked(folder: Folder, name: str) -> set[str]:
    return {row.id for row in tables.read(folder.dataset, name, TaskRow)}


def _removed(folder: Folder) -> list[tuple[str, str]]:
    """Rows and reasons, which the numbers and the card count as well."""
    lines = (folder.dataset / REMOVED_FILE).read_text(encoding="utf-8").splitlines()
    rows = [Removed.model_validate_json(line) for line in lines]
    counted = json.loads((folder.dataset / STATS_FILE).read_text(encoding="utf-8"))["build"]["removed"]
    card = (folder.dataset / "card.md").read_text(encoding="utf-8")
    assert sum(counted.values()) == len(rows)
    for row in rows:
        assert f"| {row.stage}: {row.reason} | {counted[f'{row.stage}: {row.reason}']} |" in card
    return [(row.row, row.reason) for row in rows]


def test_a_plain_program_for_one_batch_size_does_not_teach(judged):
    folder = judged(GOOD, ONE_BATCH)
    assert _pairs(folder) == {"relu/0"}
    assert _removed(folder) == [("square/0", "written for one size only")]
    assert _asked(folder, "rl") == {"square"}, "nobody could answer it"


def test_one_written_for_every_batch_size_teaches(judged):
    folder = judged(GOOD, OTHER)
    assert _pairs(folder) == {"relu/0", "square/0"}
    assert _removed(folder) == []


def test_templates_in_their_own_way_may_write_for_one_batch_size(judged):
    folder = judged(GOOD, ONE_BATCH, way="")
    assert _pairs(folder) == {"relu/0", "square/0"}


@pytest.mark.parametrize("side", [HELD_OUT, REINFORCE, None])
def test_an_answer_whose_task_a_later_selection_does_not_teach_is_left_out(judged, side):
    folder = judged(GOOD, OTHER)
    assert _pairs(folder) == {"relu/0", "square/0"}
    _select(folder, {"relu": TEACH, **({"square": side} if side else {})})
    assert _pairs(folder) == {"relu/0"}
    assert _removed(folder) == [("square/0", "its task no longer teaches")]
    assert {name: _asked(folder, name) for name in (HELD_OUT, REINFORCE)} == {
        name: {"square"} if name == side else set() for name in (HELD_OUT, REINFORCE)
    }
