"""Answers that earlier weights gave: PPO's ratio, and with it the clipping, is taken to the weights that answered.

TRL takes a step's answers for those of the weights it trains, where every ratio is 1 and nothing is clipped. With
`ahead` they are one update older, and the log-probabilities they were drawn with are at hand.
"""

from __future__ import annotations

from typing import Any


def earlier(base: type) -> type:
    """TRL's GRPOTrainer, for answers that come with the log-probabilities of the weights that gave them."""
    parent: Any = base

    class Earlier(parent):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            found = super()._generate_and_score_completions(inputs)
            found["old_per_token_logps"] = found["sampling_per_token_logps"]
            return found

    return Earlier
