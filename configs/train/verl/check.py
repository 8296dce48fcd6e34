"""Composes and validates the recipe where verl is installed, then scores answers through verl's loader; needs no GPU.

python configs/train/verl/check.py [KEY=VALUE...]      further overrides of the GRPO config
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import verl
from hydra import compose, initialize_config_dir
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

HERE = Path(__file__).resolve().parent
TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x)


def get_inputs():
    return [torch.rand(16, 32)]


def get_init_inputs():
    return []
"""
TRITON = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, tl.exp(x){slip}, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
TORCH = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.exp(x)\n"
ANSWERS = {
    "a kernel that is right": ("```python\n" + TRITON.format(slip="") + "```", 1.0),
    "a kernel that is wrong": ("```python\n" + TRITON.format(slip=" + 1") + "```", 0.0),
    "torch alone": ("```python\n" + TORCH + "```", 0.0),
    "no program": ("I would rather not.", 0.0),
}


class Spelling:
    """A tokenizer of characters: verl decodes tokens before it asks for the reward."""

    def decode(self, tokens: Any, skip_special_tokens: bool = True) -> str:
        return "".join(chr(int(token)) for token in tokens)


def lines(name: str) -> list[str]:
    text = (HERE / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def composed(name: str, overrides: list[str]) -> Any:
    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        return compose(name, overrides=overrides)


def item(answer: str) -> DataProto:
    """One answer as verl's workers hand it to the reward."""
    tokens = torch.tensor([[ord(letter) for letter in answer]])
    tensors = {"prompts": torch.zeros(1, 4, dtype=torch.long), "responses": tokens}
    tensors["attention_mask"] = torch.ones(1, 4 + tokens.shape[1], dtype=torch.long)
    truth = json.dumps({"id": "exp", "source": TASK, "entry": "Model", "mode": "train"})
    about = {"data_source": "autotriton", "reward_model": {"ground_truth": truth}, "extra_info": {"index": 0}}
    rest = {name: np.array([value], dtype=object) for name, value in about.items()}
    return DataProto(batch=TensorDict(tensors, batch_size=1), non_tensor_batch=rest)


def check_sft() -> None:
    config = composed("sft_trainer_engine", lines("sft.overrides"))
    for part in ("engine", "optim", "checkpoint"):  # `model` would be fetched from the hub
        omega_conf_to_dataclass(config[part])
    print(f"SFT: composed; lr {config.optim.lr}, {config.trainer.total_epochs} epochs, length {config.data.max_length}")


def check_grpo(further: list[str]) -> Any:
    config = composed("ppo_trainer", lines("grpo.overrides") + further)
    reference, critic = need_reference_policy(config), need_critic(config)
    validate_config(config=config, use_reference_policy=reference, use_critic=critic)
    print(f"GRPO: composed and validated; reference policy {reference}, critic {critic}")
    return config


def check_reward(config: Any) -> bool:
    """On the interpreter where there is no GPU, as configured where there is one."""
    manager = load_reward_manager(config, Spelling(), reward_router_address=None, reward_model_tokenizer=None)

    async def together() -> list[dict[str, Any]]:
        return await asyncio.gather(*(manager.run_single(item(answer)) for answer, _ in ANSWERS.values()))

    found = manager.loop.run_until_complete(together())
    right = len({tuple(one["reward_extra_info"]) for one in found}) == 1
    for (name, (_, wanted)), one in zip(ANSWERS.items(), found, strict=True):
        about = one["reward_extra_info"]
        right &= one["reward_score"] == wanted and not about["unscored"]
        print(f"reward: {name}: {one['reward_score']} ({about['outcome']}: {about['reason'][:80]})")
    return right


def main() -> int:
    print(f"verl {verl.__version__}")
    check_sft()
    further = sys.argv[1:]
    check_grpo(further)
    if not torch.cuda.is_available():
        judge = "reward.custom_reward_function.reward_kwargs.judge"
        further += [f"{judge}.device=cpu", f"{judge}.tier=interpret"]
        print("no GPU here: the reward is tried with Triton's interpreter")
    return 0 if check_reward(check_grpo(further)) else 1


if __name__ == "__main__":
    sys.exit(main())
