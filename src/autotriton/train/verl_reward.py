"""The reward for verl: `reward.custom_reward_function.path=pkg://autotriton.train.verl_reward`, name `compute_score`.

The judge and the reward are those of `train grpo`. Must stay true: no answer makes it raise (verl would end the run),
and every answer gets the same keys (verl stacks them into arrays). A wrong setting does raise, at the first answer: it
would otherwise make every reward of the run a silent zero.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import model_validator

from autotriton.propose.extract import extract
from autotriton.propose.prompt import wanted
from autotriton.train.asking import Asking
from autotriton.train.config import JudgePart, Part, RewardPart, checked, require_timing
from autotriton.train.grading import Grade, judge_options
from autotriton.train.reward import cheated, reward
from autotriton.types import Task

_log = logging.getLogger(__name__)
_MOST_WARNINGS = 20
_TASK = ("id", "source", "entry", "mode")
"""What a task is made of."""
_VERLS = frozenset(("reward_router_address", "reward_model_tokenizer"))
"""What verl passes by itself beside `reward_kwargs`."""


class Settings(Part):
    """`reward_kwargs`: the tables `judge` and `reward` of a GRPO config, and where judging happens."""

    judge: JudgePart = JudgePart()
    reward: RewardPart = RewardPart()
    gpus: tuple[int, ...] = ()
    """Device numbers of each node the judges use, one each in turn; none: what the process sees."""

    @model_validator(mode="after")
    def _speed_needs_time(self) -> Self:
        require_timing(self.reward, self.judge)
        return self


class Bench:
    """What one process judges with: settings read once, one judge."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        options = judge_options(settings.judge, settings.reward)
        self.asking = Asking(options, settings.judge.workers, environment(settings.gpus))
        self.warned = 0


_benches: dict[str, Bench] = {}
_lock = threading.Lock()


async def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **settings: Any
) -> dict[str, float | str]:
    """What one answer earned, with its reasons. verl knows no missing reward: `unscored` marks a 0 that is none."""
    bench = _bench(settings)
    try:
        task, code = await asyncio.to_thread(_read, solution_str, ground_truth, extra_info)
        grade = await bench.asking.grade(task, code)
    except Exception as error:  # noqa: BLE001 - verl ends the run for whatever one answer raises
        grade = Grade(-1, None, f"{type(error).__name__}: {error}")
    if grade.verdict is None and bench.warned < _MOST_WARNINGS:
        bench.warned += 1
        _log.warning("an answer to a task of %s has no verdict: %s", data_source, grade.error)
    return scores(grade, bench.settings.reward)


def scores(grade: Grade, wanted: RewardPart) -> dict[str, float | str]:
    """Numbers and text only, always the same keys."""
    earned = reward(grade.verdict, wanted)
    return {
        "score": earned.value or 0.0,
        "rule": float(bool(earned.rule)),
        "execution": float(bool(earned.execution)),
        "speed": earned.speed,
        "share": earned.share,
        "accepted": float(grade.verdict is not None and grade.verdict.accepted),
        "cheated": float(cheated(grade.verdict)),
        "unscored": float(earned.value is None),
        "outcome": "" if grade.verdict is None else grade.verdict.outcome.value,
        "reason": (grade.error or "") if grade.verdict is None else grade.verdict.message,
    }


def environment(gpus: Sequence[int]) -> dict[str, str]:
    """The judge's: Ray may have hidden every GPU from a worker that reserved none, and the judge needs one."""
    found = dict(os.environ)
    if gpus:
        found["CUDA_VISIBLE_DEVICES"] = str(gpus[os.getpid() % len(gpus)])
    elif found.get("CUDA_VISIBLE_DEVICES") == "":
        del found["CUDA_VISIBLE_DEVICES"]
    return found


def _bench(settings: Mapping[str, Any]) -> Bench:
    """One per process and settings."""
    values = {name: _plain(value) for name, value in settings.items() if name not in _VERLS}
    key = json.dumps(values, sort_keys=True, default=str)
    with _lock:
        if key not in _benches:
            bench = _benches[key] = Bench(checked(Settings, values, "reward_kwargs"))
            atexit.register(bench.asking.close)
        return _benches[key]


def _plain(value: Any) -> Any:
    """Hydra's containers as Python's."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _read(answer: str, ground_truth: Any, extra_info: Any) -> tuple[Task, str]:
    """`ground_truth` is the task as JSON, or its source with the rest in `extra_info`."""
    values: dict[str, Any] = dict(extra_info or {})
    if isinstance(ground_truth, str) and not ground_truth.lstrip().startswith("{"):
        values["source"] = ground_truth
    else:
        values |= json.loads(ground_truth) if isinstance(ground_truth, str) else ground_truth
    task = Task.model_validate({name: values[name] for name in _TASK if name in values})
    return task, extract(answer, wanted(task).accepted)
