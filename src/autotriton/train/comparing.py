"""Training runs side by side: what differs in their configs, and every metric at their start and at their end.

Must stay true: all runs are read over the same steps, those of the shortest; and what makes them hard to compare (other
lengths, numbers that are not finite, another judge) is said, not hidden.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotriton.errors import UsageError
from autotriton.store import Run, RunInfo
from autotriton.train.journal import METRICS_FILE, Journal, number
from autotriton.types import Record

METRICS = ("reward", "attempts/accepted", "attempts/rule", "attempts/cheated", "solve/pass@1", "loss",
           "completions/mean_length", "entropy")  # fmt: skip
WINDOW = 5
_VERBS = ("sft", "grpo")
_NOT_COMPARED = {"name", "save_every", "keep"}  # they say nothing about what is learned


@dataclass(frozen=True)
class Training:
    """A run as it lies on disk."""

    info: RunInfo
    metrics: Mapping[str, Mapping[int, float]]
    """Every number that was written, by name, then by step."""
    unread: int = 0
    """Lines of metrics behind a damaged one."""

    @property
    def steps(self) -> int:
        return max(max(points) for points in self.metrics.values())


class Window(Record):
    """A mean over some steps."""

    mean: float | None
    """None: none of its numbers is finite."""
    first: int
    """Step of its first measurement."""
    last: int


class Change(Record):
    """A metric at the start and at the end; twice the same where it was measured once."""

    start: Window
    end: Window


class Row(Record):
    """One run."""

    id: str
    name: str
    label: str
    """What tells it from the others, in a few words."""
    differs: dict[str, Any]
    """Where its config is not as `Comparison.usual`."""
    steps: int
    metrics: dict[str, Change]


class Comparison(Record):
    """Everything `train compare` shows."""

    verb: str
    steps: int
    """All runs have made these: those of the shortest."""
    window: int
    metrics: tuple[str, ...]
    """Those that any of the runs has."""
    usual: dict[str, Any]
    """What more than half of the runs have where configs differ."""
    runs: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def read(run: Run) -> Training:
    """Raises UsageError where there is nothing to compare."""
    if run.info.verb not in _VERBS:
        hint = "name runs of `train sft` or `train grpo`"
        raise UsageError(f"run {run.id} is no training run but one of {run.info.verb}", hint=hint)
    journal, metrics = Journal(run.path), dict[str, dict[int, float]]()
    try:
        rows, unread = journal.rows(), journal.unread()
    except OSError as error:
        raise UsageError(f"{journal.path} cannot be read: {error.strerror or error}") from None
    for row in rows:
        for name, value in row.items():
            if name != "step" and (found := number(value)) is not None:
                metrics.setdefault(name, {})[row["step"]] = found
    if not metrics:
        hint = f"its {METRICS_FILE} is damaged" if unread else "it has made no step yet"
        raise UsageError(f"run {run.id} has no metrics", hint=hint)
    return Training(run.info, metrics, unread)


def compare(runs: Sequence[Training], window: int = WINDOW) -> Comparison:
    """Over the steps all runs have made. Fewer steps than two windows make the windows smaller."""
    verbs = sorted({run.info.verb for run in runs})
    if len(verbs) > 1:
        raise UsageError(f"the runs are of different kinds: {', '.join(verbs)}", hint="compare runs of one kind")
    steps = min(run.steps for run in runs)
    used = max(1, min(window, steps // 2))
    usual, departures = differences([run.info.config for run in runs])
    changes = [
        {name: change for name in METRICS if (change := changed(run.metrics.get(name, {}), used, steps)) is not None}
        for run in runs
    ]
    rows = zip(runs, _labels(runs, departures), departures, changes, strict=True)
    return Comparison(
        verb=verbs[0],
        steps=steps,
        window=used,
        metrics=tuple(name for name in METRICS if any(name in change for change in changes)),
        usual=usual,
        runs=tuple(
            Row(id=run.info.id, name=_name(run), label=label, differs=differs, steps=run.steps, metrics=change)
            for run, label, differs, change in rows
        ),
        notes=tuple(_notes(runs, steps, window, used)),
    )


def changed(points: Mapping[int, float], window: int, end: int) -> Change | None:
    """From the first window of steps to the one that ends at `end`; where nothing was measured in one of them, the
    first or the last measurement up to `end` stands for it. None without any."""
    known = [step for step in points if step <= end]
    if not known:
        return None
    return Change(
        start=_window(points, 1, window) or _window(points, min(known), min(known)),
        end=_window(points, end - window + 1, end) or _window(points, max(known), max(known)),
    )


def running_mean(points: Mapping[int, float], window: int) -> dict[int, float]:
    """At every step the mean over the window of steps that ends there; NaN where none of its numbers is finite."""
    means = {step: _window(points, step - window + 1, step) for step in sorted(points)}
    return {step: math.nan if found is None or found.mean is None else found.mean for step, found in means.items()}


def differences(configs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Of the keys whose values differ: what more than half of the configs have, and where each one departs from it.

    Where no value has that majority, as with two configs, each one says its own. A key that is missing counts as None.
    """
    flat = [dict(_leaves(config)) for config in configs]
    usual: dict[str, Any] = {}
    departures: list[dict[str, Any]] = [{} for _ in flat]
    for key in dict.fromkeys(key for config in flat for key in config):
        texts = [json.dumps(config.get(key), sort_keys=True) for config in flat]
        text, count = Counter(texts).most_common(1)[0]
        if key in _NOT_COMPARED or count == len(flat):
            continue
        if 2 * count > len(flat):
            usual[key] = json.loads(text)
        for config, departure, own in zip(flat, departures, texts, strict=True):
            if key not in usual or own != text:
                departure[key] = config.get(key)
    return usual, departures


