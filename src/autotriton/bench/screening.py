"""What Triton's interpreter may decide for a GPU: most answers of a model that is not trained yet fail on any machine.

Must stay true: nothing is accepted here, officially neither; and what the interpreter cannot tell is left to a GPU. So
screening can only ever count too little: an answer written for the task's own sizes may fail at the reduced ones that a
large task is interpreted at.
"""

from __future__ import annotations

from dataclasses import replace

from autotriton.bench.examine import Examined
from autotriton.judge import JudgeOptions
from autotriton.types import Outcome, Tier, Verdict

NOTE = "screened: it failed in Triton's interpreter and was not run on a GPU"
_DECIDED = (
    Outcome.NO_CODE,
    Outcome.REJECTED,
    Outcome.COMPILE_ERROR,
    Outcome.RUNTIME_ERROR,
    Outcome.NO_WORK,
    Outcome.WRONG,
)
_UNTOLD = ("interpreter cannot run", "out of memory")
"""Of messages that say more about this machine than about the answer."""


def options(asked: JudgeOptions) -> JudgeOptions:
    """The same judge without a GPU, and without compiling for one."""
    return replace(asked, device="cpu", tier=Tier.INTERPRET)


def screened(examined: Examined) -> Examined | None:
    """The failure as it may be kept; None for everything a GPU has to look at."""
    verdict, official = examined.verdict, examined.official
    if verdict is None or not _decided(verdict) or official is None or official.executed:
        return None
    return replace(examined, verdict=verdict.model_copy(update={"notes": (*verdict.notes, NOTE)}))


def _decided(verdict: Verdict) -> bool:
    return verdict.outcome in _DECIDED and not any(words in verdict.message for words in _UNTOLD)
