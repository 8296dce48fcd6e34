"""What the right answer is, and how well it is known: the reference's result, an fp64 oracle, and both their errors.

Nothing here sees a candidate, and the inputs and the model it is given stay as they were: every run works on copies.
Covers: outputs, buffers and inputs the reference changes, aliasing, ties of arg-reductions, conditioning, work done.
Does not cover: an fp64 truth for references that draw random numbers, or that fail in fp64; these are their own
oracle and say so in `notes`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from autotriton.errors import TaskError
from autotriton.judge.program import Inputs, Leaf, Program, clone, duplicate, flatten, map_tensors, state, structure

CHUNK = 1 << 26
"""Elements looked at in one go: 64 Mi fp64 values are 512 MiB."""
SLICE = 64
"""Fewest elements of a slice: fewer would make its rms error a matter of luck."""
TF32_UNIT = 2.0**-11
# Kernels sum in tiles: nobody adds more than this many terms one after the other into one accumulator.
LONGEST = 1 << 18

Model = Callable[..., Any]

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}
_FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "lift_fresh"}
_MOVES = _FREE | {
    *("clone", "copy_", "cat", "stack", "index", "index_select", "embedding", "gather", "constant_pad_nd", "repeat"),
    *("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill_"),
    *("masked_select", "nonzero", "take", "flip", "roll", "tril", "triu", "where", "masked_fill", "arange"),
}
_ARG_REDUCTIONS = {"argmax", "argmin", "max", "min", "topk", "sort", "median", "nanmedian", "kthvalue", "mode"}
_MATMULS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}


@dataclass(frozen=True)
class Spread:
    """How large a tensor or a difference is: overall, and per slice along the leading axes."""

    max: float = 0.0
    rms: float = 0.0
    worst: int = 0
    """Flat index of the largest element."""
    slices: Tensor | None = None
    """L2 norm of each slice; None where slices would be too small or only one."""


@dataclass(frozen=True)
class Tie:
    """The values an arg-reduction chose among, so that another index to an equal value is right too."""

    table: Tensor
    index: Tensor
    dim: int
    distinct: bool
    """The indices of one line must all differ (sort, topk)."""
    slack: float = 0.0
    """0 where the values are the inputs themselves; their rounding error where they were computed."""


@dataclass(frozen=True)
class Answer:
    """One leaf a candidate must reproduce, with everything needed to compare it."""

    name: str
    value: Leaf
    oracle: Tensor | None = None
    """fp64; None for integers, bools, strings and None."""
    unit: float = 0.0
    """Unit roundoff of the coarsest precision the reference itself computes in."""
    length: int = 1
    """Longest accumulation of the reference, at most `LONGEST`."""
    size: Spread = Spread()
    error: Spread = Spread()
    """The reference's own distance from the oracle."""
    change: Spread = Spread()
    """How far the oracle moves when inputs and parameters move by one unit roundoff."""
    tie: Tie | None = None
    aliases: tuple[int, ...] = ()
    """Input leaves this output shares memory with in the reference."""
    state_aliases: tuple[str, ...] = ()
    """Parameters and buffers this output shares memory with in the reference."""


@dataclass(frozen=True)
class Expected:
    """Everything one case expects of a candidate."""

    outputs: tuple[Answer, ...]
    structure: Any
    state: dict[str, Answer] = field(default_factory=dict)
    """Parameters and buffers after forward, only those that changed."""
    inputs: dict[int, Answer] = field(default_factory=dict)
    """Input leaves after forward, only those the reference itself changes in place."""
    ops: dict[str, int] = field(default_factory=dict)
    in_domain: bool = True
    """False for inputs the task's own `get_inputs` would not make: elements the reference finds NaN are not judged."""
    random: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpCost:
    flops: int = 0
    bytes: int = 0

    def __add__(self, other: OpCost) -> OpCost:
        return OpCost(self.flops + other.flops, self.bytes + other.bytes)


@dataclass(frozen=True)
class Cost:
    """What the reference does: `bytes` must move at least once, `total` is what its ops move one by one."""

    flops: int
    bytes: int
    total: OpCost
    ops: dict[str, OpCost]


