"""One tiny model and its data for all tests of this folder, and one that already knows how to answer, more or less."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from autotriton.store import Run, Store
from autotriton.train.config import GrpoConfig, SftConfig, checked, plain
from autotriton.train.dataset import write

JUDGE = {"device": "cpu", "tier": "interpret", "workers": 2}


def _tiny() -> Any:
    spec = importlib.util.spec_from_file_location("tiny", Path(__file__).with_name("tiny.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Workshop:
    """Files, configs and runs of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tiny = _tiny()
        self.model, self.pairs, self.tasks = folder / "model", folder / "sft.jsonl", folder / "rl.jsonl"
        self.tiny.write_model(self.model)
        write(self.tiny.examples() * 8, self.pairs)
        write(self.tiny.rows(), self.tasks)

    def sft(self, **changes: Any) -> SftConfig:
        values: dict[str, Any] = {
            "model": {"path": str(self.model)},
            "lora": {"rank": 0},
            "data": {"train": [str(self.pairs)], "held_out": str(self.tasks)},
            "optim": {"learning_rate": 1e-2, "schedule": "constant", "warmup_steps": 0},
            "judge": JUDGE,
            "sequence": 512,
            "packing": False,
            "micro_batch": 4,
            "steps": 6,
            "save_every": 3,
        }
        return checked(SftConfig, {**values, **changes})

    def grpo(self, model: Path, **changes: Any) -> GrpoConfig:
        values: dict[str, Any] = {
            "model": {"path": str(model)},
            "lora": {"rank": 8, "alpha": 16},
            "data": {"train": [str(self.tasks)]},
            "optim": {"learning_rate": 1e-3, "schedule": "constant", "warmup_steps": 0},
            "judge": JUDGE,
            "micro_batch": 4,
            "tasks_per_step": 2,
            "group": 4,
            "completion_tokens": 320,
            "temperature": 0.7,
            "steps": 4,
            "save_every": 2,
            "refill": 1,
        }
        return checked(GrpoConfig, {**values, **changes})

    def run(self, config: SftConfig | GrpoConfig) -> Run:
        return Store(self.folder / "runs").create("train", plain(config))


@pytest.fixture(scope="package")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    import torch

    torch.set_num_threads(1)  # sums in another order are other sums: curves must be equal
    return Workshop(tmp_path_factory.mktemp("train"))


@pytest.fixture(scope="package")
def learned(workshop: Workshop) -> Path:
    """A model that solves some of the tasks some of the time."""
    from autotriton.train import sft

    config = workshop.sft(steps=105, save_every=1000)
    return sft.train(config, workshop.run(config)).folder
