"""Supervised fine-tuning on verified pairs, through TRL's SFTTrainer."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from autotriton.data.rows import Example
from autotriton.errors import UsageError
from autotriton.store import Run
from autotriton.train import processes, running, weights
from autotriton.train.config import SftConfig
from autotriton.train.dataset import conversations, read
from autotriton.train.running import Outcome, arguments
from autotriton.train.sampling import encoded
from autotriton.train.solving import Solver


def train(config: SftConfig, run: Run, seconds: float | None = None) -> Outcome:
    """Trains into the run's folder; goes on from its last checkpoint if there is one."""
    if config.solve.every:
        processes.require_one("solving while training", "--set solve.every=0, and measure the result afterwards")
    weights.require_packages()
    weights.require_model(config.model)
    examples = read(Example, config.data.train, config.data.limit)
    model, tokenizer = weights.load(config)
    kept = fitting(examples, tokenizer, config.sequence)
    with Solver.beside(config, model, tokenizer) as solver:
        watch = running.watch(config, run, seconds, solve=solver.measure if solver else None)
        left_out = len(examples) - len(kept)
        return running.go(config, run, watch, lambda: _trainer(config, run, model, tokenizer, kept), left_out)


def fitting(examples: Sequence[Example], tokenizer: Any, tokens: int) -> list[Example]:
    """Those that fit whole; half an answer teaches to stop in the middle."""
    kept = [example for example in examples if length(example, tokenizer) <= tokens]
    if not kept:
        raise UsageError(f"no example fits into {tokens} tokens", hint="raise `sequence`")
    return kept


def length(example: Example, tokenizer: Any) -> int:
    question = encoded(tokenizer, [{"role": "user", "content": example.prompt}])
    return len(question) + len(tokenizer(example.completion, add_special_tokens=False)["input_ids"]) + 2


def _trainer(config: SftConfig, run: Run, model: Any, tokenizer: Any, examples: Sequence[Example]) -> Any:
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    duration = {"num_train_epochs": config.epochs} if config.steps is None else {"max_steps": config.steps}
    settings = trl.SFTConfig(
        **arguments(config, run),
        **duration,
        gradient_accumulation_steps=config.accumulate,
        max_length=config.sequence,
        packing=config.packing,
        completion_only_loss=True,
    )
    rows = datasets.Dataset.from_list(conversations(examples))
    return trl.SFTTrainer(model=model, args=settings, train_dataset=rows, processing_class=tokenizer)
