"""Several processes that train one model (`accelerate launch`): who writes, and how they agree.

Must stay true: files are written by the first process only, and whatever ends a step ends it in all of them: a process
that stops alone leaves the others waiting for ever. With one process none of this does anything.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from autotriton.errors import PrerequisiteError, UsageError


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    return int(os.environ.get("RANK", "0")) == 0


def sharded() -> bool:
    """Each process will hold a part of the weights: the trainer places them, not we."""
    return count() > 1 and os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"


def made_once(make: Callable[[], str]) -> str:
    """What the first process made, in all of them; its error is told once."""
    if count() == 1:
        return make()
    made = ""
    try:
        made = make() if is_first() else ""
    finally:
        made = str(_from_first(made))
    if not made:
        raise UsageError("the first process could not start the run")
    return made


def agreed(flag: bool) -> bool:
    """The first process's answer: clocks differ."""
    return flag if count() == 1 else bool(_from_first(flag))


def all_here() -> None:
    """Waits until every process is here."""
    if count() > 1:
        _state().wait_for_everyone()


def require_one(what: str, hint: str) -> None:
    if count() > 1:
        raise UsageError(f"{what} works in one process and {count()} were started", hint=hint)


def _from_first(value: Any) -> Any:
    _state()
    box = [value]
    importlib.import_module("accelerate.utils").broadcast_object_list(box)
    return box[0]


def _state() -> Any:
    """accelerate's; the trainer uses the same one later."""
    try:
        accelerate: Any = importlib.import_module("accelerate")
    except ImportError:
        raise PrerequisiteError("several processes need accelerate", hint="pip install 'autotriton[train]'") from None
    torch: Any = importlib.import_module("torch")
    return accelerate.PartialState(cpu=not torch.cuda.is_available())
