"""How a training run is set up: one TOML file per run, checked whole before anything is loaded.

Must stay true: an unknown key is an error that names the nearest known one, never a silently ignored wish.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from autotriton import configs
from autotriton.configs import checked as checked
from autotriton.configs import load as load
from autotriton.configs import nearest
from autotriton.configs import plain as plain
from autotriton.data.families import FAMILIES
from autotriton.types import Policy, Tier


class Part(configs.Part):
    """Without numbers that are none or have no end: JSON, in which a run keeps its config, knows neither."""

    model_config = ConfigDict(allow_inf_nan=False)


class ModelPart(Part):
    path: str
    """A checkpoint's folder, or a name on the hub."""
    adapter: str | None = None
    """An adapter to go on from."""
    attention: Literal["packed", "sdpa", "eager", "flash_attention_2"] = "packed"
    """`packed` is torch's flash kernel with the boundaries of packed rows (`attention.py`)."""


class LoraPart(Part):
    rank: int = Field(default=64, ge=0)
    """0: every weight is trained."""
    alpha: int = Field(default=128, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: str | tuple[str, ...] = "all-linear"
    fused: bool = True
    """Adapted layers by `lora.py`: the same numbers as peft's, with less memory traffic."""


class DataPart(Part):
    train: tuple[Path, ...] = Field(min_length=1)
    """Parquet or JSON-lines files; rows of `autotriton.data.rows`."""
    held_out: Path | None = None
    limit: int | None = Field(default=None, ge=1)
    """Only the first rows: for trying things out."""
    forms: int | None = Field(default=None, ge=1)
    """SFT: at most so many forms of one program. The first is the templates' own; others differ in names and tiles."""
    prose: bool = True
    """SFT: also questions that describe the program they want. Wrappers are always described, and stay."""
    reasoning: Literal["full", "plan"] = "full"
    """SFT: what is said before a program; `plan` keeps the list of kernels and drops the words on grids and tiles."""
    plain: tuple[str, ...] = ()
    """SFT: operator families that are taught in the plain way only; answers written otherwise are left out."""

    @field_validator("plain")
    @classmethod
    def _known_families(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in names if name not in FAMILIES]:
            raise ValueError(f"unknown family {unknown[0]} ({nearest(unknown[0], FAMILIES)})")
        return names


class OptimPart(Part):
    learning_rate: float = Field(default=1e-4, gt=0)
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"] = "cosine"
    warmup_steps: int = Field(default=20, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float = Field(default=1.0, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**31)


class SolvePart(Part):
    """Measuring by solving: held-out tasks are answered and judged while training goes on."""

    every: int = Field(default=0, ge=0)
    """Steps between measurements; 0 never."""
    tasks: int = Field(default=64, ge=1)
    max_tokens: int = Field(default=1024, ge=1)


class GuardPart(Part):
    """When a run is stopped because it will not recover; the last good checkpoint stays."""

    loss_factor: float = Field(default=5.0, gt=1)
    """Loss above this many times its recent median."""
    window: int = Field(default=20, ge=2)
    least_length: float = Field(default=16.0, ge=0)
    """GRPO: mean completion tokens below this, for a whole window, is a collapse."""
    least_entropy: float = Field(default=0.005, ge=0)


class JudgePart(Part):
    policy: Policy = Policy.STRICT
    tier: Tier = Tier.RUN
    device: Literal["auto", "cpu", "cuda"] = "auto"
    workers: int | None = Field(default=None, ge=1)
    timeout_s: float = Field(default=30.0, gt=0)
    cases: int = Field(default=4, ge=1)


class RewardPart(Part):
    """`rule and execution` is the paper's reward; switching one off is its ablation, the weights are our extension."""

    rule: bool = True
    """The code is Triton: at least one kernel, nothing the judge's rules refuse."""
    execution: bool = True
    """Every case agrees with the reference."""
    speed: float = Field(default=0.0, ge=0)
    """Weight of the speed term: interval's lower bound over eager, minus one, clipped. Needs `tier = "time"`."""
    speed_cap: float = Field(default=2.0, gt=1)
    share: float = Field(default=0.0, ge=0)
    """Weight of the Triton share of device time."""

    @model_validator(mode="after")
    def _rewards_something(self) -> Self:
        if not (self.rule or self.execution):
            raise ValueError("rule and execution cannot both be off: every answer would be rewarded alike")
        return self


class CurriculumPart(Part):
    least: float = Field(default=0.02, ge=0, le=1)
    most: float = Field(default=0.9, ge=0, le=1)
    """Tasks whose measured solve rate lies outside are drawn rarely."""
    rare: float = Field(default=0.1, gt=0, le=1)
    """How often those are drawn, relative to the others."""


class Config(Part):
    """What SFT and GRPO share."""

    name: str = ""
    model: ModelPart
    lora: LoraPart = LoraPart()
    data: DataPart
    optim: OptimPart = OptimPart()
    solve: SolvePart = SolvePart()
    guard: GuardPart = GuardPart()
    judge: JudgePart = JudgePart()
    save_every: int = Field(default=50, ge=1)
    """Steps between checkpoints."""
    keep: int = Field(default=2, ge=1)
    """How many checkpoints stay on disk."""
    micro_batch: int = Field(default=1, ge=1)
    """Sequences per forward pass and GPU."""
    recompute: bool = False
    """Activation checkpointing: less memory, more time."""
    liger: bool = False
    """Norm, rotation and gate as liger-kernel's fused kernels: less memory, less time. Needs that package and a GPU."""

    @model_validator(mode="after")
    def _solving_needs_tasks(self) -> Self:
        if self.solve.every and self.data.held_out is None:
            raise ValueError("solve.every needs data.held_out: there are no tasks to solve")
        return self


class SftConfig(Config):
    """Supervised fine-tuning on verified pairs; the loss counts the answer only."""

    sequence: int = Field(default=4096, ge=64)
    """Tokens per packed sequence; longer rows are left out and counted."""
    longest: int | None = Field(default=None, ge=16)
    """Tokens of question and answer together from which a row is left out; `sequence` by default."""
    packing: bool = True
    accumulate: int = Field(default=1, ge=1)
    """Forward passes per step."""
    epochs: float = Field(default=1.0, gt=0)
    steps: int | None = Field(default=None, ge=1)
    """Overrides `epochs`."""


class GrpoConfig(Config):
    """Reinforcement learning: groups of answers, rewarded by the judge, compared with each other."""

    steps: int = Field(default=100, ge=1)
    tasks_per_step: int = Field(default=32, ge=1)
    group: int = Field(default=16, ge=2)
    """Answers per task."""
    prompt_tokens: int = Field(default=2048, ge=16)
    """Tasks with longer questions are left out and counted."""
    completion_tokens: int = Field(default=1024, ge=8)
    temperature: float = Field(default=1.0, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    clip_low: float = Field(default=0.2, gt=0)
    clip_high: float = Field(default=0.28, gt=0)
    """Clip-higher: rare good tokens may grow faster than common ones shrink."""
    kl: float = Field(default=0.0, ge=0)
    loss: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = "dapo"
    mask_truncated: bool = True
    refill: int = Field(default=1, ge=0)
    """How many times groups whose answers were all rewarded alike are replaced by groups of other tasks."""
    ahead: bool = False
    """Answers for the next step are drawn before this one is trained, by weights that are one update older, and judged
    while it is: nobody waits for the judge. In place of `refill`, more groups are drawn than are needed."""
    spare: float = Field(default=0.25, ge=0)
    """With `ahead`: how many more groups, as a share of `tasks_per_step`."""
    second_turn: bool = False
    """A failed answer is sent back once with the verdict; the second answer is rewarded."""
    reward: RewardPart = RewardPart()
    curriculum: CurriculumPart = CurriculumPart()

    @model_validator(mode="after")
    def _whole_micro_batches(self) -> Self:
        answers = self.tasks_per_step * self.group
        if answers % self.micro_batch:
            raise ValueError(f"micro_batch = {self.micro_batch} does not divide the {answers} answers of a step")
        return self

    @model_validator(mode="after")
    def _one_turn_ahead(self) -> Self:
        if self.ahead and self.second_turn:
            raise ValueError(
                "ahead and second_turn exclude each other: a second turn waits for the first one's verdict"
            )
        return self

    @model_validator(mode="after")
    def _speed_needs_time(self) -> Self:
        require_timing(self.reward, self.judge)
        return self


def require_timing(reward: RewardPart, judge: JudgePart) -> None:
    if reward.speed and judge.tier is not Tier.TIME:
        raise ValueError('reward.speed needs judge.tier = "time": without timing there is no speed')
