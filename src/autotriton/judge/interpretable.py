"""Which kernels the interpreter can be believed about when it says "wrong".

On a GPU machine a mismatch in the interpreter settles the matter only for kernels written in the part of Triton's
language below, whose interpretation agrees with an H200 over the honest corpus. Anything else goes to the GPU for its
verdict.
"""

from __future__ import annotations

import ast

from autotriton.syntax import parse_source

KNOWN = frozenset(
    [
        "abs",
        "advance",
        "arange",
        "argmax",
        "argmin",
        "atomic_add",
        "atomic_max",
        "atomic_min",
        "bfloat16",
        "broadcast",
        "broadcast_to",
        "cdiv",
        "clamp",
        "constexpr",
        "cos",
        "cumsum",
        "debug_barrier",
        "device_assert",
        "div_rn",
        "dot",
        "erf",
        "exp",
        "exp2",
        "expand_dims",
        "fdiv",
        "flip",
        "float16",
        "float32",
        "float64",
        "floor",
        "fma",
        "full",
        "int1",
        "int16",
        "int32",
        "int64",
        "int8",
        "ceil",
        "load",
        "log",
        "log2",
        "max",
        "max_contiguous",
        "maximum",
        "min",
        "minimum",
        "multiple_of",
        "num_programs",
        "permute",
        "pointer_type",
        "program_id",
        "ravel",
        "range",
        "reshape",
        "rsqrt",
        "sigmoid",
        "sin",
        "softmax",
        "sort",
        "sqrt",
        "sqrt_rn",
        "static_assert",
        "static_range",
        "store",
        "sum",
        "swizzle2d",
        "tensor",
        "trans",
        "uint16",
        "uint32",
        "uint64",
        "uint8",
        "view",
        "where",
        "zeros",
        "zeros_like",
        "math",
        "cat",
        "join",
        "xor_sum",
        "assume",
        "dtype",
        "void",
    ]
)


def believable(code: str) -> bool:
    """Every `tl.name` in the source is known, and nothing else of Triton is used inside kernels by another name."""
    try:
        tree = parse_source(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    aliases = {"tl"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("triton.language"):
            return False
        if isinstance(node, ast.Import):
            aliases |= {a.asname for a in node.names if a.name == "triton.language" and a.asname}
    used = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
    ]
    return all(name in KNOWN for name in used)
