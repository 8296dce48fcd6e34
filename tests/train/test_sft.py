"""Real SFT steps on a tiny model."""

from __future__ import annotations

import errno
import json
import shutil
from typing import Any

import pytest

from autotriton.errors import TrainError, UsageError
from autotriton.store import Store
from autotriton.train import sft
from autotriton.train.config import plain
from autotriton.train.journal import METRICS_FILE, Journal

pytestmark = pytest.mark.slow


def _curve(run: Any) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in Journal(run.path).rows() if "loss" in row]


def test_trains_the_same_way_twice_and_goes_on_identically_after_a_kill(workshop: Any) -> None:
    config = workshop.sft()
    first, second = workshop.run(config), workshop.run(config)
    assert sft.train(config, first).steps == 6
    sft.train(config, second)
    curve = _curve(first)
    assert [step for step, _ in curve] == [1, 2, 3, 4, 5, 6]
    assert curve[-1][1] < curve[0][1]
    assert all(row["grad_norm"] > 0 for row in Journal(first.path).rows())
    assert _curve(second) == curve

    # As a run looks that was killed in step 5, inside a line of its metrics.
    shutil.rmtree(second.path / "checkpoints" / "checkpoint-6")
    shutil.rmtree(second.path / "adapter")
    lines = (second.path / METRICS_FILE).read_text(encoding="utf-8").splitlines()
    (second.path / METRICS_FILE).write_text("\n".join([*lines[:4], lines[4][:20]]), encoding="utf-8")
    resumed = Store(second.path.parent).resume(second.id, plain(config))
    assert sft.train(config, resumed).whole
    assert _curve(resumed) == curve


def test_weights_move_and_the_result_is_an_adapter_that_names_its_base(workshop: Any) -> None:
    import torch
    from safetensors.torch import load_file

    config = workshop.sft(lora={"rank": 4}, packing=True, steps=3)
    outcome = sft.train(config, workshop.run(config))
    about = json.loads((outcome.folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert about["base_model_name_or_path"] == str(workshop.model)
    assert "$task" in (outcome.folder / "prompt.md").read_text(encoding="utf-8")
    assert "$exactly" in (outcome.folder / "prompt-script.md").read_text(encoding="utf-8")
    weights = load_file(outcome.folder / "adapter_model.safetensors")
    moved = [weight for name, weight in weights.items() if "lora_B" in name]
    assert moved
    assert all(torch.any(weight != 0) for weight in moved), "B begins at zero"


def test_solves_held_out_tasks_while_it_trains(workshop: Any) -> None:
    config = workshop.sft(steps=130, save_every=1000, solve={"every": 130, "tasks": 4, "max_tokens": 320})
    run = workshop.run(config)
    sft.train(config, run)
    [measured] = [row for row in Journal(run.path).rows() if "solve/pass@1" in row]
    assert measured["step"] == 130
    assert measured["solve/pass@1"] > 0
    assert measured["solve/unscored"] == 0
    assert (run.path / "curves.png").stat().st_size > 1000


def test_a_diverging_run_stops_and_keeps_its_last_good_checkpoint(workshop: Any) -> None:
    config = workshop.sft(optim={"learning_rate": 1e30, "schedule": "constant", "warmup_steps": 2}, save_every=1)
    run = workshop.run(config)
    with pytest.raises(TrainError, match=r"the run was stopped: .* at step \d+ \(the last good checkpoint is"):
        sft.train(config, run)
    assert not (run.path / "adapter").exists()


def test_time_runs_out(workshop: Any) -> None:
    config = workshop.sft(steps=500, save_every=1000)
    run = workshop.run(config)
    outcome = sft.train(config, run, seconds=0.0)
    assert not outcome.whole
    assert (run.path / "checkpoints" / f"checkpoint-{outcome.steps}").is_dir()


def test_a_run_that_has_made_its_steps_makes_no_more(workshop: Any) -> None:
    config = workshop.sft()
    run = workshop.run(config)
    first = sft.train(config, run)
    curve, weights = _curve(run), (first.folder / "model.safetensors").read_bytes()
    shutil.rmtree(first.folder)  # it was killed before it had written this
    again = sft.train(config, Store(run.path.parent).resume(run.id, plain(config)))
    assert (again.steps, again.whole, _curve(run)) == (6, True, curve)
    assert (again.folder / "model.safetensors").read_bytes() == weights
    assert not (run.path / "checkpoints" / "checkpoint-7").exists()


def test_a_damaged_checkpoint_costs_its_steps_only(workshop: Any) -> None:
    config = workshop.sft(save_every=2, keep=3)
    run = workshop.run(config)
    sft.train(config, run)
    curve = _curve(run)
    for step in (4, 6):
        optimizer = run.path / "checkpoints" / f"checkpoint-{step}" / "optimizer.pt"
        optimizer.write_bytes(optimizer.read_bytes()[:-100])
    assert sft.train(config, run).whole
    assert _curve(run) == curve


def test_a_disk_that_fills_up_costs_the_last_checkpoint_only(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    config = workshop.sft(save_every=2)
    whole, run = workshop.run(config), workshop.run(config)
    sft.train(config, whole)
    inner = transformers.Trainer._save_rng_state

    def full(self: Any, folder: str) -> None:
        if self.state.global_step == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        inner(self, folder)

    with monkeypatch.context() as patch:
        patch.setattr(transformers.Trainer, "_save_rng_state", full)
        with pytest.raises(TrainError, match=r"cannot be written: No space left on device \(free some space"):
            sft.train(config, run)
    assert [path.name for path in (run.path / "checkpoints").glob("*/whole")] == ["whole"]
    assert sft.train(config, run).whole
    assert _curve(run) == _curve(whole)


def test_rows_that_do_not_fit(workshop: Any) -> None:
    config = workshop.sft(sequence=64)
    with pytest.raises(UsageError, match="no example fits into 64 tokens"):
        sft.train(config, workshop.run(config))
