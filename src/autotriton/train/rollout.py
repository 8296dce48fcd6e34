"""One step's answers: drawn, sampled, judged while others are still being sampled, and stored.

Groups whose answers all earned the same teach nothing; they are replaced by groups of other tasks. Whatever happens to
one answer, the step goes on. With `ahead` a step's answers are sampled one step early and judged during that step's
training; what is on its way is saved with every checkpoint.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

from autotriton.data.rows import TaskRow
from autotriton.propose.extract import extract
from autotriton.propose.prompt import Prompts, wanted
from autotriton.store import Run
from autotriton.train.config import GrpoConfig
from autotriton.train.curriculum import Curriculum
from autotriton.train.grading import Grader
from autotriton.train.reward import Reward, cheated, reward
from autotriton.train.sampling import Answer, Sampler, Sampling, encoded
from autotriton.types import Attempt, Candidate, TokenUsage, Verdict

AHEAD_FILE = "ahead.json"
"""In a checkpoint: the answers that are on their way."""


@dataclass
class Sample:
    """One answer on its way: asked, answered, judged, rewarded."""

    row: TaskRow
    number: int
    """Within its group."""
    prompt: list[int]
    messages: list[dict[str, str]]
    answer: Answer | None = None
    text: str = ""
    code: str = ""
    verdict: Verdict | None = None
    error: str | None = None
    reward: Reward = field(default_factory=lambda: Reward(None))
    parent: Candidate | None = None

    @property
    def candidate(self) -> Candidate:
        assert self.answer is not None
        return Candidate(
            task_id=self.row.id,
            code=self.code,
            proposer="grpo",
            parent_id=None if self.parent is None else self.parent.id,
            completion=self.text,
            usage=TokenUsage(prompt=len(self.prompt), completion=len(self.answer.tokens)),
        )


@dataclass(frozen=True)
class Group:
    """The answers to one task."""

    row: TaskRow
    samples: list[Sample]

    @property
    def varied(self) -> bool:
        """Some answers earned more than others."""
        earned = [sample.reward.value for sample in self.samples if sample.reward.value is not None]
        return len(set(earned)) > 1


@dataclass
class Batch:
    """Groups that were answered and may still be with the judge: number there -> sample."""

    groups: list[Group]
    sent: dict[int, Sample] = field(default_factory=dict)


class Rollout:
    """TRL's `rollout_func`. TRL's own choice of prompts is not used: the curriculum draws the tasks."""

    def __init__(
        self, config: GrpoConfig, run: Run, curriculum: Curriculum, sampler: Sampler, tokenizer: Any, grader: Grader
    ) -> None:
        self.config, self.run, self.curriculum = config, run, curriculum
        self.sampler, self.tokenizer, self.grader = sampler, tokenizer, grader
        self.metrics: dict[str, float] = {}
        """Of the step just rolled out; the reward function hands them to the trainer."""
        self._prompts = Prompts()
        self._numbers = itertools.count()
        self._ahead: Batch | None = None

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        step, process = int(trainer.state.global_step), int(trainer.accelerator.process_index)
        count = len(prompts) // self.config.group
        groups, spent = (self._groups_ahead if self.config.ahead else self._groups)(count, step, process)
        samples = [sample for group in groups for sample in group.samples]
        self.metrics = {**_metrics(samples, groups), **spent}
        answers = [sample.answer or Answer([self.tokenizer.eos_token_id], [0.0]) for sample in samples]
        return {
            "prompt_ids": [sample.prompt for sample in samples],
            "completion_ids": [answer.tokens for answer in answers],
            "logprobs": [answer.logprobs for answer in answers],
            "earned": [sample.reward.value for sample in samples],
        }

    def _groups(self, count: int, step: int, process: int) -> tuple[list[Group], dict[str, float]]:
        """As many groups as asked for, varied ones first, and where the seconds went."""
        kept: list[Group] = []
        dull: list[Group] = []
        seen: set[str] = set()
        spent = {"seconds/generate": 0.0, "seconds/judge": 0.0}
        for again in range(self.config.refill + 1):
            rows = self.curriculum.draw(count - len(kept), seen)
            seen |= {row.id for row in rows}
            seed = hash_seed(self.config.optim.seed, step, process, again)
            for group in self._round(rows, seed, spent):
                self.curriculum.learn(group.row.id, _solved(group))
                (kept if group.varied else dull).append(group)
            if len(kept) >= count:
                break
        spent["groups/dull"] = len(dull) / (len(dull) + len(kept))
        return (kept + dull)[:count], spent

    def _groups_ahead(self, count: int, step: int, process: int) -> tuple[list[Group], dict[str, float]]:
        """The groups that were answered during the step before; others are answered for the next one."""
        spent = {"seconds/generate": 0.0, "seconds/judge": 0.0}
        batch = self._ahead or self._begun(count, step, process, spent)
        last = step + 1 >= self.config.steps
        self._ahead = None if last else self._begun(count, step + 1, process, spent)
        self._judged(batch.sent, spent)
        for group in batch.groups:
            self.curriculum.learn(group.row.id, _solved(group))
        groups = sorted(batch.groups, key=lambda group: not group.varied)
        spent["groups/dull"] = sum(not group.varied for group in groups) / len(groups)
        return groups[:count], spent

    def _begun(self, count: int, step: int, process: int, spent: dict[str, float]) -> Batch:
        rows = self.curriculum.draw(count + ceil(count * self.config.spare))
        batch = Batch([self._group(row) for row in rows])
        samples = [sample for group in batch.groups for sample in group.samples]
        batch.sent = self._send(samples, hash_seed(self.config.optim.seed, step, process, 0), spent)
        return batch

    def save(self, folder: Path) -> None:
        """What a checkpoint needs of the answers that are on their way; verdicts are asked for again."""
        self.curriculum.save(folder)
        if self._ahead is None:
            return
        answers = [
            {"task": sample.row.id, "number": sample.number, "tokens": answer.tokens, "logprobs": answer.logprobs}
            for group in self._ahead.groups
            for sample in group.samples
            if (answer := sample.answer) is not None
        ]
        (folder / AHEAD_FILE).write_text(json.dumps(answers), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        self.curriculum.restore(folder)
        file = folder / AHEAD_FILE
        if not file.is_file():
            return
        batch = Batch([])
        for task, found in itertools.groupby(
            json.loads(file.read_text(encoding="utf-8")), lambda one: str(one["task"])
        ):
            group = self._group(self.curriculum.rows[task])
            for one in found:
                sample = group.samples[one["number"]]
                self._answered(sample, Answer(one["tokens"], one["logprobs"]), batch.sent)
            batch.groups.append(group)
        self._ahead = batch

    def _group(self, row: TaskRow) -> Group:
        return Group(row, [self._asked(row, number) for number in range(self.config.group)])

    def _round(self, rows: Sequence[TaskRow], seed: int, spent: dict[str, float]) -> list[Group]:
        groups = [self._group(row) for row in rows]
        self._sample([sample for group in groups for sample in group.samples], seed, spent)
        if self.config.second_turn:
            self._second_turn(groups, seed + 1, spent)
        return groups

    def _asked(self, row: TaskRow, number: int) -> Sample:
        messages = [{"role": "user", "content": row.prompt}]
        return Sample(row, number, encoded(self.tokenizer, messages), messages)

    def _second_turn(self, groups: Sequence[Group], seed: int, spent: dict[str, float]) -> None:
        """Failed answers are sent back with the verdict, and the second answer takes the first one's place."""
        again: list[Sample] = []
        for group in groups:
            for place, first in enumerate(group.samples):
                if first.verdict is None or first.verdict.accepted or first.answer is None:
                    continue
                attempt = Attempt(
                    run_id=self.run.id, task=group.row.task(), candidate=first.candidate, verdict=first.verdict
                )
                question = {"role": "user", "content": self._prompts.refine(group.row.task(), attempt)}
                messages = [*first.messages, {"role": "assistant", "content": first.text}, question]
                prompt = encoded(self.tokenizer, messages)
                if len(prompt) > self.config.prompt_tokens:
                    continue
                group.samples[place] = Sample(group.row, first.number, prompt, messages, parent=first.candidate)
                again.append(group.samples[place])
        if again:
            self._sample(again, seed, spent)

    def _sample(self, samples: Sequence[Sample], seed: int, spent: dict[str, float]) -> None:
        """Answers, verdicts and rewards for all of them."""
        self._judged(self._send(samples, seed, spent), spent)

    def _send(self, samples: Sequence[Sample], seed: int, spent: dict[str, float]) -> dict[int, Sample]:
        """Answers to all of them; judging begins with the first answer that is whole."""
        config, sent = self.config, dict[int, Sample]()
        how = Sampling(config.completion_tokens, config.temperature, config.top_p, seed)
        started = time.monotonic()
        self.sampler.sample(
            [sample.prompt for sample in samples],
            how,
            lambda index, answer: self._answered(samples[index], answer, sent),
        )
        spent["seconds/generate"] += time.monotonic() - started
        return sent

    def _answered(self, sample: Sample, answer: Answer, sent: dict[int, Sample]) -> None:
        sample.answer = answer
        sample.text = self.tokenizer.decode(answer.tokens, skip_special_tokens=True)
        task = sample.row.task()
        sample.code = extract(sample.text, wanted(task).accepted)
        number = next(self._numbers)
        sent[number] = sample
        self.grader.submit(number, task, sample.code)

    def _judged(self, sent: dict[int, Sample], spent: dict[str, float]) -> None:
        """Waits for the verdicts; what each answer earned."""
        started = time.monotonic()
        for grade in self.grader.collect(sent):
            sample = sent[grade.number]
            sample.verdict, sample.error = grade.verdict, grade.error
            sample.reward = reward(grade.verdict, self.config.reward)
        spent["seconds/judge"] += time.monotonic() - started
        self._keep(sent.values())

    def _keep(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            self.run.append(
                Attempt(
                    run_id=self.run.id,
                    task=sample.row.task(),
                    candidate=sample.candidate,
                    verdict=sample.verdict,
                    error=sample.error,
                    sample=sample.number,
                )
            )


def earned(earned: Sequence[float | None], **_: Any) -> list[float | None]:
    """TRL's reward function: what the rollout already knows. None moves nothing."""
    return list(earned)


def hash_seed(*parts: int) -> int:
    """One seed per step, process and round: the same whenever that step is made again."""
    seed = 0
    for part in parts:
        seed = (seed * 1_000_003 + part + 1) % (2**31 - 1)
    return seed


def _solved(group: Group) -> float:
    return sum(sample.verdict is not None and sample.verdict.accepted for sample in group.samples) / len(group.samples)


def _metrics(samples: Sequence[Sample], groups: Sequence[Group]) -> dict[str, float]:
    count = len(samples)
    codes = {(sample.row.id, sample.code) for sample in samples}
    return {
        "attempts/accepted": sum(s.verdict is not None and s.verdict.accepted for s in samples) / count,
        "attempts/rule": sum(bool(s.reward.rule) for s in samples) / count,
        "attempts/cheated": sum(cheated(s.verdict) for s in samples) / count,
        "attempts/unscored": sum(s.reward.value is None for s in samples) / count,
        "attempts/distinct": len(codes) / count,
        "groups/varied": sum(group.varied for group in groups) / len(groups),
    }
