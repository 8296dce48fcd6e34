"""`tune`: the settings of a candidate's kernels that are fastest on this GPU. No torch is imported in this process.

The cache is asked first and told last; in between a search (`supervise.py`) lets a worker process measure. The tuned
file is a new candidate: it has to be judged again.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from autotriton import machine
from autotriton.errors import PrerequisiteError, UsageError
from autotriton.tune import search, tiles
from autotriton.tune.cache import Entry, TileCache, task_key, wrapper_key
from autotriton.tune.supervise import Gate, Open, Plan, Search
from autotriton.tune.tiles import Setting, Settings
from autotriton.types import Candidate, Machine, Task

Progress = Callable[[str], None]
_STALL_S = 30.0
"""A setting that keeps the worker silent for this long hangs."""
_INTERPRETER = "Triton's interpreter"


def tune(
    task: Task,
    candidate: Candidate,
    *,
    budget_s: float,
    cache: TileCache | None = None,
    retune: bool = False,
    progress: Progress | None = None,
    gate: Gate | None = None,
    device: str = "auto",
    jobs: int | None = None,
    stall_s: float = _STALL_S,
) -> Candidate:
    """The candidate with the best settings found for this GPU; the candidate itself where they are its own.

    `cache` is the user's unless given; `retune` ignores what it holds and replaces it. `gate` is for those who share
    the GPU. `jobs` is how many kernels are compiled at once. `device="cpu"` goes the whole way in Triton's
    interpreter, where times mean nothing.
    """
    report = progress or (lambda _: None)
    try:
        choices = _alternatives(candidate)
    except UsageError as error:
        report(f"not tuned: {error}")
        return candidate
    here = machine.describe()
    if not choices or not _usable(device, here):
        report("not tuned: there is nothing to choose" if not choices else "not tuned: no GPU")
        return candidate
    plan = Plan(
        task=task,
        code=candidate.code,
        choices=choices,
        device="cpu" if device == "cpu" else "cuda",
        capability=here.compute_capability,
        jobs=jobs or len(os.sched_getaffinity(0)),
        budget_s=budget_s,
        stall_s=stall_s,
    )
    gpu = _INTERPRETER if device == "cpu" else str(here.gpu)
    known = _Known(plan, cache or TileCache(), gpu, here.triton or "", retune)
    settings = known.for_task()
    if settings is None:
        settings = _measure(plan, known, gate or Open(), report)
    return _with(candidate, settings, f"{gpu}, triton {here.triton}")


def _usable(device: str, here: Machine) -> bool:
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"unknown device {device!r}", hint="known: auto, cpu, cuda")
    if device == "cuda" and here.gpu is None:
        raise PrerequisiteError("no CUDA device found", hint="run `autotriton doctor`")
    return device == "cpu" or here.gpu is not None


def _alternatives(candidate: Candidate) -> dict[str, tuple[Setting, ...]]:
    """For each wrapper with a choice every setting, the file's own first."""
    if not candidate.choices:
        return {}
    own = tiles.read(candidate.code)
    unknown = sorted(set(candidate.choices) - set(own))
    if unknown:
        raise UsageError(f"{tiles.NAME} has no entry {unknown[0]!r}, for which there are choices")
    found: dict[str, tuple[Setting, ...]] = {}
    for name, offered in candidate.choices.items():
        distinct = [dict(setting) for number, setting in enumerate(offered) if setting not in offered[:number]]
        found[name] = (own[name], *(setting for setting in distinct if setting != own[name]))
    return {name: settings for name, settings in found.items() if len(settings) > 1}


def _measure(plan: Plan, known: _Known, gate: Gate, report: Progress) -> Settings:
    found = Search(plan, gate, report, known.for_wrappers)
    found.run()
    best: Settings = dict(found.cached)
    for name, measured in found.measured.items():
        chosen = search.winner(measured)
        if chosen is not None:
            best[name] = plan.choices[name][chosen]
            report(_summary(name, found, chosen))
    known.remember(found, best)
    return best


def _summary(name: str, found: Search, chosen: int) -> str:
    measured, dropped = found.measured[name], found.dropped.get(name, {})
    own = f"{measured[search.FIRST].ms:.4g} -> " if search.FIRST in measured and chosen != search.FIRST else ""
    tried = f"{len(measured)} of {len(found.plan.choices[name])} settings measured"
    reasons = f", {len(dropped)} cannot be used (e.g. {next(iter(dropped.values()))})" if dropped else ""
    return f"{name}: {own}{measured[chosen].ms:.4g} ms; {tried}{reasons}"


def _with(candidate: Candidate, settings: Settings, note: str) -> Candidate:
    own = tiles.read(candidate.code)
    if all(own[name] == setting for name, setting in settings.items()):
        return candidate
    code = tiles.rewrite(candidate.code, settings, note)
    return candidate.model_copy(update={"code": code, "parent_id": candidate.id, "completion": None, "usage": None})


class _Known:
    """The cache, as far as it concerns one candidate on one machine."""

    def __init__(self, plan: Plan, cache: TileCache, gpu: str, triton: str, retune: bool) -> None:
        self.plan, self.cache, self.retune = plan, cache, retune
        self.gpu, self.triton = gpu, triton
        self._task_key = task_key(plan.task, plan.code, gpu, triton)
        self._wrapper_keys: dict[str, str] = {}

    def for_task(self) -> Settings | None:
        """Everything, without looking at the GPU."""
        return self._settings(self._task_key)

    def for_wrappers(self, calls: dict[str, dict[str, int]]) -> Settings:
        """What is known of wrappers that are called like this, whatever task they come from."""
        found: Settings = {}
        for name, signatures in calls.items():
            key = self._wrapper_keys[name] = wrapper_key(self.plan.code, name, signatures, self.gpu, self.triton)
            found.update(self._settings(key) or {})
        return found

    def remember(self, found: Search, best: Settings) -> None:
        if found.worth is None:  # no worker came as far as to see what there is
            return
        complete = found.worth <= found.finished | set(found.cached)
        entries = [
            self._entry(self._wrapper_keys[name], {name: best[name]}, found, name in found.finished)
            for name in best
            if name not in found.cached
        ]
        self.cache.put(*entries, self._entry(self._task_key, best, found, complete))

    def _settings(self, key: str) -> Settings | None:
        """An entry's settings, if they are still among the choices."""
        entry = None if self.retune else self.cache.get(key, self.plan.budget_s)
        if entry is None:
            return None
        offered = all(setting in self.plan.choices.get(name, ()) for name, setting in entry.settings.items())
        return entry.settings if offered else None

    def _entry(self, key: str, settings: Settings, found: Search, complete: bool) -> Entry:
        ms, own_ms = {}, {}
        for name in settings:
            measured = found.measured.get(name, {})
            chosen = search.winner(measured)
            if chosen is not None:
                ms[name] = measured[chosen].ms
            if search.FIRST in measured:
                own_ms[name] = measured[search.FIRST].ms
        return Entry(
            key=key,
            settings=settings,
            complete=complete,
            budget_s=self.plan.budget_s,
            gpu=self.gpu,
            triton=self.triton,
            ms=ms,
            own_ms=own_ms,
        )