def assignments(values: Mapping[str, Any]) -> list[str]:
    """`reward.rule=false`, as `--set` takes them."""
    return [f"{key}={_said(value)}" for key, value in values.items()]


def _said(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _window(points: Mapping[int, float], first: int, last: int) -> Window | None:
    """None where nothing was measured in these steps."""
    measured = [step for step in range(first, last + 1) if step in points]
    if not measured:
        return None
    finite = [points[step] for step in measured if math.isfinite(points[step])]
    return Window(mean=sum(finite) / len(finite) if finite else None, first=measured[0], last=measured[-1])


def _name(run: Training) -> str:
    return str(run.info.config.get("name") or "")


def _labels(runs: Sequence[Training], departures: Sequence[Mapping[str, Any]]) -> list[str]:
    labels = [
        ", ".join(assignments(differs)) or _name(run) or run.info.id
        for run, differs in zip(runs, departures, strict=True)
    ]
    return [
        label if labels.count(label) == 1 else f"{label} ({run.info.id})"
        for label, run in zip(labels, runs, strict=True)
    ]


def _notes(runs: Sequence[Training], steps: int, wanted: int, window: int) -> Iterator[str]:
    """One line each."""
    longest = max(run.steps for run in runs)
    if longest > steps:
        shortest = next(run.info.id for run in runs if run.steps == steps)
        yield (
            f"the runs are of different lengths, {steps} to {longest} steps: compared over the first {steps}, "
            f"which is all that {shortest} has made"
        )
    if window < wanted:
        yield f"{steps} steps are fewer than two windows of {wanted}: means are over {window}"
    for run in runs:
        yield from _broken(run, steps)
    for aspect, values in {
        "judge versions": [run.info.judge_version for run in runs],
        "commits": [run.info.commit[:12] for run in runs],
        "machines": [run.info.machine.gpu or run.info.machine.cpu for run in runs],
    }.items():
        if len(set(values)) > 1:
            yield f"the runs have different {aspect}: {', '.join(dict.fromkeys(values))}"


def _broken(run: Training, steps: int) -> Iterator[str]:
    """What is wrong with one run's numbers."""
    for name in METRICS:
        points = run.metrics.get(name, {})
        if wrong := [step for step in sorted(points) if step <= steps and not math.isfinite(points[step])]:
            times = "" if len(wrong) == 1 else f" and {len(wrong) - 1} more"
            yield f"{run.info.id}: {name} is {points[wrong[0]]} at step {wrong[0]}{times}; means leave that out"
    if run.unread:
        left = f"{run.unread} line{'s' if run.unread > 1 else ''} behind that not read"
        yield f"{run.info.id}: {METRICS_FILE} is damaged after step {run.steps}; {left}"
