"""accelerate reads the shipped files as they are meant; launching them takes several GPUs."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

CONFIGS = Path(__file__).parents[2] / "configs" / "train"


def environment(name: str) -> dict[str, str]:
    """What accelerate would set for the processes."""
    launch = pytest.importorskip("accelerate.commands.launch")
    asked = ["--config_file", str(CONFIGS / "accelerate" / name), "-m", "autotriton", "train", "sft", "CONFIG"]
    arguments, _, _ = launch._validate_launch_command(launch.launch_command_parser().parse_args(asked))
    assert (arguments.num_processes, arguments.training_script) == (8, "autotriton")
    assert arguments.training_script_args == ["train", "sft", "CONFIG"]
    with patch.dict(os.environ):
        found: dict[str, str] = launch.prepare_multi_gpu_env(arguments)
    return found


def test_fsdp_shards_and_saves_whole() -> None:
    found = environment("fsdp.yaml")
    accelerate = pytest.importorskip("accelerate")
    with patch.dict(os.environ, {name: value for name, value in found.items() if "FSDP" in name}):
        plugin = accelerate.FullyShardedDataParallelPlugin()
        with patch.dict(os.environ, {"WORLD_SIZE": "8"}):
            from autotriton.train.processes import sharded

            assert sharded()
    assert plugin.fsdp_version == 2
    assert "FULL_STATE_DICT" in str(plugin.state_dict_type)
    assert plugin.reshard_after_forward is True


def test_ddp_does_not_shard() -> None:
    found = environment("ddp.yaml")
    assert found["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert "ACCELERATE_USE_FSDP" not in found
