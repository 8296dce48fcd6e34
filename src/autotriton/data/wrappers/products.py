"""Matrix products with a chain behind them: mm, bmm, addmm, linear, matrix times vector. Every size, by masks."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from autotriton.data.wrappers.base import (
    Parameter,
    Plan,
    Scalar,
    allocation,
    drawn,
    dtype_of,
    indented,
    maybe_out,
    tensor,
)
from autotriton.data.wrappers.steps import Chain, chain

_ALPHA = Scalar("alpha", "1", 0.3, 2.0, "factor of the product")
_BETA = Scalar("beta", "1", 0.3, 2.0, "factor of `input`")


@dataclass(frozen=True)
class _Kind:
    """What differs between products: the wrapper's view of its operands as (batch), M, K and K, N."""

    name: str
    torch: str
    math: str
    words: str
    operands: tuple[tuple[str, str], ...]
    shapes: tuple[str, ...]
    view: tuple[str, ...]
    """Lines that make `a`, `b` and the result's `shape`."""
    batched: bool = False
    scalars: tuple[Scalar, ...] = ()
    added: str = ""
    """What is added: `bias` (optional, one number per column), `input` (full size, scaled)."""


_KINDS = (
    _Kind("mm", "torch.mm(input, mat2)", "input @ mat2", "multiplies the matrices `input` and `mat2`", (("input", "mk"), ("mat2", "kn")), ("input: (M, K)", "mat2: (K, N)", "output: (M, N)"), ("a, b = input, mat2", "M, K = a.shape", "N = b.shape[1]", "shape = (M, N)")),
    _Kind("matmul", "torch.matmul(input, other)", "input @ other", "multiplies the last two dimensions of `input` by the matrix `other`", (("input", "*mk"), ("other", "kn")), ("input: (*, M, K)", "other: (K, N)", "output: (*, M, N)"), ("a, b = input.reshape(-1, input.shape[-1]), other", "M, K = a.shape", "N = b.shape[1]", "shape = (*input.shape[:-1], N)")),
    _Kind("bmm", "torch.bmm(input, mat2)", "input[i] @ mat2[i]", "multiplies the matrices of two batches pairwise", (("input", "bmk"), ("mat2", "bkn")), ("input: (B, M, K)", "mat2: (B, K, N)", "output: (B, M, N)"), ("a, b = input, mat2", "B, M, K = a.shape", "N = b.shape[2]", "shape = (B, M, N)"), batched=True),
    _Kind("linear", "F.linear(input, weight, bias)", "input @ weight^T + bias", "applies the linear map `weight`, and adds `bias` where there is one", (("input", "*k"), ("weight", "nk")), ("input: (*, K)", "weight: (N, K)", "bias: (N,) or None", "output: (*, N)"), ("a, b = input.reshape(-1, input.shape[-1]), weight.t()", "M, K = a.shape", "N = b.shape[1]", "shape = (*input.shape[:-1], N)"), added="bias"),
    _Kind("addmm", "torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)", "beta * input + alpha * (mat1 @ mat2)", "multiplies `mat1` by `mat2`, scales the product by `alpha`, and adds `input` scaled by `beta`", (("input", "mn"), ("mat1", "mk"), ("mat2", "kn")), ("input: any shape that broadcasts to (M, N)", "mat1: (M, K)", "mat2: (K, N)", "output: (M, N)"), ("a, b = mat1, mat2", "M, K = a.shape", "N = b.shape[1]", "shape = (M, N)", "c = input.expand(shape)"), scalars=(_BETA, _ALPHA), added="input"),
    _Kind("baddbmm", "torch.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)", "beta * input[i] + alpha * (batch1[i] @ batch2[i])", "multiplies the matrices of two batches pairwise, scales the products by `alpha`, and adds `input` scaled by `beta`", (("input", "bmn"), ("batch1", "bmk"), ("batch2", "bkn")), ("input: any shape that broadcasts to (B, M, N)", "batch1: (B, M, K)", "batch2: (B, K, N)", "output: (B, M, N)"), ("a, b = batch1, batch2", "B, M, K = a.shape", "N = b.shape[2]", "shape = (B, M, N)", "c = input.expand(shape)"), batched=True, scalars=(_BETA, _ALPHA), added="input"),
)  # fmt: skip


def product(draw: Random) -> Plan:
    kind = draw.choice((*_KINDS, _KINDS[3]))
    taken = frozenset(("alpha", "beta")) if kind.scalars else frozenset()
    behind = chain(draw, draw.choice((1, 1, 2, 3)), first=False, taken=taken) if draw.random() < 0.65 else Chain(())
    name = "_".join([kind.name, *behind.names])
    name = draw.choice((f"fused_{name}", name)) if behind.steps else name
    return _planned(draw, kind, behind, name)


