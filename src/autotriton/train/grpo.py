"""Reinforcement learning with the judge's word as the reward, through TRL's GRPOTrainer."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from autotriton.data.rows import TaskRow
from autotriton.errors import UsageError
from autotriton.store import Run
from autotriton.train import attention, processes, running, weights
from autotriton.train.config import GrpoConfig
from autotriton.train.curriculum import Curriculum
from autotriton.train.dataset import apart, read
from autotriton.train.earlier import earlier
from autotriton.train.grading import Grader, judge_options
from autotriton.train.rollout import Rollout, earned
from autotriton.train.running import Outcome, Unused, arguments
from autotriton.train.samplers import sampler_for
from autotriton.train.sampling import encoded
from autotriton.train.solving import Solver
from autotriton.train.unpadded import unpadded


def train(config: GrpoConfig, run: Run, seconds: float | None = None) -> Outcome:
    """Trains into the run's folder; goes on from its last checkpoint if there is one."""
    processes.require_one("GRPO through TRL", "several GPUs: the verl recipe of docs/training.md")
    weights.require_packages(config.liger)
    weights.require_model(config.model)
    wanted = read(TaskRow, config.data.train, config.data.limit)
    rows = apart(wanted, config.data.held_out)
    model, tokenizer = weights.load(config)
    kept = fitting(rows, tokenizer, config.prompt_tokens)
    curriculum = Curriculum(kept, config.curriculum, config.optim.seed)
    if len(curriculum.rows) < config.tasks_per_step:
        tasks = f"{len(curriculum.rows)} tasks whose question fits into {config.prompt_tokens} tokens"
        raise UsageError(f"a step asks {config.tasks_per_step} tasks, and there are {tasks}",
                         hint="lower `tasks_per_step`, or train on more")  # fmt: skip
    options = judge_options(config.judge, config.reward)
    with Grader(options, config.judge.workers) as grader, Solver.beside(config, model, tokenizer) as solver:
        rollout = Rollout(config, run, curriculum, sampler_for(model, tokenizer), tokenizer, grader)
        if (start := running.start(run)) is not None:
            rollout.restore(start)
        watch = running.watch(
            config, run, seconds, saving=rollout.save, solve=solver.measure if solver is not None else None
        )
        unused = Unused(len(rows) - len(kept), len(wanted) - len(rows))
        return running.go(
            config, run, watch, start, lambda: _trainer(config, run, model, tokenizer, rollout, kept), unused
        )


def fitting(rows: Sequence[TaskRow], tokenizer: Any, tokens: int) -> list[TaskRow]:
    """Those whose question leaves room."""
    kept = [row for row in rows if len(encoded(tokenizer, [{"role": "user", "content": row.prompt}])) <= tokens]
    if not kept:
        raise UsageError(f"no task's question fits into {tokens} tokens", hint="raise `prompt_tokens`")
    return kept


def _trainer(
    config: GrpoConfig, run: Run, model: Any, tokenizer: Any, rollout: Rollout, rows: Sequence[TaskRow]
) -> Any:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # `rollout_func` is called experimental
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    settings = trl.GRPOConfig(
        **arguments(config, run),
        max_steps=config.steps,
        gradient_accumulation_steps=config.tasks_per_step * config.group // config.micro_batch,
        num_generations=config.group,
        max_completion_length=config.completion_tokens,
        temperature=config.temperature,
        top_p=config.top_p,
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        beta=config.kl,
        loss_type=config.loss,
        scale_rewards="group",
        mask_truncated_completions=config.mask_truncated,
    )
    # The rows only tell TRL how many prompts there are; which tasks are asked is the curriculum's choice.
    prompts = datasets.Dataset.from_list([{"prompt": [{"role": "user", "content": row.prompt}]} for row in rows])

    def judged(log_metric: Any = None, **given: Any) -> list[float | None]:
        for name, value in rollout.metrics.items():
            log_metric(name, value)
        return earned(given["earned"])

    kind = unpadded(trl.GRPOTrainer) if config.model.attention == attention.NAME else trl.GRPOTrainer
    kind = earlier(kind) if config.ahead else kind
    return kind(
        model=model,
        reward_funcs=[judged],
        args=settings,
        train_dataset=prompts,
        processing_class=tokenizer,
        rollout_func=rollout,
    )