def expect(program: Program, model: Model, inputs: Inputs, rng_seed: int, *, in_domain: bool = True) -> Expected:
    """The reference's answer for these inputs, with its oracle. `model` and `inputs` are left untouched."""
    trace = Trace()
    taken, given = duplicate(model), inputs.clone()
    with trace:
        result = program.run(taken, given, rng_seed)
    facts = _Facts(trace, TF32_UNIT if program.task.tf32 and trace.matmul else 0.0)
    answers = [*_outputs(result, given, taken, facts), *_changed(model, taken, inputs, given, facts)]
    notes: list[str] = []
    if trace.random:
        notes.append("the reference draws random numbers, so it is its own oracle")
        answers = [_own_oracle(answer) for answer in answers]
    else:
        answers = _with_oracle(program, model, inputs, rng_seed, answers, facts, notes)
    return Expected(
        outputs=tuple(answer for answer in answers if answer.name.startswith("output")),
        structure=structure(result),
        state={a.name.removeprefix("state "): a for a in answers if a.name.startswith("state ")},
        inputs={int(a.name.split()[1]): a for a in answers if a.name.startswith("input ")},
        ops=dict(trace.ops),
        in_domain=in_domain,
        random=trace.random,
        notes=tuple(notes),
    )


def trace_ops(program: Program, model: Model, inputs: Inputs) -> dict[str, int]:
    """The aten ops the reference calls, with counts; views and allocations included."""
    trace, copy, given = Trace(), duplicate(model), inputs.clone()
    with trace:
        program.run(copy, given)
    return dict(trace.ops)


def cost(program: Program, model: Model, inputs: Inputs) -> Cost:
    """FLOPs and bytes of one forward pass, for the roofline and for shares of work."""
    meter, copy, given = Meter(), duplicate(model), inputs.clone()
    with meter:
        result = program.run(copy, given)
    held = {tensor.data_ptr(): tensor for tensor in state(copy).values()}
    tensors = [*_tensors(inputs.leaves()), *_tensors(flatten(result)[0]), *held.values()]
    total = sum(meter.ops.values(), OpCost())
    return Cost(total.flops, sum(map(_bytes, tensors)), total, dict(meter.ops))


