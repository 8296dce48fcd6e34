"""When a run will not recover: NaN, a loss that explodes, answers or entropy that collapse. Pure; fed with metrics."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import median

from autotriton.train.config import GuardPart


class Guard:
    """Looks at every step's metrics and says why the run should stop."""

    def __init__(self, wanted: GuardPart) -> None:
        self._wanted = wanted
        self._losses: deque[float] = deque(maxlen=wanted.window)
        self._short: deque[float] = deque(maxlen=wanted.window)
        self._sure: deque[float] = deque(maxlen=wanted.window)

    def look(self, metrics: Mapping[str, float]) -> str | None:
        """The reason to stop, or None."""
        for name in ("loss", "grad_norm"):
            if name in metrics and not math.isfinite(metrics[name]):
                return f"{name} is {metrics[name]}"
        reason = self._loss(metrics["loss"]) if "loss" in metrics and "reward" not in metrics else None
        return reason or self._collapse(metrics)

    def _loss(self, loss: float) -> str | None:
        """GRPO's loss hovers about zero and says nothing; this is for losses that should fall."""
        usual = median(self._losses) if len(self._losses) == self._wanted.window else None
        self._losses.append(loss)
        if usual is not None and loss > max(self._wanted.loss_factor * usual, 0.5):
            return f"the loss rose to {loss:.3g}, {loss / usual:.1f} times its recent median"
        return None

    def _collapse(self, metrics: Mapping[str, float]) -> str | None:
        pairs = (
            ("completions/mean_length", self._short, self._wanted.least_length, "the answers' mean length"),
            ("entropy", self._sure, self._wanted.least_entropy, "the entropy"),
        )
        for name, seen, least, words in pairs:
            if name not in metrics:
                continue
            seen.append(metrics[name])
            if len(seen) == self._wanted.window and max(seen) < least:
                return f"{words} stayed below {least:g} for {self._wanted.window} steps"
        return None
