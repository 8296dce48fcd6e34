"""One tensor in, one of the same shape out: single functions, chains of them, and those with optional bounds."""

from __future__ import annotations

from random import Random

from autotriton.data.wrappers.base import (
    Parameter,
    Plan,
    allocation,
    drawn,
    dtype_of,
    indented,
    maybe_out,
    shape_of,
    tensor,
)
from autotriton.data.wrappers.steps import STEPS, Chain, chain

_KERNEL = '''@triton.jit
def {name}_kernel({pointers}, out_ptr, n_elements{scalars}, BLOCK: tl.constexpr{flags}):
    pid = tl.program_id(0)
    offsets = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
{lines}
    tl.store(out_ptr + offsets, y, mask=mask)
'''  # fmt: skip

_PROMOTING = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "tanh",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "asinh",
        "atanh",
        "sinh",
        "cosh",
        "erf",
        "erfc",
        "erfinv",
        "lgamma",
        "deg2rad",
        "rad2deg",
        "logit",
    ]
)
"""Functions that make float32 of whole numbers, as torch does."""
_ABOUT = {False: "the input tensor", True: "the input tensor; whole numbers and booleans are promoted to float32"}
_DTYPE = "dtype = x.dtype if x.is_floating_point() else torch.float32"
_MADE = {False: "torch.empty_like(x)", True: "torch.empty(x.shape, dtype=dtype, device=x.device)"}
_PROMOTED = "The result has the input's type, or float32 where the input has whole numbers."


def flat_kernel(name: str, pointers: list[str], scalars: list[str], lines: list[str], flags: str = "") -> str:
    """A kernel over elements in memory order; `lines` leave the result in `y`."""
    given = "".join(f", {scalar}" for scalar in scalars)
    return _KERNEL.format(name=name, pointers=", ".join(pointers), scalars=given, lines=indented(lines), flags=flags)


def launch(name: str, given: list[str], block: int, more: str = "") -> list[str]:
    return [
        "n_elements = out.numel()",
        f"grid = (triton.cdiv(n_elements, {block}),)",
        f"{name}_kernel[grid]({', '.join(given)}, BLOCK={block}{more})",
        "return out",
    ]


def block_of(draw: Random) -> int:
    return draw.choice((256, 512, 1024, 1024, 2048))


def flat_said(block: int) -> str:
    return (
        f"The tensor is treated as one flat array: each program takes {block} consecutive elements, and the mask "
        "cuts off what lies behind the last one"
    )


def unary(draw: Random) -> Plan:
    """A single function under its own name."""
    step = draw.choice([step for step in STEPS if step.listed])
    return _planned(draw, step.name, Chain((step,)))


def chained(draw: Random) -> Plan:
    """Two to four steps in one kernel."""
    steps = chain(draw, draw.choice((2, 2, 3, 3, 4)))
    name = "_".join(steps.names)
    return _planned(draw, draw.choice((f"fused_{name}", name, f"{name}_fused")), steps)


def _planned(draw: Random, name: str, steps: Chain) -> Plan:
    shape, dtype, block = shape_of(draw), dtype_of(draw), block_of(draw)
    promotes = len(steps.steps) == 1 and name in _PROMOTING
    keyword = draw.random() < 0.3
    required = draw.random() < 0.15
    parameters = (
        tensor("input", _ABOUT[promotes], _input(draw, shape, dtype, steps.domain, promotes)),
        *(scalar.parameter(keyword=keyword, required=required) for scalar in steps.scalars),
        *(() if promotes else _inplace(draw, len(steps.steps))),
    )
    scalars = [scalar.name for scalar in steps.scalars]
    lines = ["x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)", *steps.lines("x", "y")]
    if parameters[-1].name == "inplace":
        body = ["x = input.contiguous()", "out = input if inplace and input.is_contiguous() else torch.empty_like(x)"]
    else:
        parameters += maybe_out(draw)
        body = ["x = input.contiguous()", *([_DTYPE] * promotes), *allocation(parameters, _MADE[promotes])]
    body += launch(name, ["x", "out", "n_elements", *scalars], block)
    reference = [f"return {steps.torch('input')}"]
    if draw.random() < 0.5 and len(steps.steps) > 1:
        reference = [*steps.torch_lines("input", "y"), "return y"]
    what = steps.words if len(steps.steps) == 1 else f"does the following in order: {steps.words}"
    formula = "; ".join([f"out = {steps.math('x')}", *steps.definitions])
    fused = "All steps happen in registers, so memory is read once and written once. " if len(steps.steps) > 1 else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"For every element of `input` it {what}.",
        formula=formula,
        shapes=("input: any shape", "output: the shape of `input`"),
        reference=tuple(reference),
        kernels=flat_kernel(name, ["x_ptr"], scalars, lines),
        body=tuple(body),
        said=(f"{fused}{flat_said(block)}.", *([_PROMOTED] * promotes)),
    )