def op_cost(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> OpCost:
    """FLOPs and bytes one aten op moves; views and allocations are free."""
    if _is_view(func) or _name(func) in _FREE:
        return OpCost()
    read = _tensors(pytree.tree_leaves((args, kwargs)))
    written = _tensors(pytree.tree_leaves(out))
    moved = sum(map(_bytes, [*read, *written]))
    return OpCost(_flops(func, args, kwargs, out, read, written), moved)


def unit_of(dtype: torch.dtype) -> float:
    """Unit roundoff: half the distance from 1 to the next number."""
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point or dtype.is_complex else 0.0


def real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def slice_length(shape: torch.Size) -> int:
    """Elements of one slice: the trailing axes that make at least `SLICE`; 0 where there is only one slice."""
    length = 1
    for axis in range(len(shape) - 1, 0, -1):
        length *= shape[axis]
        if length >= SLICE:
            return length if math.prod(shape[:axis]) > 1 and length <= CHUNK else 0
    return 0


def spans(numel: int, length: int) -> Iterator[tuple[int, int]]:
    """Start and end of chunks that hold whole slices."""
    step = max(CHUNK // max(length, 1), 1) * max(length, 1)
    for start in range(0, numel, step):
        yield start, min(start + step, numel)


def measure(value: Tensor, target: Tensor | None = None, finite: tuple[Tensor, ...] = ()) -> Spread:
    """Size of `value - target` over the elements that are finite there and in every tensor of `finite`."""
    flat = real(value).reshape(-1)
    goal = None if target is None else real(target).reshape(-1)
    masks = [real(mask).reshape(-1) for mask in finite]
    length = slice_length(real(value).shape)
    largest, worst, squares, slices = 0.0, 0, 0.0, []
    for start, stop in spans(flat.numel(), length):
        piece = flat[start:stop].to(torch.float64)
        if goal is not None:
            piece = piece - goal[start:stop].to(piece.device, torch.float64)
        usable = torch.isfinite(piece)
        for mask in masks:
            usable &= torch.isfinite(mask[start:stop].to(piece.device))
        piece = torch.where(usable, piece, 0.0).abs_()
        here = float(piece.max())
        if here > largest:
            largest, worst = here, start + int(piece.argmax())
        squares += float(piece.square().sum())
        if length:
            slices.append(torch.linalg.vector_norm(piece.view(-1, length), dim=1))
    rms = math.sqrt(squares / max(flat.numel(), 1))
    return Spread(largest, rms, worst, torch.cat(slices) if slices else None)


class Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches one forward pass: ops, longest accumulation, coarsest precision, randomness, arg-reductions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: Counter[str] = Counter()
        self.length = 1
        self.unit = 0.0
        self.random = False
        self.matmul = False
        self.truncates = False
        """Some float became an integer, so whole numbers may be indices."""
        self.ties: dict[int, Tie] = {}
        self._versions: dict[int, int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first op imports all of torch._dynamo, two seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = _name(func)
        self.ops[str(func)] += 1
        if _is_view(func):
            return out
        self.random |= torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()) and not _inert_dropout(
            func, args, kwargs
        )
        self.matmul |= name in _MATMULS or "conv" in name or "scaled_dot_product" in name or "rnn" in name
        self.length = max(self.length, min(accumulation(name, args, kwargs, out), LONGEST))
        self._note_precision(name, args, out)
        self._note_tie(name, args, kwargs, out)
        return out

    def tie_of(self, leaf: Tensor) -> Tie | None:
        """The arg-reduction an integer output came from, unless its values were overwritten since."""
        tie = self.ties.get(leaf.untyped_storage().data_ptr())
        if tie is None or tie.index.numel() != leaf.numel() or not leaf.is_contiguous():
            return None
        return tie if tie.table._version == self._versions[id(tie.table)] else None

    def _note_precision(self, name: str, args: Any, out: Any) -> None:
        coarsest = max((unit_of(tensor.dtype) for tensor in _tensors(pytree.tree_leaves(out))), default=0.0)
        if name == "_to_copy":
            self.truncates |= args[0].is_floating_point() and coarsest == 0.0
            coarsest = coarsest if coarsest > unit_of(args[0].dtype) else 0.0
        if name not in _MOVES:
            self.unit = max(self.unit, coarsest)

    def _note_tie(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        if name in {"_to_copy", "clone"}:
            known = self.ties.get(args[0].untyped_storage().data_ptr())
            if known is not None and args[0].numel() == known.index.numel() and args[0].is_contiguous():
                self.ties[out.untyped_storage().data_ptr()] = known
            return
        if name not in _ARG_REDUCTIONS or kwargs.get("stable"):
            return
        index = out if name in {"argmax", "argmin"} else out[1] if isinstance(out, tuple | list) else None
        if not isinstance(index, Tensor):
            return
        tie = _tie(name, args, kwargs, index)
        self._versions[id(tie.table)] = tie.table._version
        self.ties[index.untyped_storage().data_ptr()] = tie


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up `op_cost` by op."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: dict[str, OpCost] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first op imports all of torch._dynamo, two seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        spent = op_cost(func, args, kwargs, out)
        if spent != OpCost():
            self.ops[str(func)] = self.ops.get(str(func), OpCost()) + spent
        return out


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
            return _WIDER.get(leaf, leaf)
        return _wide(leaf) if self.tensors and not writes and isinstance(leaf, Tensor) else leaf


def accumulation(name: str, args: Any, kwargs: Any, out: Any) -> int:
    """How many terms one output element of this op adds up."""
    if name in _MATMULS:
        return int(args[_MATMULS[name]].shape[-1])
    if name in {"convolution", "_convolution", "cudnn_convolution"}:
        transposed = len(args) > 6 and bool(args[6])
        groups = args[8] if len(args) > 8 else 1
        return int(args[1].numel() // max(args[1].shape[1] * groups if transposed else args[1].shape[0], 1))
    if "scaled_dot_product" in name:
        return max(int(args[0].shape[-1]), int(args[1].shape[-2]))
    if name in {"_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp", "_safe_softmax"}:
        dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
        return int(args[0].shape[dim]) if args[0].dim() else 1
    if name in {"native_layer_norm", "_fused_rms_norm"}:
        return math.prod(args[1])
    if name == "native_group_norm":
        return int(args[0].numel() // max(args[3] * args[6], 1))
    if "batch_norm" in name:
        return int(args[0].numel() // max(args[0].shape[1], 1))
    if name.startswith("nll_loss"):
        return int(args[1].numel())
    if "rnn" in name or "lstm" in name or "gru" in name:
        return int(args[0].shape[-1]) * 2
    return _reduced(name, args, kwargs, out)


@dataclass(frozen=True)
class _Facts:
    """What the trace says about every answer."""

    trace: Trace
    floor: float
    """Unit roundoff that is permitted in any case (TF32)."""

    @property
    def unit(self) -> float:
        return max(self.trace.unit, self.floor)


@dataclass(frozen=True)
class _Result:
    """The leaves, state and inputs after one fp64 run, by answer name."""

    leaves: dict[str, Leaf]
    exact: bool
    """Everything floating came out in fp64."""


def _outputs(result: Any, given: Inputs, taken: Model, facts: _Facts) -> list[Answer]:
    answers = []
    held = state(taken)
    for index, leaf in enumerate(flatten(result)[0]):
        answer = _answer(f"output {index}", leaf, facts)
        if isinstance(leaf, Tensor):
            aliases = tuple(i for i, other in enumerate(given.leaves()) if _shares(leaf, other))
            named = tuple(name for name, other in held.items() if _shares(leaf, other))
            answer = replace(answer, aliases=aliases, state_aliases=named, tie=_settled(leaf, given, facts))
        answers.append(answer)
    return answers


def _changed(model: Model, taken: Model, inputs: Inputs, given: Inputs, facts: _Facts) -> list[Answer]:
    """Buffers, parameters and inputs the reference left different."""
    before = state(model)
    answers = [
        _answer(f"state {name}", after, facts) for name, after in state(taken).items() if not _same(before[name], after)
    ]
    for index, (old, new) in enumerate(zip(inputs.leaves(), given.leaves(), strict=True)):
        if isinstance(old, Tensor) and isinstance(new, Tensor) and not _same(old, new):
            answers.append(_answer(f"input {index}", new, facts))
    return answers


def _answer(name: str, leaf: Leaf, facts: _Facts) -> Answer:
    if isinstance(leaf, Tensor) and leaf.layout is not torch.strided:
        raise TaskError(f"{name} has layout {leaf.layout}", hint="return dense tensors; others cannot be compared")
    unit = 0.0
    if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
        unit = max(unit_of(leaf.dtype), facts.unit)
    elif isinstance(leaf, float):
        unit = facts.unit or unit_of(torch.float64)
    return Answer(name, leaf.detach() if isinstance(leaf, Tensor) else leaf, unit=unit, length=facts.trace.length)


def _own_oracle(answer: Answer) -> Answer:
    truth = as_tensor(answer.value)
    if truth is None or answer.unit == 0.0:
        return answer
    oracle = truth.to(torch.complex128 if truth.is_complex() else torch.float64)
    return replace(answer, oracle=oracle, size=measure(oracle))


def as_tensor(leaf: Leaf) -> Tensor | None:
    """A tensor or a float as a tensor; None for anything that is compared exactly as a Python value."""
    if isinstance(leaf, float):
        return torch.tensor(leaf, dtype=torch.float64)
    return leaf.detach() if isinstance(leaf, Tensor) else None


def _with_oracle(
    program: Program,
    model: Model,
    inputs: Inputs,
    seed: int,
    answers: list[Answer],
    facts: _Facts,
    notes: list[str],
) -> list[Answer]:
    floating = [answer for answer in answers if answer.unit > 0.0]
    if not floating:
        return answers
    way, truth = _first_that_works(program, model, inputs, seed, floating)
    if truth is None:
        notes.append("the reference does not run in fp64, so it is its own oracle")
        return [_own_oracle(answer) for answer in answers]
    if not truth.exact:
        notes.append("the reference keeps part of its work below fp64 even when run in fp64; the oracle is less exact")
    judged = {answer.name: _against(answer, truth.leaves[answer.name]) for answer in floating}
    # With few output elements the change along one random direction may be small by luck.
    tries = 1 if sum(answer.value.numel() for answer in floating if isinstance(answer.value, Tensor)) >= SLICE else 3
    for attempt in range(tries):
        noise = _Noise(max(facts.unit, 2.0**-52), program.device, seed + 1 + attempt, facts.trace.truncates)
        moved = _run_wide(program, model, inputs, seed, way, noise, [answer.name for answer in floating])
        if moved is not None:
            judged = {name: _with_change(answer, moved.leaves[name]) for name, answer in judged.items()}
    return [judged.get(answer.name, answer) for answer in answers]


def _first_that_works(
    program: Program, model: Model, inputs: Inputs, seed: int, floating: list[Answer]
) -> tuple[int, _Result | None]:
    """The first way to run in fp64 that loses nothing, else the first that runs at all."""
    fallback: tuple[int, _Result | None] = (0, None)
    for way in range(len(_WAYS)):
        result = _run_wide(program, model, inputs, seed, way, None, [answer.name for answer in floating])
        if result is None or any(not _alike(answer.value, result.leaves[answer.name]) for answer in floating):
            continue
        if result.exact:
            return way, result
        if fallback[1] is None:
            fallback = (way, result)
    return fallback


_WAYS: tuple[Callable[[], AbstractContextManager[Any]], ...] = (
    lambda: Promote(tensors=False),
    lambda: Promote(tensors=True),
    nullcontext,
)


class _Noise:
    """x -> x * (1 + unit * xi), xi in {-1, 1}."""

    def __init__(self, unit: float, device: torch.device, seed: int, keep_whole: bool) -> None:
        self.unit = unit
        self.keep_whole = keep_whole
        self.generator = torch.Generator(device=device).manual_seed(seed % 2**63)

    def __call__(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point() or (self.keep_whole and bool((tensor == tensor.round()).all())):
            return tensor
        xi = torch.randint(0, 2, tensor.shape, generator=self.generator, device=tensor.device, dtype=torch.int8)
        return xi.to(torch.float64).mul_(2 * self.unit).add_(1.0 - self.unit).mul_(tensor)


def _run_wide(
    program: Program, model: Model, inputs: Inputs, seed: int, way: int, noise: _Noise | None, names: list[str]
) -> _Result | None:
    """One forward pass in fp64, or None where the reference refuses."""
    wide, given = (
        _wide_model(model),
        inputs.map(lambda tensor: _wide(tensor) if tensor.dtype in _WIDER else clone(tensor)),
    )
    if noise is not None:
        given = given.map(noise)
        for tensor in {tensor.data_ptr(): tensor for tensor in state(wide).values()}.values():
            tensor.copy_(noise(tensor))
    try:
        with _default_dtype(torch.float64), _WAYS[way]():
            result = program.run(wide, given, seed)
        leaves = flatten(result)[0]
    except TaskError:
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
    return _Result(kept, exact=all(leaf.dtype in _WIDER.values() for leaf in _tensors(list(kept.values()))))


def _against(answer: Answer, truth: Leaf) -> Answer:
    value, oracle = as_tensor(answer.value), as_tensor(truth)
    assert value is not None
    assert oracle is not None
    oracle = oracle.to(torch.complex128 if oracle.is_complex() else torch.float64)
    return replace(answer, oracle=oracle, size=measure(oracle, finite=(value,)), error=measure(value, oracle))


def _with_change(answer: Answer, moved: Leaf) -> Answer:
    other = as_tensor(moved)
    if other is None or answer.oracle is None or other.shape != answer.oracle.shape:
        return answer
    new, old = measure(other, answer.oracle), answer.change
    slices = new.slices if old.slices is None or new.slices is None else torch.maximum(new.slices, old.slices)
    return replace(answer, change=Spread(max(new.max, old.max), max(new.rms, old.rms), new.worst, slices))


def _wide_model(model: Model) -> Model:
    copy = duplicate(model)
    if isinstance(copy, nn.Module):
        copy.double()
        for layer in copy.modules():
            for name, value in list(vars(layer).items()):
                if name not in {"_parameters", "_buffers", "_modules"} and _holds_narrow(value):
                    vars(layer)[name] = map_tensors(_wide, value)
    return copy


def _holds_narrow(value: Any) -> bool:
    """A plain attribute (a tensor, or a container of tensors) that `Module.double` leaves behind."""
    return isinstance(value, Tensor | list | tuple | dict) and any(
        leaf.dtype in _WIDER for leaf in _tensors(pytree.tree_leaves(value))
    )


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(_WIDER.get(tensor.dtype, tensor.dtype))


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _settled(leaf: Tensor, given: Inputs, facts: _Facts) -> Tie | None:
    """The tie behind an integer output, with the slack its computed values need."""
    tie = facts.trace.tie_of(leaf) if leaf.dtype in {torch.int64, torch.int32} else None
    if tie is None or not tie.table.is_floating_point() or any(_shares(tie.table, other) for other in given.leaves()):
        return tie
    scale = measure(tie.table).max
    unit = max(unit_of(tie.table.dtype), facts.unit)
    return replace(tie, slack=4 * rounding(unit, facts.trace.length) * scale)


def rounding(unit: float, length: int) -> float:
    """Relative error of an honest kernel: accumulators are fp32 at least, so only those grow with the length."""
    return max(unit, min(unit, 2.0**-24) * max(4.0, math.sqrt(length)))


def _tie(name: str, args: Any, kwargs: Any, index: Tensor) -> Tie:
    place = 2 if name in {"topk", "kthvalue"} else 1
    dim = kwargs.get("dim", args[place] if len(args) > place else None if name in {"argmax", "argmin"} else -1)
    if dim is None:
        return Tie(args[0].reshape(-1), index, 0, distinct=False)
    return Tie(args[0], index, int(dim), distinct=name in {"topk", "sort"})


def _inert_dropout(func: Any, args: Any, kwargs: Any) -> bool:
    """Attention asks for random numbers by its tag, but draws none without dropout."""
    names = [argument.name for argument in func._schema.arguments]
    key = next((key for key in ("dropout_p", "dropout") if key in names), None)
    if key is None:
        return False
    place = names.index(key)
    return float(kwargs.get(key, args[place] if len(args) > place else 0.0) or 0.0) == 0.0


def _reduced(name: str, args: Any, kwargs: Any, out: Any) -> int:
    """Inputs per output, for every op that makes few numbers out of many."""
    if name in _MOVES or name in _ARG_REDUCTIONS:
        return 1
    read = [tensor.numel() for tensor in _tensors(pytree.tree_leaves((args, kwargs))) if tensor.is_floating_point()]
    written = sum(tensor.numel() for tensor in _tensors(pytree.tree_leaves(out)))
    return max(read, default=1) // max(written, 1) or 1


def _flops(func: Any, args: Any, kwargs: Any, out: Any, read: list[Tensor], written: list[Tensor]) -> int:
    name = _name(func)
    formula = flop_registry.get(getattr(func, "overloadpacket", None))
    if formula is not None:
        try:
            return int(formula(*args, **kwargs, out_val=out))
        except (AssertionError, AttributeError, IndexError, TypeError, ValueError):  # a call the formula does not know
            pass
    if "scaled_dot_product" in name:
        return 4 * read[0].numel() * int(read[1].shape[-2])
    return 0 if name in _MOVES else max((tensor.numel() for tensor in [*read, *written]), default=0)


def _name(func: Any) -> str:
    schema = getattr(func, "_schema", None)  # higher-order operators have none
    return str(schema.name if schema is not None else func).removeprefix("aten::")


def _is_view(func: Any) -> bool:
    """The op returns memory it was given, and does not write it."""
    returns = getattr(getattr(func, "_schema", None), "returns", ())
    return any(value.alias_info is not None and not value.alias_info.is_write for value in returns)


def _tensors(leaves: list[Any]) -> list[Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _shares(tensor: Tensor, other: Leaf) -> bool:
    if not isinstance(other, Tensor) or tensor.numel() == 0:
        return False
    return tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _same(before: Tensor, after: Tensor) -> bool:
    """Bit for bit, NaN included."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    if torch.equal(before, after):
        return True
    return before.is_floating_point() and bool(((before == after) | (before.isnan() & after.isnan())).all())


def _alike(value: Leaf, truth: Leaf) -> bool:
    one, two = as_tensor(value), as_tensor(truth)
    return one is not None and two is not None and one.shape == two.shape and one.is_complex() == two.is_complex()