def _planned(draw: Random, kind: _Kind, behind: Chain, name: str) -> Plan:
    has_bias = kind.added == "bias" and draw.random() < 0.7
    parameters = _parameters(draw, kind, behind, has_bias)
    tiles = {f"BLOCK_{letter}": draw.choice((16, 32, 32, 64)) for letter in "MNK"}
    scalars = [scalar.name for scalar in (*kind.scalars, *behind.scalars)]
    extra = {"": [], "bias": ["bias_ptr"], "input": ["c_ptr"]}[kind.added]
    strides = [*(["ab"] * kind.batched), "am", "ak", *(["bb"] * kind.batched), "bk", "bn"]
    if kind.added == "input":
        strides += [*(["cb"] * kind.batched), "cm", "cn"]
    arguments = ["a_ptr", "b_ptr", *extra, "out_ptr", "M", "N", "K", *(f"stride_{s}" for s in strides), *scalars]
    flags = ["HAS_BIAS: tl.constexpr"] * (kind.added == "bias") + [f"{tile}: tl.constexpr" for tile in tiles]
    kernel = _kernel(name, kind, behind, arguments, flags)
    given = ["a", "b", *{"": [], "bias": ["bias"], "input": ["c"]}[kind.added], "out", "M", "N", "K"]
    given += ["*a.stride()", "*b.stride()", *(["*c.stride()"] * (kind.added == "input")), *scalars]
    named = ["HAS_BIAS=bias is not None"] * (kind.added == "bias")
    named += [f"{tile}={size}" for tile, size in tiles.items()]
    grid = f"triton.cdiv(M, {tiles['BLOCK_M']}), triton.cdiv(N, {tiles['BLOCK_N']})"
    body = [
        *kind.view,
        *allocation(parameters, "torch.empty(shape, dtype=a.dtype, device=a.device)"),
        f"grid = ({grid}{', B' if kind.batched else ''})",
        f"{name}_kernel[grid](",
        f"    {', '.join(given)},",
        f"    {', '.join(named)},",
        ")",
        "return out",
    ]
    after = f" Then it {behind.words}." if behind.steps else ""
    bias = " The bias is optional: a `tl.constexpr` says whether it is there." if kind.added == "bias" else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"{kind.words[0].upper()}{kind.words[1:]}.{after}",
        formula="; ".join([f"out = {behind.math(kind.math)}", *behind.definitions]),
        shapes=kind.shapes,
        reference=(f"return {behind.torch(kind.torch)}",),
        kernels=kernel,
        body=tuple(body),
        said=(
            f"Each program computes a {tiles['BLOCK_M']} by {tiles['BLOCK_N']} tile of the result"
            f"{', the third grid axis is the batch' if kind.batched else ''}. A loop over K in steps of "
            f'{tiles["BLOCK_K"]} feeds `tl.dot` into an fp32 accumulator; `input_precision="ieee"` keeps fp32 '
            f"operands from being rounded to TF32.{bias}",
            "Rows, columns and K are masked, so no size has to divide a tile, and strides are arguments, so transposed "
            "operands need no copy."
            + (
                " The steps behind the product work on the accumulator, so it never goes through memory."
                if behind.steps
                else ""
            ),
        ),
    )


def _kernel(name: str, kind: _Kind, behind: Chain, arguments: list[str], flags: list[str]) -> str:
    batch = [
        "batch = tl.program_id(2).to(tl.int64)",
        "a_ptr += batch * stride_ab",
        "b_ptr += batch * stride_bb",
        *(["c_ptr += batch * stride_cb"] * (kind.added == "input")),
        "out_ptr += batch * M * N",
    ]
    loop = [
        "ks = start + tl.arange(0, BLOCK_K)",
        "a_mask = (rows[:, None] < M) & (ks[None, :] < K)",
        "a = tl.load(a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak, mask=a_mask, other=0.0)",
        "b_mask = (ks[:, None] < K) & (cols[None, :] < N)",
        "b = tl.load(b_ptr + ks[:, None] * stride_bk + cols[None, :] * stride_bn, mask=b_mask, other=0.0)",
        'acc = tl.dot(a, b, acc, input_precision="ieee")',
    ]
    lines = [
        "rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)",
        "cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)",
        *(batch if kind.batched else []),
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "for start in range(0, K, BLOCK_K):",
        *indented(loop).split("\n"),
        "mask = (rows[:, None] < M) & (cols[None, :] < N)",
        *_added(kind),
        *behind.lines("acc", "acc"),
        "tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=mask)",
    ]
    head = f"@triton.jit\ndef {name}_kernel(\n    {', '.join(arguments)},\n    {', '.join(flags)},\n):\n"
    return head + indented(lines) + "\n"


def _added(kind: _Kind) -> list[str]:
    if kind.added == "bias":
        return [
            "if HAS_BIAS:",
            "    acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]",
        ]
    if kind.added == "input":
        return [
            "c = tl.load(c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn, mask=mask, other=0.0)",
            "acc = beta * c.to(tl.float32) + alpha * acc",
        ]
    return []


