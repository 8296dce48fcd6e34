"""Norms over the last dimensions with optional weight and bias, alone or behind the addition of a residual."""

from __future__ import annotations

from random import Random

from autotriton.data.wrappers.base import Parameter, Plan, Scalar, drawn, dtype_of, indented, shape_of, tensor
from autotriton.data.wrappers.steps import Chain, chain

_EPS = Scalar("eps", "1e-5", 0.001, 0.1, "added to the variance")
_LOAD = (
    "cols = start + tl.arange(0, BLOCK)",
    "mask = cols < n_cols",
    "x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)",
)
_RESIDUAL = "x += tl.load(r_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)"


def norm(draw: Random) -> Plan:
    """Layer norm or RMS norm."""
    centred, residual = draw.random() < 0.55, draw.random() < 0.45
    taken = frozenset(("eps", "weight", "bias", "residual"))
    behind = chain(draw, 1, first=False, taken=taken) if draw.random() < 0.3 else Chain(())
    kind = "layer_norm" if centred else "rms_norm"
    name = "_".join([*(["add"] * residual), kind, *behind.names])
    name = f"fused_{name}" if (residual or behind.steps) and draw.random() < 0.6 else name
    shape, dtype = [size if size > 1 else 6 for size in shape_of(draw, draw.choice((2, 3)))], dtype_of(draw)
    last = draw.choice((1, 1, len(shape) - 1))
    normalized = shape[-last:]
    parameters = (
        tensor("input", "the input tensor", drawn(shape, dtype)),
        *((tensor("residual", "added to `input` first; has its shape", drawn(shape, dtype)),) if residual else ()),
        Parameter("normalized_shape", "tuple of ints", "the last dimensions of `input`, over which it is normalized", given=f"({', '.join(map(str, normalized))},)"),
        tensor("weight", "factors of shape `normalized_shape`; None for none", drawn(normalized, dtype) if draw.random() < 0.7 else "", default="None"),
        *((tensor("bias", "summands of shape `normalized_shape`; None for none", drawn(normalized, dtype) if draw.random() < 0.6 else "", default="None"),) if centred else ()),
        _EPS.parameter(),
        *(scalar.parameter(keyword=True) for scalar in behind.scalars),
    )  # fmt: skip
    block = draw.choice((128, 256, 512, 1024))
    load = [*_LOAD, *([_RESIDUAL] * residual)]
    loop = "for start in range(0, n_cols, BLOCK):"
    zero = "acc = tl.zeros([BLOCK], dtype=tl.float32)"
    square = ["x = tl.where(mask, x - mean, 0.0)", "acc += x * x"] if centred else ["acc += x * x"]
    scalars = ["eps", *(scalar.name for scalar in behind.scalars)]
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        *([zero, loop, *indented([*load, "acc += x"]).split("\n"), "mean = tl.sum(acc, axis=0) / n_cols"] * centred),
        zero,
        loop,
        *indented([*load, *square]).split("\n"),
        "inv = tl.rsqrt(tl.sum(acc, axis=0) / n_cols + eps)",
        loop,
        *indented(
            [
                *load,
                f"y = {'(x - mean)' if centred else 'x'} * inv",
                "if HAS_WEIGHT:",
                "    y *= tl.load(w_ptr + cols, mask=mask).to(tl.float32)",
                *(["if HAS_BIAS:", "    y += tl.load(b_ptr + cols, mask=mask).to(tl.float32)"] * centred),
                *behind.lines("y", "y"),
                "tl.store(out_ptr + row * n_cols + cols, y, mask=mask)",
            ]
        ).split("\n"),
    ]
    pointers = ["x_ptr", *(["r_ptr"] * residual), "w_ptr", *(["b_ptr"] * centred), "out_ptr", "n_cols", *scalars]
    flags = ["HAS_WEIGHT: tl.constexpr", *(["HAS_BIAS: tl.constexpr"] * centred), "BLOCK: tl.constexpr"]
    given = ["x", *(["residual.contiguous()"] * residual), "weight", *(["bias"] * centred), "out", "n_cols", *scalars]
    given.append("HAS_WEIGHT=weight is not None")
    given += [*(["HAS_BIAS=bias is not None"] * centred), f"BLOCK={block}"]
    value = "input + residual" if residual else "input"
    called = f"F.layer_norm({value}, normalized_shape, weight, bias, eps)"
    if not centred:
        called = f"F.rms_norm({value}, normalized_shape, weight, eps)"
    math = "(x - mean(x)) / sqrt(var(x) + eps) * weight + bias" if centred else "x / sqrt(mean(x^2) + eps) * weight"
    what = "subtracts the mean, divides by the standard deviation" if centred else "divides by the root mean square"
    added = "Adds `residual` to `input`. " if residual else ""
    after = f" Then it {behind.words}." if behind.steps else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"{added}Over the last dimensions, those of `normalized_shape`, it {what}, and applies "
        f"`weight`{' and `bias`' if centred else ''} where given.{after}",
        formula="; ".join([f"out = {behind.math(math)}, x = {value}", *behind.definitions]),
        shapes=("input: (*, normalized_shape)", "output: the shape of `input`"),
        reference=(f"return {behind.torch(called)}",),
        kernels=f"@triton.jit\ndef {name}_kernel(\n    {', '.join(pointers)},\n    {', '.join(flags)},\n):\n"
        f"{indented(lines)}\n",
        body=(
            "x = input.contiguous()",
            "n_cols = math.prod(normalized_shape)",
            "out = torch.empty_like(x)",
            f"{name}_kernel[(x.numel() // n_cols,)](",
            f"    {', '.join(given)},",
            ")",
            "return out",
        ),
        said=(
            f"The normalized dimensions are one row of `n_cols` elements; a program takes one row, in blocks of {block}"
            ", so a row may be of any length.",
            "The variance is summed from centred values in a pass of its own, which does not cancel."
            if centred
            else "One pass sums the squares, a second one scales and stores.",
            "An absent weight or bias is a None pointer that is never read: a `tl.constexpr` says which there are.",
            *(("The sum with the residual is formed again in every pass and never stored.",) if residual else ()),
        ),
    )
