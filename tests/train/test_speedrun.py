"""`scripts/speedrun`: training, answers, and nothing twice, as a shell runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotriton.data.build import tables
from autotriton.data.rows import TaskRow

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "speedrun"
SHARED = """
micro_batch = 4
[lora]
rank = 4
alpha = 8
[data]
train = ["{train}"]
[judge]
device = "cpu"
tier = "interpret"
workers = 2
[model]
path = "nowhere"
"""
SFT = "steps = 4\nsequence = 512\npacking = false\nsave_every = 2\n" + SHARED
GRPO = "steps = 1\ntasks_per_step = 2\ngroup = 2\ncompletion_tokens = 32\nrefill = 0\n" + SHARED


@pytest.fixture
def speedrun(workshop, tmp_path):
    (tmp_path / "sft.toml").write_text(SFT.format(train=workshop.pairs))
    (tmp_path / "grpo.toml").write_text(GRPO.format(train=workshop.tasks))
    tables.write(workshop.tiny.rows(), TaskRow, tmp_path / "held_out.parquet")
    told = {"PYTHON": sys.executable, "MODEL": workshop.model, "HELD_OUT": tmp_path, "MAX_TOKENS": 16}
    told |= {"SFT_CONFIG": tmp_path / "sft.toml", "SFT_SET": "optim.seed=3 optim.warmup_steps=0", "SFT_SECONDS": 500}
    told |= {"GRPO_CONFIG": tmp_path / "grpo.toml", "GRPO_SET": "", "GRPO_SECONDS": 500}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **{name: str(value) for name, value in told.items()}}
        command = [str(SCRIPT), *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)

    return run


def test_an_unknown_stage_is_one_clear_line(speedrun, tmp_path):
    found = speedrun(tmp_path / "out", "sleep")
    assert found.returncode == 2
    assert "unknown stage sleep" in found.stderr


def test_a_stage_that_needs_an_adapter_says_where_it_comes_from(speedrun, tmp_path):
    for stage in ("grpo", "sft-answers"):
        found = speedrun(tmp_path / "out", stage)
        assert found.returncode == 1
        assert f"{tmp_path}/out/sft has no adapter (run the stage sft first)" in found.stderr
        assert not (tmp_path / "out" / f"{stage}.done").exists()


@pytest.mark.extra
@pytest.mark.slow
def test_stages_are_done_once_and_leave_adapters_and_answers(speedrun, tmp_path):
    out = tmp_path / "out"
    first = speedrun(out, "sft", "sft-answers")
    assert first.returncode == 0, first.stderr
    (run,) = (out / "sft").iterdir()
    assert (run / "adapter" / "adapter_config.json").is_file()
    (answers,) = (out / "sft-answers").glob("*/answers*")
    assert answers.stat().st_size > 0

    whole = speedrun(out)
    assert whole.returncode == 0, whole.stderr
    assert "sft: done before" in whole.stderr
    assert len(list((out / "sft").iterdir())) == 1
    assert list((out / "grpo").glob("*/adapter/adapter_config.json"))
    assert list((out / "grpo-answers").glob("*/answers*"))