def _parameters(draw: Random, kind: _Kind, behind: Chain, has_bias: bool) -> tuple[Parameter, ...]:
    dtype = dtype_of(draw)
    sizes = {letter: draw.randint(3, 45) for letter in "mkn"} | {"b": draw.randint(2, 4)}
    found = []
    for name, layout in kind.operands:
        shape = [draw.randint(2, 3)] if layout.startswith("*") else []
        if layout == "*k":
            shape = [draw.randint(2, 9) for _ in range(draw.choice((1, 2)))]
        if layout == "*mk":
            sizes["m"] = draw.randint(3, 15)
        shape += [sizes[letter] for letter in layout.lstrip("*")]
        if name == "input" and kind.added == "input" and draw.random() < 0.4:
            shape = shape[-1:]
        text = drawn(shape, dtype)
        if layout in ("kn", "mk") and draw.random() < 0.2:
            text = drawn(shape[::-1], dtype) + ".t()"
        found.append(tensor(name, _about(name, kind), text))
    if kind.added == "bias":
        given = drawn([sizes["n"]], dtype) if has_bias else ""
        found.append(tensor("bias", "added to every row; None for none", given, default="None"))
    scalars = tuple(scalar.parameter(keyword=True) for scalar in (*kind.scalars, *behind.scalars))
    return (*found, *scalars, *maybe_out(draw, 0.25))


def _about(name: str, kind: _Kind) -> str:
    said = {"weight": "the weight matrix, one row per output feature", "mat2": "the right matrix", "other": "the right matrix"}  # fmt: skip
    if kind.added == "input" and name == "input":
        return "what is added to the product"
    return said.get(name, "the left matrix" if name in ("mat1", "input") else "a batch of matrices")


def matrix_vector(draw: Random) -> Plan:
    """One row per program: a row of the matrix against the vector."""
    added = draw.random() < 0.5
    taken = frozenset(("alpha", "beta")) if added else frozenset()
    behind = chain(draw, draw.choice((1, 2)), first=False, taken=taken) if draw.random() < 0.6 else Chain(())
    name = "_".join(["addmv" if added else "mv", *behind.names])
    name = f"fused_{name}" if behind.steps and draw.random() < 0.5 else name
    dtype, rows, cols = dtype_of(draw), draw.randint(2, 70), draw.randint(3, 300)
    scalars = (*((_BETA, _ALPHA) if added else ()), *behind.scalars)
    matrix = "mat" if added else "input"
    parameters = (
        *((tensor("input", "what is added", drawn([rows], dtype)),) if added else ()),
        tensor(matrix, "the matrix", drawn([rows, cols], dtype)),
        tensor("vec", "the vector", drawn([cols], dtype)),
        *(scalar.parameter(keyword=True) for scalar in scalars),
    )
    parameters += maybe_out(draw)
    block = draw.choice((64, 128, 256, 512))
    loop = [
        "cols = start + tl.arange(0, BLOCK)",
        "mask = cols < n_cols",
        "a = tl.load(a_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)",
        "v = tl.load(v_ptr + cols, mask=mask, other=0.0).to(tl.float32)",
        "acc += a * v",
    ]
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        "acc = tl.zeros([BLOCK], dtype=tl.float32)",
        "for start in range(0, n_cols, BLOCK):",
        *indented(loop).split("\n"),
        "y = tl.sum(acc, axis=0)",
        *(["y = beta * tl.load(c_ptr + row).to(tl.float32) + alpha * y"] * added),
        *behind.lines("y", "y"),
        "tl.store(out_ptr + row, y)",
    ]
    names = [scalar.name for scalar in scalars]
    arguments = ["a_ptr", "v_ptr", *(["c_ptr"] * added), "out_ptr", "n_cols", *names, "BLOCK: tl.constexpr"]
    given = ["a", "vec.contiguous()", *(["input.contiguous()"] * added), "out", "n_cols", *names, f"BLOCK={block}"]
    math = f"beta * input + alpha * ({matrix} @ vec)" if added else f"{matrix} @ vec"
    torch = "torch.addmv(input, mat, vec, beta=beta, alpha=alpha)" if added else "torch.mv(input, vec)"
    after = f" Then it {behind.words}." if behind.steps else ""
    plus = ", scales the product by `alpha` and adds `input` scaled by `beta`" if added else ""
    return Plan(
        name=name,
        parameters=parameters,
        summary=f"Multiplies the matrix `{matrix}` by the vector `vec`{plus}.{after}",
        formula="; ".join([f"out = {behind.math(math)}", *behind.definitions]),
        shapes=(f"{matrix}: (M, N)", "vec: (N,)", *(("input: (M,)",) if added else ()), "output: (M,)"),
        reference=(f"return {behind.torch(torch)}",),
        kernels=f"@triton.jit\ndef {name}_kernel({', '.join(arguments)}):\n{indented(lines)}\n",
        body=(
            f"a = {matrix}.contiguous()",
            "n_rows, n_cols = a.shape",
            *allocation(parameters, "torch.empty((n_rows,), dtype=a.dtype, device=a.device)"),
            f"{name}_kernel[(n_rows,)]({', '.join(given)})",
            "return out",
        ),
        said=(
            f"One program per row: it walks over the row and the vector in blocks of {block}, masked at the end, and "
            "adds the products up in fp32.",
        ),
    )
