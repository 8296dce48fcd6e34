"""A live module as a graph: `torch.export` of the instance, over the tensors among its inputs.

Must stay true: the user's module is as it was before, whatever its forward does while it is traced. What cannot be
expressed is told in one line that names the operator or the cause.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from autotriton.errors import TaskError
from autotriton.live import layouts
from autotriton.live.calls import CallSpec, results_of
from autotriton.live.outlines import PLAIN, Outline

PREFIX = "original."
_VALUES = (
    "DataDependent",
    "data-dependent",
    "_local_scalar_dense",
    "DynamicOutputShape",
    "Could not guard",
    "unbacked",
)


@dataclass(frozen=True)
class Captured:
    """An exported module and what its graph does not say."""

    program: ExportedProgram
    outline: Outline
    """Of what the module returns, over the graph's tensors."""
    leading: tuple[str | None, ...]
    """For each tensor input the symbol of its leading size; None where that is fixed."""
    ranges: dict[str, tuple[int, int | None]]
    """Smallest and largest size each symbol may take."""


def capture(module: nn.Module, call: CallSpec, tensors: list[Tensor]) -> Captured:
    """The module's graph, with free leading sizes where it allows that."""
    _refuse_unready(module)
    dynamic = [_leading(tensor) for tensor in tensors]
    if any(dynamic):
        try:
            found = _capture(module, call, tensors, dynamic)
        except Exception:  # noqa: BLE001 - a forward that needs fixed sizes fails in as many ways as there are uses
            found = None
        if found is not None:
            return found
    try:
        found = _capture(module, call, tensors, [None] * len(tensors))
    except TaskError:
        raise
    except Exception as error:  # foreign code and torch.export raise anything
        raise _told(module, error) from error
    assert found is not None
    return found


def _refuse_unready(module: nn.Module) -> None:
    name = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise TaskError(
            f"{name} is a TorchScript module, which cannot be traced", hint="give the module it was made of"
        )
    for key, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise TaskError(f"parameter {key} of {name} is not initialised yet", hint="call the module once first")


def _leading(tensor: Tensor) -> dict[int, Any] | None:
    """A free leading size, where the layout says what other sizes look like."""
    if tensor.dim() == 0 or tensor.shape[0] < 2:
        return None
    free = layouts.resized(tuple(tensor.shape), tuple(tensor.stride()), tensor.shape[0] + 1) is not None
    return {0: Dim.AUTO} if free else None


def _capture(module: nn.Module, call: CallSpec, tensors: list[Tensor], dynamic: list[Any]) -> Captured | None:
    """None when the leading sizes turn out not to be free in a way that can be used."""
    outlines: list[Outline] = []
    flat = _Flat(module, call, outlines.append)
    given = tuple(tensor.detach() for tensor in tensors)
    with _untouched(module), _quiet():
        program = torch.export.export(flat, given, dynamic_shapes=(tuple(dynamic),), strict=False)
    outline = outlines[-1]
    leading, ranges = _symbols(program, len(tensors))
    if any(dynamic) and not _usable(program, leading):
        return None
    _refuse_value_dependence(module, program)
    return Captured(program, outline, leading, ranges)


class _Flat(nn.Module):
    """The module over a flat list of tensors, returning one."""

    def __init__(self, original: nn.Module, call: CallSpec, keep: Callable[[Outline], None]) -> None:
        super().__init__()
        self.original = original
        self.call = call
        self.keep = keep  # torch.export puts back whatever forward sets on the module itself

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        args, kwargs = self.call.rebuild(tensors)
        outline, results = results_of(self.original(*args, **kwargs), type(self.original).__name__)
        self.keep(outline)
        return results


def inputs_of(program: ExportedProgram) -> list[torch.fx.Node]:
    """Placeholders of the tensors a call passes."""
    names = set(program.graph_signature.user_inputs)
    return [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]


