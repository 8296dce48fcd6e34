"""How Inductor would launch each kernel: its setting, further settings worth trying, and the grid as formulas.

Runs in the capturing child process only. A kernel's heuristics decorator is run only to learn from it.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import torch._inductor.runtime.triton_helpers as triton_helpers
import torch._inductor.runtime.triton_heuristics as heuristics

from autotriton.propose.compiler.inductor.kernels import kernel_sources
from autotriton.propose.compiler.inductor.lowering import Lowered, cuda
from autotriton.propose.compiler.inductor.record import Launch

_MOST_ALTERNATIVES = 11
_TUNING = ("'max_autotune': False", "'max_autotune_pointwise': False")
"""How the decorator is told not to look for more; in text, for the kernels' source is text."""


def launches(lowered: Lowered, measured: bool) -> dict[str, Launch]:
    with cuda(measured):
        return {
            name: _launch(source, lowered.fastest.get(name)) for name, source in kernel_sources(lowered.wrapper).items()
        }


def _launch(source: str, fastest: Any | None) -> Launch:
    seen = _decorated(source)
    signature, meta = seen["signature"], seen["meta"]
    config = fastest or seen["configs"][0]
    grid = _grid(meta, config, signature)
    return Launch(
        config=_kept(config, signature),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        grid=(str(grid.x_grid), str(grid.y_grid), str(grid.z_grid)),
        prefix=tuple(grid.prefix),
        extra_arguments=tuple(meta.get("extra_launcher_args", ())),
        types={name: str(kind) for name, kind in signature.items()},
        alternatives=_alternatives(source, seen, config),
    )


def _grid(meta: dict[str, Any], config: Any, signature: dict[str, Any]) -> Any:
    """Over the names of the settings where Inductor's formulas allow that, else for this setting."""
    try:
        return heuristics.GridExpr.from_meta(meta, {name: name for name in _kept(config, signature)})
    except (TypeError, AssertionError, ValueError):  # some formulas check the numbers themselves
        return heuristics.GridExpr.from_meta(meta, config)


def _kept(config: Any, signature: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.kwargs.items() if name in signature}


def _alternatives(source: str, seen: dict[str, Any], config: Any) -> tuple[dict[str, Any], ...]:
    """Other settings of the same names, Inductor's first guesses first."""
    thorough = source
    for told in _TUNING:
        thorough = thorough.replace(told, told.replace("False", "True"))
    offered = [*seen["configs"], *(_decorated(thorough)["configs"] if thorough != source else ())]
    own = _setting(config, seen["signature"])
    settings = [_setting(one, seen["signature"]) for one in offered]
    same_names = [setting for setting in settings if setting.keys() == own.keys() and setting != own]
    distinct = [setting for number, setting in enumerate(same_names) if setting not in same_names[:number]]
    return tuple(distinct[:_MOST_ALTERNATIVES])


def _setting(config: Any, signature: dict[str, Any]) -> dict[str, Any]:
    return {**_kept(config, signature), "num_warps": config.num_warps, "num_stages": config.num_stages}


def _decorated(source: str) -> dict[str, Any]:
    """What the decorator hands to Inductor's autotuner."""
    seen: dict[str, Any] = {}

    def learn(size_hints: Any, configs: Any, triton_meta: Any, heuristic_type: Any, **kwargs: Any) -> Any:
        def decorate(function: Any) -> Any:
            seen.update(configs=configs, meta=kwargs.get("inductor_meta") or {}, signature=triton_meta["signature"])
            return function

        return decorate

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(heuristics, "cached_autotune", learn),
        mock.patch.object(triton_helpers, "set_driver_to_gpu", return_value=None),
    ):
        path = Path(folder, "kernel.py")
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("kernel", path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return seen
