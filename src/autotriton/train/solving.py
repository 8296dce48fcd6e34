"""Measuring a model by solving: held-out tasks answered greedily, every answer judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autotriton.data.rows import TaskRow
from autotriton.propose.extract import extract
from autotriton.propose.prompt import wanted
from autotriton.train.config import Config
from autotriton.train.dataset import read
from autotriton.train.grading import Grader, judge_options
from autotriton.train.reward import cheated
from autotriton.train.samplers import sampler_for
from autotriton.train.sampling import Answer, Sampler, Sampling, encoded


@dataclass
class Solver:
    """Held-out tasks, a sampler over the live weights, and the judge."""

    rows: Sequence[TaskRow]
    sampler: Sampler
    tokenizer: Any
    grader: Grader
    max_tokens: int

    @staticmethod
    @contextlib.contextmanager
    def beside(config: Config, model: Any, tokenizer: Any) -> Iterator[Solver | None]:
        """A solver for a training run, or None where the config wants none."""
        if not config.solve.every or config.data.held_out is None:
            yield None
            return
        rows = read(TaskRow, [config.data.held_out], config.solve.tasks)
        with Grader(judge_options(config.judge), config.judge.workers) as grader:
            yield Solver(rows, sampler_for(model, tokenizer), tokenizer, grader, config.solve.max_tokens)

    def measure(self) -> dict[str, float]:
        """Shares of the tasks: solved, cheated at, and without a verdict."""
        prompts = [encoded(self.tokenizer, [{"role": "user", "content": row.prompt}]) for row in self.rows]

        def finished(index: int, answer: Answer) -> None:
            task = self.rows[index].task()
            text = self.tokenizer.decode(answer.tokens, skip_special_tokens=True)
            self.grader.submit(index, task, extract(text, wanted(task).accepted))

        self.sampler.sample(prompts, Sampling(self.max_tokens, temperature=0.0), finished)
        grades = self.grader.collect()
        count = len(grades)
        return {
            "solve/pass@1": sum(grade.verdict is not None and grade.verdict.accepted for grade in grades) / count,
            "solve/cheated": sum(cheated(grade.verdict) for grade in grades) / count,
            "solve/unscored": sum(grade.verdict is None for grade in grades) / count,
        }
