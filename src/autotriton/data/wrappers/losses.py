"""Losses with a `reduction` argument, and comparisons of two tensors row by row."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import Parameter, Plan, Scalar, drawn, flag, indented, shape_of, tensor

_ABS = "tl.abs(x - t)"


@dataclass(frozen=True)
class _Loss:
    name: str
    torch: str
    triton: str
    math: str
    words: str
    scalars: tuple[Scalar, ...] = ()
    target: str = "any"


_LOSSES = (
    _Loss("mse_loss", "F.mse_loss(input, target, reduction=reduction)", "(x - t) * (x - t)", "(input - target)^2", "squares the difference of `input` and `target`"),
    _Loss("l1_loss", "F.l1_loss(input, target, reduction=reduction)", _ABS, "|input - target|", "takes the distance of `input` and `target`"),
    _Loss("smooth_l1_loss", "F.smooth_l1_loss(input, target, reduction=reduction, beta=beta)", f"tl.where({_ABS} < beta, 0.5 * (x - t) * (x - t) / beta, {_ABS} - 0.5 * beta)", "0.5 d^2 / beta for d < beta, otherwise d - 0.5 beta, with d = |input - target|", "takes the smooth L1 distance of `input` and `target`", (Scalar("beta", "1.0", 0.3, 1.5, "where the square turns into a line"),)),
    _Loss("huber_loss", "F.huber_loss(input, target, reduction=reduction, delta=delta)", f"tl.where({_ABS} <= delta, 0.5 * (x - t) * (x - t), delta * ({_ABS} - 0.5 * delta))", "0.5 d^2 for d <= delta, otherwise delta (d - 0.5 delta), with d = |input - target|", "takes the Huber distance of `input` and `target`", (Scalar("delta", "1.0", 0.3, 1.5, "where the square turns into a line"),)),
    _Loss("binary_cross_entropy_with_logits", "F.binary_cross_entropy_with_logits(input, target, reduction=reduction)", "tl.maximum(x, 0.0) - x * t + libdevice.log1p(tl.exp(-tl.abs(x)))", "max(input, 0) - input * target + ln(1 + exp(-|input|))", "takes the cross entropy of the logits `input` and the probabilities `target`", target="unit"),
    _Loss("soft_margin_loss", "F.soft_margin_loss(input, target, reduction=reduction)", "tl.maximum(-x * t, 0.0) + libdevice.log1p(tl.exp(-tl.abs(x * t)))", "ln(1 + exp(-input * target))", "takes the logistic loss of `input` and the labels `target`, which are 1 or -1", target="signs"),
)  # fmt: skip


def loss(draw: Random) -> Plan:
    chosen = draw.choice(_LOSSES)
    name, shape = chosen.name, shape_of(draw)
    target = drawn(shape, domain=chosen.target) if chosen.target != "signs" else _signs(shape)
    reduction = draw.choice(('"sum"', '"none"', "", ""))
    parameters = (
        tensor("input", "the prediction", drawn(shape)),
        tensor("target", "what it is compared with, of the same shape", target),
        Parameter("reduction", "str", "`none`, `mean` or `sum`", default='"mean"', given=reduction),
        *(scalar.parameter() for scalar in chosen.scalars),
    )
    block = draw.choice((256, 512, 1024))
    scalars = [scalar.name for scalar in chosen.scalars]
    lines = [
        "pid = tl.program_id(0)",
        "offsets = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offsets < n_elements",
        "x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)",
        "t = tl.load(t_ptr + offsets, mask=mask, other=0.0).to(tl.float32)",
        f"y = {chosen.triton}",
        "if REDUCE:",
        "    tl.store(out_ptr + pid, tl.sum(tl.where(mask, y, 0.0), axis=0))",
        "else:",
        "    tl.store(out_ptr + offsets, y, mask=mask)",
    ]
    total = [
        "acc = tl.zeros([BLOCK], dtype=tl.float32)",
        "for start in range(0, n_parts, BLOCK):",
        "    cols = start + tl.arange(0, BLOCK)",
        "    acc += tl.load(parts_ptr + cols, mask=cols < n_parts, other=0.0)",
        "tl.store(out_ptr, tl.sum(acc, axis=0) / divisor)",
    ]
    arguments = ", ".join(["x_ptr", "t_ptr", "out_ptr", "n_elements", *scalars])
    given = ", ".join(["n_elements", *scalars])
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Elementwise it {chosen.words}; the losses are returned as they are (`none`), averaged (`mean`) or "
        "added up (`sum`).",
        formula=f"loss = {chosen.math}; out = loss, mean(loss) or sum(loss)",
        shapes=("input, target: any shape", "output: a scalar, or the shape of `input` for `none`"),
        reference=(f"return {chosen.torch}",),
        kernels=f"@triton.jit\ndef {name}_kernel({arguments}, REDUCE: tl.constexpr, BLOCK: tl.constexpr):\n"
        f"{indented(lines)}\n\n\n@triton.jit\ndef total_kernel(parts_ptr, out_ptr, n_parts, divisor, "
        f"BLOCK: tl.constexpr):\n{indented(total)}\n",
        body=(
            "x, t = input.contiguous(), target.contiguous()",
            "n_elements = x.numel()",
            f"n_parts = triton.cdiv(n_elements, {block})",
            'if reduction == "none":',
            "    out = torch.empty_like(x)",
            f"    {name}_kernel[(n_parts,)](x, t, out, {given}, REDUCE=False, BLOCK={block})",
            "    return out",
            "parts = torch.empty((n_parts,), dtype=torch.float32, device=x.device)",
            "out = torch.empty((), dtype=x.dtype, device=x.device)",
            f"{name}_kernel[(n_parts,)](x, t, parts, {given}, REDUCE=True, BLOCK={block})",
            'divisor = n_elements if reduction == "mean" else 1',
            f"total_kernel[(1,)](parts, out, n_parts, divisor, BLOCK={block})",
            "return out",
        ),
        said=(
            f"The first kernel computes the losses of {block} elements per program; it either stores them or adds them "
            "up to one partial sum, which a `tl.constexpr` decides. A second kernel of one program adds the partial "
            "sums, so no atomics are needed and the result is deterministic.",
            "Masked elements count as zero in the sum.",
        ),
    )


def _signs(shape: list[int]) -> str:
    sizes = ", ".join(map(str, shape))
    return f"torch.randint(0, 2, ({sizes},)).float() * 2 - 1"


@dataclass(frozen=True)
class _Pair:
    name: str
    torch: str
    sums: tuple[str, ...]
    """What is summed over the row, of values `a` and `b`."""
    end: str
    math: str
    words: str
    scalars: tuple[Scalar, ...] = ()
    keeps: bool = False


_PAIRS = (
    _Pair("cosine_similarity", "F.cosine_similarity(x1, x2, dim=-1, eps=eps)", ("a * b", "a * a", "b * b"), "s0 / (tl.maximum(tl.sqrt(s1), eps) * tl.maximum(tl.sqrt(s2), eps))", "x1 . x2 / (max(||x1||, eps) * max(||x2||, eps))", "takes the cosine of the angle between the two rows", (Scalar("eps", "1e-8", 0.001, 0.1, "smallest norm"),)),
    _Pair("pairwise_distance", "F.pairwise_distance(x1, x2, 2.0, eps, keepdim)", ("(a - b + eps) * (a - b + eps)",), "tl.sqrt(s0)", "||x1 - x2 + eps||_2", "takes the Euclidean distance of the two rows", (Scalar("eps", "1e-6", 0.001, 0.1, "added to every difference"),), keeps=True),
    _Pair("scaled_row_dot", "torch.sum(x1 * x2, dim=-1, keepdim=keepdim) * scale", ("a * b",), "s0 * scale", "scale * sum_i x1_i * x2_i", "takes the dot product of the two rows and scales it", (Scalar("scale", "1.0", 0.3, 2.0, "factor of the product"),), keeps=True),
    _Pair("row_l1_distance", "torch.sum(torch.abs(x1 - x2), dim=-1, keepdim=keepdim)", ("tl.abs(a - b)",), "s0", "sum_i |x1_i - x2_i|", "adds up the distances of the two rows' elements", keeps=True),
    _Pair("gaussian_affinity", "torch.exp(-gamma * torch.sum(torch.square(x1 - x2), dim=-1))", ("(a - b) * (a - b)",), "tl.exp(-gamma * s0)", "exp(-gamma * ||x1 - x2||^2)", "takes the Gaussian kernel of the two rows", (Scalar("gamma", "1.0", 0.01, 0.1, "width, larger is narrower"),)),
    _Pair("relative_error", "torch.sum(torch.square(x1 - x2), dim=-1, keepdim=keepdim) / (torch.sum(torch.square(x2), dim=-1, keepdim=keepdim) + eps)", ("(a - b) * (a - b)", "b * b"), "s0 / (s1 + eps)", "||x1 - x2||^2 / (||x2||^2 + eps)", "divides the squared distance of the two rows by the squared norm of the second", (Scalar("eps", "1e-6", 0.001, 0.1, "added to the divisor"),), keeps=True),
)  # fmt: skip


def pair(draw: Random) -> Plan:
    """One number for two rows."""
    chosen = draw.choice(_PAIRS)
    name = chosen.name
    shape = [max(size, 2) for size in shape_of(draw, draw.choice((2, 3)))]
    parameters = (
        tensor("x1", "the first tensor", drawn(shape)),
        tensor("x2", "the second tensor, of the same shape", drawn(shape)),
        *(scalar.parameter() for scalar in chosen.scalars),
        *((flag("keepdim", "keep the last dimension with size 1", draw.random() < 0.4),) if chosen.keeps else ()),
    )
    block = draw.choice((64, 128, 256, 512))
    sums = range(len(chosen.sums))
    loop = [
        "cols = start + tl.arange(0, BLOCK)",
        "mask = cols < n_cols",
        "a = tl.load(x1_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)",
        "b = tl.load(x2_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)",
    ]
    loop += [
        f"acc{place} += " + (f"tl.where(mask, {text}, 0.0)" if "eps" in text else text)
        for place, text in enumerate(chosen.sums)
    ]
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        *(f"acc{place} = tl.zeros([BLOCK], dtype=tl.float32)" for place in sums),
        "for start in range(0, n_cols, BLOCK):",
        *indented(loop).split("\n"),
        *(f"s{place} = tl.sum(acc{place}, axis=0)" for place in sums),
        f"tl.store(out_ptr + row, {chosen.end})",
    ]
    scalars = [scalar.name for scalar in chosen.scalars]
    arguments = ", ".join(["x1_ptr", "x2_ptr", "out_ptr", "n_cols", *scalars, "BLOCK: tl.constexpr"])
    shaped = "(*x1.shape[:-1], 1) if keepdim else x1.shape[:-1]" if chosen.keeps else "x1.shape[:-1]"
    kept = " or (*, 1) with `keepdim`" if chosen.keeps else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Along the last dimension of `x1` and `x2` it {chosen.words}.",
        formula=f"out = {chosen.math}",
        shapes=("x1, x2: (*, D)", f"output: (*){kept}"),
        reference=(f"return {chosen.torch}",),
        kernels=f"@triton.jit\ndef {name}_kernel({arguments}):\n{indented(lines)}\n",
        body=(
            "a, b = x1.contiguous(), x2.contiguous()",
            "n_cols = a.shape[-1]",
            f"out = torch.empty({shaped}, dtype=a.dtype, device=a.device)",
            f"{name}_kernel[(out.numel(),)]({', '.join(['a', 'b', 'out', 'n_cols', *scalars])}, BLOCK={block})",
            "return out",
        ),
        said=(
            f"One program per pair of rows, in blocks of {block} so that a row may be of any length; "
            f"{'the sums are' if len(chosen.sums) > 1 else 'the sum is'} kept per lane and added up at the end. Masked "
            "elements add nothing.",
        ),
    )
