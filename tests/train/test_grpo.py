"""Real GRPO steps on a tiny model, rewarded by the real judge."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autotriton.errors import UsageError
from autotriton.store import Store
from autotriton.train import grpo, rollout
from autotriton.train.config import plain
from autotriton.train.journal import METRICS_FILE, Journal
from autotriton.train.reward import Reward

pytestmark = pytest.mark.slow
_CURVE = ("reward", "loss", "grad_norm", "attempts/accepted")


def _curve(run: Any) -> list[list[float]]:
    return [[row["step"], *(row[name] for name in _CURVE)] for row in Journal(run.path).rows() if "reward" in row]


@pytest.mark.parametrize("ahead", [False, True])
def test_rewards_move_the_weights_and_a_run_goes_on_identically(workshop: Any, learned: Path, ahead: bool) -> None:
    import torch
    from safetensors.torch import load_file

    config = workshop.grpo(learned).model_copy(update={"ahead": ahead})
    whole = workshop.run(config)
    outcome = grpo.train(config, whole)
    curve = _curve(whole)
    assert [row[0] for row in curve] == [1, 2, 3, 4]
    assert any(row[3] > 0 for row in curve), "a gradient that is never above zero trains nothing"
    weights = load_file(outcome.folder / "adapter_model.safetensors")
    assert any(torch.any(weight != 0) for name, weight in weights.items() if "lora_B" in name)
    attempts = list(whole.attempts())
    assert len(attempts) >= 4 * 8
    assert {attempt.verdict is not None for attempt in attempts} == {True}
    assert any(attempt.verdict is not None and attempt.verdict.accepted for attempt in attempts)

    whole.close()
    # As a run looks that was killed in step 3, inside a line of its metrics.
    shutil.rmtree(whole.path / "checkpoints" / "checkpoint-4")
    shutil.rmtree(whole.path / "adapter")
    metrics = whole.path / METRICS_FILE
    lines = metrics.read_text(encoding="utf-8").splitlines()
    cut = next(place for place, line in enumerate(lines) if json.loads(line)["step"] > 2)
    metrics.write_text("\n".join([*lines[:cut], lines[cut][:20]]), encoding="utf-8")
    resumed = Store(whole.path.parent).resume(whole.id, plain(config))
    assert grpo.train(config, resumed).whole
    assert _curve(resumed) == curve


@pytest.mark.parametrize("ahead", [False, True])
def test_answers_of_earlier_weights_are_clipped(workshop: Any, monkeypatch: pytest.MonkeyPatch, ahead: bool) -> None:
    earned = itertools.cycle([Reward(1.0), Reward(0.0)])
    monkeypatch.setattr(rollout, "reward", lambda verdict, wanted: next(earned))
    config = workshop.grpo(
        workshop.model, ahead=ahead, steps=3, completion_tokens=8, mask_truncated=False, clip_low=1e-4
    )
    run = workshop.run(config)
    grpo.train(config, run)
    clipped = [row["clip_ratio/low_mean"] for row in Journal(run.path).rows() if "reward" in row]
    assert clipped[0] == 0, "the weights that are trained gave these"
    assert (max(clipped[1:]) > 0.1) is ahead


def test_fewer_tasks_than_a_step_asks(workshop: Any) -> None:
    config = workshop.grpo(workshop.model, tasks_per_step=8)
    with pytest.raises(UsageError, match="a step asks 8 tasks, and there are 4 tasks"):
        grpo.train(config, workshop.run(config))


@pytest.mark.extra
def test_a_killed_run_goes_on_identically(workshop: Any, learned: Path) -> None:
    config = workshop.grpo(learned)
    whole, killed = workshop.run(config), workshop.run(config)
    grpo.train(config, whole)
    _kill_after_checkpoint(workshop, config, killed)
    resumed = Store(killed.path.parent).resume(killed.id, plain(config))
    grpo.train(config, resumed)
    assert _curve(resumed) == _curve(whole)


def _kill_after_checkpoint(workshop: Any, config: Any, run: Any) -> None:
    """A process of its own, killed without warning while it makes step 3 or 4."""
    script = workshop.folder / "train.py"
    script.write_text(
        "import sys, torch; torch.set_num_threads(1)\n"
        "from autotriton.store import Store\n"
        "from autotriton.train import grpo\n"
        "from autotriton.train.config import GrpoConfig\n"
        "config = GrpoConfig.model_validate_json(sys.argv[3])\n"
        "grpo.train(config, Store(sys.argv[1]).open(sys.argv[2]))\n",
        encoding="utf-8",
    )
    source = str(Path(grpo.__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": source}
    command = [sys.executable, str(script), str(run.path.parent), run.id, config.model_dump_json()]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    state = run.path / "checkpoints" / "checkpoint-2" / "whole"
    deadline = time.monotonic() + 200
    while not state.is_file() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert state.is_file(), "it never saved a checkpoint"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (run.path / "adapter").exists()
