"""The reference run in fp64: widened inputs, parameters, casts and constants, with or without noise.

Noise goes on the inputs and parameters (how well the task is conditioned) or on the result of every operator (what
rounding each step costs, which one draw of the reference itself may hide by luck).

Must stay true: the model and the inputs it is given stay as they were; every run works on copies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from autotriton.errors import TaskError
from autotriton.judge.layouts import overlaps
from autotriton.judge.measure import spans
from autotriton.judge.modes import EagerMode
from autotriton.judge.program import Inputs, Leaf, Model, Program, clone, duplicate, flatten, map_tensors, state
from autotriton.judge.shortage import out_of_memory
from autotriton.judge.trace import EXACT, MOVES, is_view, op_name, tensors_of
from autotriton.judge.unfolding import add_partial_sums, without_fused_attention

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
_MIXERS = (-7046029254386353131, -4658895280553007687)
"""Odd numbers whose bits are well mixed: a product with one spreads a number's bits over the upper half."""
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}


@dataclass(frozen=True)
class WideResult:
    """The leaves, state and inputs after one fp64 run, by answer name."""

    leaves: dict[str, Leaf]
    exact: bool
    """Everything floating came out in fp64."""


def run_wide(
    program: Program,
    model: Model,
    inputs: Inputs,
    seed: int,
    way: int,
    names: list[str],
    *,
    noise: Noise | None = None,
    steps: Steps | None = None,
) -> WideResult | None:
    """One forward pass in fp64, or None where the reference refuses."""
    wide, given = (
        wide_model(model),
        inputs.map(lambda tensor: widen(tensor) if tensor.dtype in WIDER else clone(tensor)),
    )
    if noise is not None:
        given = given.map(noise)
        for tensor in {tensor.data_ptr(): tensor for tensor in state(wide).values()}.values():
            tensor.copy_(noise(tensor))
    try:
        with _default_dtype(torch.float64), _without_cudnn(), WAYS[way](), steps.unfused() if steps else nullcontext():
            result = program.run(wide, given, seed)
        leaves = flatten(result)[0]
    except TaskError as error:
        if error.__cause__ is not None and out_of_memory(error.__cause__):
            raise  # not its refusal: with more memory it runs
        return None
    finally:
        if program.device.type == "cuda":
            torch.cuda.empty_cache()
    found: dict[str, Leaf] = {f"output {index}": leaf for index, leaf in enumerate(leaves)}
    found |= {f"state {name}": tensor for name, tensor in state(wide).items()}
    found |= {f"input {index}": leaf for index, leaf in enumerate(given.leaves())}
    if not all(name in found for name in names):
        return None
    kept = {name: found[name] for name in names}
    return WideResult(kept, exact=all(leaf.dtype in WIDER.values() for leaf in tensors_of(list(kept.values()))))


class Promote(TorchFunctionMode):
    """Makes the reference's own casts and dtype arguments mean fp64; with `tensors`, its stray tensors too."""

    def __init__(self, tensors: bool) -> None:
        super().__init__()
        self.tensors = tensors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CASTS:
            return args[0].double()
        name = getattr(func, "__name__", "")
        writes = name.startswith("__i") or name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
        args, kwargs = pytree.tree_map(lambda leaf: self._widen(leaf, writes), (tuple(args), kwargs or {}))
        return func(*args, **kwargs)

    def _widen(self, leaf: Any, writes: bool) -> Any:
        if isinstance(leaf, torch.dtype):
            return WIDER.get(leaf, leaf)
        return widen(leaf) if self.tensors and not writes and isinstance(leaf, Tensor) else leaf