def _input(draw: Random, shape: list[int], dtype: str, domain: str, promotes: bool) -> str:
    """Whole numbers in a share of the cases where they are promoted."""
    if not promotes or domain == "unit" or draw.random() < 0.7:
        return drawn(shape, dtype, domain)
    low = {"any": -3, "nonneg": 0, "positive": 1}[domain]
    sizes = f"({', '.join(map(str, shape))},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
    typed = draw.choice(("", "", ", dtype=torch.int32", ", dtype=torch.int8"))
    return f"torch.randint({low}, {draw.choice((5, 8))}, {sizes}{typed})"


def _inplace(draw: Random, steps: int) -> tuple[Parameter, ...]:
    if draw.random() > 0.06 or steps > 1:
        return ()
    return (Parameter("inplace", "bool", "write the result over a contiguous `input`", default="False"),)


def clamp(draw: Random) -> Plan:
    """Bounds that may be absent are constants of the kernel's compilation; their values are not."""
    shape, dtype, block = shape_of(draw), dtype_of(draw), block_of(draw)
    has_min, has_max = draw.choice(((True, True), (True, False), (False, True)))
    name, behind = "clamp", Chain(())
    if draw.random() < 0.6:
        behind = chain(draw, draw.choice((1, 2)), first=False, taken=frozenset(("min", "max")))
        name = draw.choice(("fused_clamp_", "clamp_")) + "_".join(behind.names)
    low, high = ("random.uniform(-1.0, -0.2)", "random.uniform(0.2, 1.0)")
    parameters = (
        tensor("input", "the input tensor", drawn(shape, dtype)),
        Parameter("min", "float, optional", "lower bound; None for no bound", default="None", given=low if has_min else ""),
        Parameter("max", "float, optional", "upper bound; None for no bound", default="None", given=high if has_max else ""),
        *(scalar.parameter(keyword=True) for scalar in behind.scalars),
    )  # fmt: skip
    parameters += maybe_out(draw)
    scalars = ["low", "high", *(scalar.name for scalar in behind.scalars)]
    lines = [
        "y = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)",
        "if HAS_MIN:",
        "    y = tl.maximum(y, low)",
        "if HAS_MAX:",
        "    y = tl.minimum(y, high)",
        *behind.lines("y", "y"),
    ]
    body = ["x = input.contiguous()", *allocation(parameters, "torch.empty_like(x)")]
    body += ["low = 0.0 if min is None else min", "high = 0.0 if max is None else max"]
    flags = ", HAS_MIN: tl.constexpr, HAS_MAX: tl.constexpr"
    more = ", HAS_MIN=min is not None, HAS_MAX=max is not None"
    body += launch(name, ["x", "out", "n_elements", *scalars], block, more)
    after = f" Then it {behind.words}." if behind.steps else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Limits every element to [min, max]; either bound may be None, which leaves that side open.{after}",
        formula="; ".join([f"out = {behind.math('min(max(x, min), max)')}", *behind.definitions]),
        shapes=("input: any shape", "output: the shape of `input`"),
        reference=(f"return {behind.torch('torch.clamp(input, min=min, max=max)')}",),
        kernels=flat_kernel(name, ["x_ptr"], scalars, lines, flags),
        body=tuple(body),
        said=(
            f"{flat_said(block)}.",
            "Whether a bound exists is a `tl.constexpr`, so that an absent one costs nothing; its value is an ordinary "
            "argument, and 0.0 stands in for None.",
        ),
    )
