"""The way from a live module to a task: capture, write, check, and choose inputs the module can take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from autotriton.errors import TaskError
from autotriton.live import values
from autotriton.live.calls import CallSpec
from autotriton.live.capture import Captured, capture
from autotriton.live.checking import Seen, difference, finite, observe, original_run, private_rng
from autotriton.live.loading import Borrower, load
from autotriton.live.state import Place, places
from autotriton.live.writing import Written, write
from autotriton.tasks.live import LiveProgram, to_source, to_task
from autotriton.types import Mode, Task

_SMALL = 1 << 18
"""Input elements up to which a run of the module is cheap."""


@dataclass(frozen=True)
class Described:
    """A live module, as everything else needs to know it."""

    call: CallSpec
    captured: Captured
    written: Written
    tensors: tuple[Tensor, ...]
    exact: tuple[bool, ...]
    """Which inputs the task gives the example's own values."""
    seen: Seen
    """What the module does with the example."""
    mode: Mode
    mode_matters: bool
    """The module computes something else in the other of its two modes."""
    tf32: bool

    @property
    def program(self) -> LiveProgram:
        return self.written.program

    @property
    def task(self) -> Task:
        return to_task(self.program, mode=self.mode, tf32=self.tf32)

    @property
    def free(self) -> dict[str, tuple[int, int | None]]:
        """The symbols of leading sizes that can vary, and the range each of them has."""
        fixed = {symbol for symbol, exact in zip(self.captured.leading, self.exact, strict=True) if exact}
        symbols = dict.fromkeys(symbol for symbol in self.captured.leading if symbol is not None)
        return {symbol: self.captured.ranges[symbol] for symbol in symbols if symbol not in fixed}

    @property
    def leading_sizes(self) -> dict[str, int]:
        """The example's leading sizes, by symbol."""
        pairs = zip(self.captured.leading, self.tensors, strict=True)
        return {symbol: int(tensor.shape[0]) for symbol, tensor in pairs if symbol is not None}

    def task_with(self, sizes: dict[str, int]) -> Task:
        """The same task with other leading sizes, by symbol."""
        leading = [sizes.get(symbol) if symbol is not None else None for symbol in self.captured.leading]
        drawn = [
            expression if size is None else values.drawn(tensor, values.layout_of(tensor, size))
            for expression, tensor, size in zip(self.program.inputs, self.tensors, leading, strict=True)
        ]
        return to_task(self.program.with_inputs(tuple(drawn)), mode=self.mode, tf32=self.tf32)


def describe(module: nn.Module, call: CallSpec, tensors: list[Tensor], *, tf32: bool) -> Described:
    captured = capture(module, call, tensors)
    seen = observe(original_run(module, call), module, tensors)
    written = _faithful(module, call, tensors, captured, seen)
    exact, drawn = _inputs(module, written, tensors, seen)
    program = written.program.with_inputs(tuple(map(_expression, tensors, exact)))
    effects = replace(seen, changed_inputs=drawn.changed_inputs, changed_state=drawn.changed_state)
    return Described(
        call=call,
        captured=captured,
        written=replace(written, program=program),
        tensors=tuple(tensors),
        exact=exact,
        seen=effects,
        mode=Mode.TRAIN if module.training else Mode.EVAL,
        mode_matters=_mode_matters(module, call, tensors, written),
        tf32=tf32,
    )


def takes(module: nn.Module, described: Described, sizes: dict[str, int]) -> bool:
    """Whether the module, called with these leading sizes, runs and is what its task says."""
    tensors = list(described.tensors)
    source = described.task_with(sizes).source
    try:
        drawn = next(_draws(source, tensors))
        model = borrower(module, described.written, source, tensors)
        expected = observe(original_run(module, described.call), module, drawn)
        return difference(observe(model, module, drawn).results, expected.results) is None
    except Exception:  # noqa: BLE001 - a size the module does not take raises anything
        return False