def _symbols(program: ExportedProgram, count: int) -> tuple[tuple[str | None, ...], dict[str, tuple[int, int | None]]]:
    found: list[str | None] = []
    for node in inputs_of(program)[:count]:
        shape = node.meta["val"].shape
        text = str(shape[0]) if len(shape) else "0"
        found.append(None if text.isdigit() else text)  # a size that turned out fixed prints as its number
    ranges = {}
    for symbol, bounds in program.range_constraints.items():
        upper = int(bounds.upper) if str(bounds.upper).isdigit() else None
        ranges[str(symbol)] = (max(int(bounds.lower), 1), upper)
    return tuple(found), ranges


def _usable(program: ExportedProgram, leading: tuple[str | None, ...]) -> bool:
    """Every free size is a plain symbol, and no result is a size itself."""
    plain = {str(symbol) for symbol in program.range_constraints}
    output = next(node for node in program.graph.nodes if node.op == "output")
    results = [node.meta.get("val") for node in output.all_input_nodes]
    return all(s is None or s in plain for s in leading) and all(isinstance(value, Tensor) for value in results)


def _refuse_value_dependence(module: nn.Module, program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        if node.op == "call_function" and _is_unbacked(node.meta.get("val")):
            raise TaskError(
                f"{type(module).__name__}.forward makes numbers or sizes out of tensor values ({node.target})",
                hint="kernels need sizes that follow from the inputs' shapes",
            )


def _is_unbacked(value: Any) -> bool:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    if isinstance(value, Tensor | torch.SymInt | torch.SymFloat | torch.SymBool):
        return bool(free_unbacked_symbols(value))
    return isinstance(value, tuple | list) and any(_is_unbacked(item) for item in value)


def _told(module: nn.Module, error: BaseException) -> TaskError:
    """One line about why the module cannot be traced."""
    name, text = type(module).__name__, " ".join(str(error).split())
    if any(mark in type(error).__name__ or mark in text for mark in _VALUES):
        return TaskError(
            f"{name}.forward looks at tensor values to decide what to do: {text[:160]}",
            hint="control flow that depends on data cannot become a kernel; optimize the part without it",
        )
    return TaskError(
        f"{name} cannot be traced: {type(error).__name__}: {text[:240]}",
        hint="call it with the example inputs first; optimize a part of it that torch.export can trace",
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch.export's advice to people who call it, and without attention's fused inference path."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def _untouched(module: nn.Module) -> Iterator[None]:
    """Puts back whatever attribute forward sets or fills, and refuses a forward that does so."""
    before = {name: (part, dict(vars(part)), _contents(part)) for name, part in module.named_modules()}
    changed: list[str] = []
    try:
        yield
    finally:
        for name, (part, attributes, contents) in before.items():
            changed += [f"{name}.{key}".lstrip(".") for key in _restore(part, attributes, contents)]
    if changed:
        raise TaskError(
            f"{type(module).__name__}.forward changes its attribute `{changed[0]}`",
            hint="only registered buffers may change in forward; a kernel cannot change Python state",
        )


_HELD = (list, dict, set)
_MISSING = object()


def _contents(part: nn.Module) -> dict[str, Any]:
    return {key: value.copy() for key, value in vars(part).items() if type(value) in _HELD}


def _restore(part: nn.Module, attributes: dict[str, Any], contents: dict[str, Any]) -> list[str]:
    """Puts everything back; the names of what was no longer as it had been."""
    now = vars(part)
    changed = [key for key in {*now, *attributes} if not _alike(now.get(key, _MISSING), attributes.get(key, _MISSING))]
    for key in set(now) - set(attributes):
        del now[key]
    now.update(attributes)
    for key, kept in contents.items():
        held = attributes[key]
        if not _alike(held, kept):
            changed.append(key)
            held.clear()
            held.extend(kept) if type(held) is list else held.update(kept)
    return changed


def _alike(one: Any, other: Any) -> bool:
    """The same object, an equal plain value, or containers of such: torch.export itself puts copies in their place."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(value, other[key]) for key, value in one.items())
    return isinstance(one, (set, frozenset, *PLAIN)) and bool(one == other)
