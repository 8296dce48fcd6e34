"""Supervised fine-tuning on verified pairs, through TRL's SFTTrainer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from autotriton.data.rows import Example
from autotriton.errors import UsageError
from autotriton.store import Run
from autotriton.train import processes, running, weights
from autotriton.train.config import SftConfig
from autotriton.train.dataset import apart, chosen, conversation, read
from autotriton.train.running import Outcome, Unused, arguments
from autotriton.train.sampling import written
from autotriton.train.solving import Solver

Tokens = dict[str, list[int]]
_NO_LOSS = -100


def train(config: SftConfig, run: Run, seconds: float | None = None) -> Outcome:
    """Trains into the run's folder; goes on from its last checkpoint if there is one."""
    if config.solve.every:
        processes.require_one("solving while training", "--set solve.every=0, and measure the result afterwards")
    weights.require_packages(config.liger)
    weights.require_model(config.model)
    wanted = list(chosen(read(Example, config.data.train, config.data.limit), config.data))
    examples = apart(wanted, config.data.held_out)
    model, tokenizer = weights.load(config)
    kept = fitting(examples, tokenizer, min(config.sequence, config.longest or config.sequence))
    with Solver.beside(config, model, tokenizer) as solver:
        watch = running.watch(config, run, seconds, solve=solver.measure if solver else None)
        unused = Unused(len(examples) - len(kept), len(wanted) - len(examples))
        start = running.start(run)
        return running.go(config, run, watch, start, lambda: _trainer(config, run, model, tokenizer, kept), unused)


def fitting(examples: Sequence[Example], tokenizer: Any, tokens: int) -> list[Tokens]:
    """Those that fit whole, as tokens; half an answer teaches to stop in the middle."""
    kept = [row for row in tokenised(examples, tokenizer) if len(row["input_ids"]) <= tokens]
    if not kept:
        raise UsageError(f"no example fits into {tokens} tokens", hint="raise `sequence` or `longest`")
    return kept


def tokenised(examples: Sequence[Example], tokenizer: Any) -> Iterator[Tokens]:
    """Question and answer as the model will see them, all rows at once: TRL takes a minute for what this does in two
    seconds. The loss counts what follows the question."""
    chats = [conversation(example) for example in examples]
    asked = [written(tokenizer, chat[:1]) for chat in chats]
    whole = [written(tokenizer, chat) for chat in chats]
    questions, texts = (
        tokenizer(rows, add_special_tokens=not tokenizer.chat_template)["input_ids"] for rows in (asked, whole)
    )
    for question, text in zip(questions, texts, strict=True):
        # They may differ before the question's end where its last token joins with the answer's first.
        start = next((place for place, pair in enumerate(zip(question, text, strict=False)) if pair[0] != pair[1]),
                     len(question))  # fmt: skip
        yield {"input_ids": text, "labels": [_NO_LOSS] * start + text[start:]}


def _trainer(config: SftConfig, run: Run, model: Any, tokenizer: Any, tokens: Sequence[Tokens]) -> Any:
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    duration = {"num_train_epochs": config.epochs} if config.steps is None else {"max_steps": config.steps}
    settings = trl.SFTConfig(
        **arguments(config, run),
        **duration,
        gradient_accumulation_steps=config.accumulate,
        max_length=config.sequence,
        packing=config.packing,
    )
    rows = datasets.Dataset.from_dict({name: [row[name] for row in tokens] for name in ("input_ids", "labels")})
    return trl.SFTTrainer(model=model, args=settings, train_dataset=rows, processing_class=tokenizer)