def owned(module: nn.Module, constants: dict[str, Tensor]) -> dict[str, Place]:
    """Every tensor a task's `Model` or its replacement needs, where it is kept."""
    return {**places(module), **{name: Place(name, constants, name) for name in constants}}


def _faithful(module: nn.Module, call: CallSpec, tensors: list[Tensor], captured: Captured, seen: Seen) -> Written:
    """The module as source that gives the module's results, in the readable spelling if that is right."""
    problem = ""
    for raw in (False, True):
        written = write(module, call, tensors, captured, raw=raw)
        try:
            got = observe(borrower(module, written, to_source(written.program), tensors), module, tensors)
        except Exception as error:  # noqa: BLE001 - a spelling that does not fit raises anything
            problem = f"{type(error).__name__}: {error}"
            continue
        problem = difference(got.results, seen.results) or _side_effects(got, seen)
        if not problem:
            return written
    raise TaskError(
        f"{type(module).__name__} could not be written down faithfully: {' '.join(problem.split())[:200]}",
        hint="does it give the same result twice for the same inputs?",
    )


def borrower(module: nn.Module, written: Written, source: str, tensors: list[Tensor]) -> Borrower:
    """`Model` of a task's source, computing with the module's own weights."""
    loaded = load(source, f"{type(module).__name__} as a task")
    return Borrower(loaded.Model, loaded.get_init_inputs(), owned(module, written.constants), tensors[0].device)


def _side_effects(got: Seen, seen: Seen) -> str:
    if got.changed_state != seen.changed_state:
        return f"it changes {', '.join(got.changed_state) or 'nothing'}, not {', '.join(seen.changed_state)}"
    return "" if got.changed_inputs == seen.changed_inputs else "it changes other inputs"


def _mode_matters(module: nn.Module, call: CallSpec, tensors: list[Tensor], written: Written) -> bool:
    """Whether `train()` and `eval()` make a difference to what is computed."""
    modes = {part: part.training for part in module.modules()}
    other = not module.training
    try:
        for part in modes:
            part.training = other
        again = write(module, call, tensors, capture(module, call, tensors), raw=written.raw)
        return again.program.body != written.program.body
    except TaskError:
        return True
    finally:
        for part, mode in modes.items():
            part.training = mode


def _inputs(module: nn.Module, written: Written, tensors: list[Tensor], seen: Seen) -> tuple[tuple[bool, ...], Seen]:
    """Which inputs keep the example's values: as few as the module needs to give finite results, masks first."""
    masks = tuple(map(_is_mask, tensors))
    discrete = tuple(mask or not tensor.dtype.is_floating_point for mask, tensor in zip(masks, tensors, strict=True))
    choices = [(False,) * len(tensors), masks, discrete]
    for exact in dict.fromkeys(choices):
        source = to_source(written.program.with_inputs(tuple(map(_expression, tensors, exact))))
        try:
            model = borrower(module, written, source, tensors)
            runs = [observe(model, module, drawn) for drawn in _draws(source, tensors)]
        except Exception:  # noqa: BLE001 - inputs outside the module's domain raise anything
            continue
        if all(finite(run.results) for run in runs) or not finite(seen.results):
            return exact, runs[0]
    return discrete, seen


def _expression(tensor: Tensor, exact: bool) -> str:
    return values.exact(tensor) if exact else values.drawn(tensor)


def _is_mask(tensor: Tensor) -> bool:
    if not tensor.dtype.is_floating_point:
        return tensor.dtype is torch.bool
    return not bool(torch.isfinite(tensor).all()) or len(torch.unique(tensor.detach().float())) <= 8


def _draws(source: str, like: list[Tensor]) -> Iterator[list[Any]]:
    """What the task's own `get_inputs` gives, on the example's devices; more than once where that costs nothing."""
    small = sum(tensor.numel() for tensor in like) <= _SMALL
    get_inputs = load(source, "task").get_inputs
    for _ in range(4 if small else 1):
        with private_rng(), torch.no_grad():
            torch.seed()
            drawn = get_inputs()
        yield [tensor.to(example.device) for tensor, example in zip(drawn, like, strict=True)]
