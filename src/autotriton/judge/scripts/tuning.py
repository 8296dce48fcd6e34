"""Which configuration an autotuned kernel takes.

Tuning runs every configuration over the same memory, and which one wins is a matter of timing: the trusted process
repeats calls with others to see whether the answer depends on it. A call in which something was tuned is made again.
"""

from __future__ import annotations

import math
from typing import Any

from triton.runtime.autotuner import Autotuner


class Tuning:
    """Installed once per process, on a GPU; the interpreter has its own way (`Interpreter.config_index`)."""

    def __init__(self) -> None:
        self.chosen: float | None = None
        """From 0 to 1, a place in a tuner's list of working configurations; None: the one it found best."""
        self.count = 0
        """Configurations timed so far."""
        self._wrap_run()
        self._wrap_bench()

    def _wrap_run(self) -> None:
        original, tuning = Autotuner.run, self

        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            working = [config for config, ms in (getattr(tuner, "configs_timings", None) or {}).items() if _works(ms)]
            if tuning.chosen is None or len(working) < 2:
                return original(tuner, *args, **kwargs)
            best = tuner.cache
            tuner.cache = _Always(working[int(tuning.chosen * (len(working) - 1) + 0.5)])
            try:
                return original(tuner, *args, **kwargs)
            except Exception:  # noqa: BLE001 - one that worked for other shapes need not work for these
                tuner.cache = best
                return original(tuner, *args, **kwargs)
            finally:
                tuner.cache = best

        Autotuner.run = run

    def _wrap_bench(self) -> None:
        original, tuning = Autotuner._bench, self

        def bench(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            tuning.count += 1
            return original(tuner, *args, **kwargs)

        Autotuner._bench = bench


class _Always(dict[Any, Any]):
    """A tuner's memory that holds one configuration for whatever it is asked."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self._config = config

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        return self._config


def _works(ms: Any) -> bool:
    """A configuration that failed was given an infinite time."""
    return math.isfinite(ms[0] if isinstance(ms, list | tuple) else ms)
