"""The verl recipe, as far as it can be read without verl; `configs/train/verl/launch.sh check` does the rest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autotriton.train import verl_reward
from autotriton.train.config import checked
from autotriton.types import Policy, Tier

FOLDER = Path(__file__).parents[2] / "configs" / "train" / "verl"
OURS = "+reward.custom_reward_function.reward_kwargs."


def overrides(name: str) -> dict[str, str]:
    lines = [line for line in (FOLDER / name).read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    pairs = [line.partition("=")[::2] for line in lines]
    assert len(dict(pairs)) == len(pairs), "a key is set twice"
    return dict(pairs)


def test_the_reward_is_ours_and_its_settings_are_right() -> None:
    given = overrides("grpo.overrides")
    assert given["reward.custom_reward_function.path"] == f"pkg://{verl_reward.__name__}"
    assert callable(getattr(verl_reward, given["reward.custom_reward_function.name"]))
    tables: dict[str, dict[str, Any]] = {}
    for key, value in given.items():
        if key.startswith(OURS):
            table, name = key.removeprefix(OURS).split(".")
            tables.setdefault(table, {})[name] = value
    settings = checked(verl_reward.Settings, tables)
    assert (settings.judge.policy, settings.judge.tier, settings.judge.device) == (Policy.STRICT, Tier.RUN, "cuda")
    assert settings.reward.rule
    assert settings.reward.execution
    assert settings.reward.speed == 0


def test_published_settings_are_as_published() -> None:
    grpo, sft = overrides("grpo.overrides"), overrides("sft.overrides")
    assert (grpo["data.train_batch_size"], grpo["actor_rollout_ref.actor.optim.lr"]) == ("64", "1e-6")
    assert (grpo["data.max_prompt_length"], grpo["data.max_response_length"]) == ("4096", "16384")
    assert (grpo["trainer.total_epochs"], grpo["actor_rollout_ref.actor.use_kl_loss"]) == ("1", "True")
    assert (sft["data.max_length"], sft["optim.lr"], sft["trainer.total_epochs"]) == ("16384", "1e-5", "3")


@pytest.mark.parametrize(
    ("verb", "environment", "message"),
    [
        ([], {}, "usage: launch.sh check|sft|grpo"),
        (["grpo"], {"NNODES": "2"}, "HEAD_ADDR must name the first one"),
        (["grpo"], {"NNODES": "two"}, "NNODES=two is no number of nodes"),
        (["sft"], {"NNODES": "2", "NODE_RANK": "2", "HEAD_ADDR": "h"}, "NODE_RANK=2 is not below NNODES=2"),
    ],
)
def test_a_wrong_launch_is_one_line(verb: list[str], environment: dict[str, str], message: str) -> None:
    done = subprocess.run(
        [FOLDER / "launch.sh", *verb],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