class Noise:
    """x -> x * (1 + unit * xi), xi uniform with variance 1.

    Not a coin: between two equal spikes a coin's noise cancels half of the time, and a softmax that hangs on their
    difference looks as if nothing could move it.
    """

    def __init__(self, unit: float, seed: int, keep_whole: bool) -> None:
        self.unit = unit
        self.keep_whole = keep_whole
        self._seed = seed % 2**63
        self._generators: dict[torch.device, torch.Generator] = {}

    def __call__(self, tensor: Tensor, unit: float | None = None) -> Tensor:
        """The tensor with noise on it: in place, unless it shares memory with itself."""
        unit = self.unit if unit is None else unit
        if not tensor.is_floating_point() or (self.keep_whole and bool((tensor == tensor.round()).all())):
            return tensor
        # Whole numbers from -127 to 127 have the variance 127 * 128 / 3, and take an eighth of fp64's room.
        scale = unit / math.sqrt(127 * 128 / 3)
        if not tensor.is_contiguous():
            drawn = self._drawn(tensor).to(tensor.dtype)
            if overlaps(tensor.shape, tensor.stride()):
                return torch.addcmul(tensor, tensor, drawn, value=scale)
            return tensor.addcmul_(tensor, drawn, value=scale)
        flat = tensor.view(-1)
        for start, stop in spans(flat.numel(), 1):  # a large tensor gets its noise in pieces
            piece = flat[start:stop]
            piece.addcmul_(piece, self._drawn(piece).to(piece.dtype), value=scale)
        return tensor

    def _drawn(self, tensor: Tensor) -> Tensor:
        shape = tensor.shape
        drawing = self._generator(tensor.device)
        return torch.randint(-127, 128, shape, generator=drawing, device=tensor.device, dtype=torch.int8)

    def _generator(self, device: torch.device) -> torch.Generator:
        """One per device: a task on the GPU may keep a table on the host."""
        if device not in self._generators:
            self._generators[device] = torch.Generator(device=device).manual_seed(self._seed)
        return self._generators[device]


class Rounding(Noise):
    """The same for every number that is equal: what a step loses is decided by what it rounds.

    Where inputs are alike (one-hot rows, constants), errors add up instead of averaging out, and a sum of differences
    feels that.
    """

    def _drawn(self, tensor: Tensor) -> Tensor:
        salt = int(torch.randint(2**62, (), generator=self._generator(tensor.device), device=tensor.device))
        mixed = tensor.contiguous().view(torch.int64).reshape(-1) ^ salt
        for factor in _MIXERS:
            mixed *= factor
            mixed ^= mixed >> 32
        return mixed.view(torch.int8).view(-1, 8)[:, 5].clamp(min=-127).view(tensor.shape)


class Steps(EagerMode):  # type: ignore[no-untyped-call]
    """Rounds the result of every operator as the reference does in its own precision: x * (1 + u/2 * xi).

    Half a unit roundoff is what rounding to nearest costs on average. `units` has the precision of each operator's
    calls in the reference's own run; of calls that only the fp64 run makes, fp32 is assumed, unless all is finer.

    Steps inside one operator count as well (`unfolding.py`): attention is taken apart, since an exponent feels the
    rounding of its logits, and so are sums. Other fused operators (softmax, norms) feel their inner steps as they feel
    their inputs.
    """

    def __init__(self, units: dict[str, list[float]], noise: Rounding) -> None:
        super().__init__()
        self._units, self._noise = units, noise
        self._calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = op_name(func)
        if is_view(func) or name in MOVES or name in EXACT:
            return out
        known, number = self._units.get(name, []), self._calls[name]
        self._calls[name] += 1
        unit = known[number] if number < len(known) else min(self._noise.unit, 2.0**-24)
        if unit >= 2.0**-24:
            add_partial_sums(name, args, kwargs or {}, out, self._noise)
        if unit > 0.0:
            for tensor in {id(leaf): leaf for leaf in tensors_of(pytree.tree_leaves(out))}.values():
                if tensor.dtype is torch.float64 and not overlaps(tensor.shape, tensor.stride()):
                    self._noise(tensor, unit / 2)
        return out

    @contextmanager
    def unfused(self) -> Iterator[None]:
        """Watches a run in which attention is made of single operators."""
        with without_fused_attention(), self:
            yield


WAYS: tuple[Callable[[], AbstractContextManager[Any]], ...] = (
    lambda: Promote(tensors=False),
    lambda: Promote(tensors=True),
    nullcontext,
)


def wide_model(model: Model) -> Model:
    copy = duplicate(model)
    if isinstance(copy, nn.Module):
        copy.double()
        for layer in copy.modules():
            for name, value in list(vars(layer).items()):
                if name not in {"_parameters", "_buffers", "_modules"} and _holds_narrow(value):
                    vars(layer)[name] = map_tensors(widen, value)
    return copy


def _holds_narrow(value: Any) -> bool:
    """A plain attribute (a tensor, or a container of tensors) that `Module.double` leaves behind."""
    return isinstance(value, Tensor | list | tuple | dict) and any(
        leaf.dtype in WIDER for leaf in tensors_of(pytree.tree_leaves(value))
    )


def widen(tensor: Tensor) -> Tensor:
    return tensor.to(WIDER.get(tensor.dtype, tensor.dtype))


@contextmanager
def _without_cudnn() -> Iterator[None]:
    """Its fp64 convolutions take up to ten times as long as a matrix product over unfolded windows."""
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
