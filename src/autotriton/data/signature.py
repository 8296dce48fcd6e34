"""Canonical hashes of an operator graph: one without shapes, for splits; one with them, for exact twins.

Works on the plain graph `judge/graph.py` records; no torch. Must stay true: names, spelling, argument order, layers or
functions, and dead code make no difference; another operator or another wiring does.
Does not cover: algebra (x * 2 and x + x differ), and fused operators against the same written out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

# One meaning, several operators: backends, in-place forms and layouts choose between them.
_SAME = {
    "_unsafe_view": "view",
    "reshape": "view",
    "_reshape_alias": "view",
    "flatten": "view",
    "squeeze": "view",
    "unsqueeze": "view",
    "t": "permute",
    "transpose": "permute",
    "numpy_T": "permute",
    "cudnn_convolution": "convolution",
    "mkldnn_convolution": "convolution",
    "_convolution": "convolution",
    "thnn_conv2d": "convolution",
    "slow_conv3d_forward": "convolution",
    "_slow_conv2d_forward": "convolution",
    "convolution_overrideable": "convolution",
    "conv_depthwise3d": "convolution",
    "_conv_depthwise2d": "convolution",
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_batch_norm_with_update": "batch_norm",
    "miopen_batch_norm": "batch_norm",
    "_batch_norm_with_update_functional": "batch_norm",
    "_native_batch_norm_legit_functional": "batch_norm",
    "_safe_softmax": "_softmax",
    "clamp_min": "clamp",
    "clamp_max": "clamp",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "mkldnn_rnn_layer": "lstm",
    "_cudnn_rnn": "lstm",
}
_TRANSPARENT = frozenset(("detach", "alias", "lift_fresh", "lift_fresh_copy", "lift", "clone", "contiguous"))
_COMMUTES = frozenset(
    (
        "add",
        "mul",
        "maximum",
        "minimum",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "eq",
        "ne",
        "fmax",
        "fmin",
        "hypot",
        "logaddexp",
    )
)


@dataclass(frozen=True)
class Signature:
    graph: str
    shaped: str


@dataclass(frozen=True)
class Node:
    name: str
    operands: tuple[tuple[int, int], ...]
    constants: str
    outputs: tuple[str, ...]
    flops: int


def nodes_of(graph: dict[str, Any]) -> list[Node]:
    """The graph's nodes with their canonical names."""
    return [
        Node(
            canonical(name),
            tuple((int(node), int(out)) for node, out in operands),
            constants,
            tuple(f"{dtype}{tuple(shape)}" for dtype, shape in outputs),
            int(flops),
        )
        for name, operands, constants, outputs, flops in graph["nodes"]
    ]


def canonical(name: str) -> str:
    """`add_` is `add`; every backend's attention is `sdpa`."""
    bare = name.rpartition("::")[2].split(".")[0]
    if "scaled_dot_product" in bare or "flash_attention" in bare or "efficient_attention" in bare:
        return "sdpa"
    bare = _SAME.get(bare, bare)
    if bare.endswith("_") and not bare.endswith("__"):
        bare = bare[:-1]
    return _SAME.get(bare, bare)


def signature(graph: dict[str, Any]) -> Signature:
    nodes = nodes_of(graph)
    results = [tuple(place) for place in (*graph["outputs"], *graph.get("changed", ()))]
    cut = "cut" if graph.get("cut") else ""
    return Signature(_hash(nodes, results, cut, shaped=False), _hash(nodes, results, cut, shaped=True))


def _hash(nodes: list[Node], results: list[tuple[int, int]], cut: str, *, shaped: bool) -> str:
    forms = _forms(nodes, shaped)
    written: dict[int, int] = {}
    lines: list[str] = []
    for result in results:
        lines.append(f"return {_write(nodes, _through(nodes, result), forms, written, lines, shaped)}")
    return hashlib.sha256("\n".join([*lines, cut]).encode()).hexdigest()[:20]


def _forms(nodes: list[Node], shaped: bool) -> list[str]:
    """A hash per node that leaves out which leaf is which: what commuting operands are ordered by."""
    forms: list[str] = []
    for node in nodes:
        parts = [f"{forms[source]}.{out}" for source, out in node.operands]
        parts = sorted(parts) if node.name in _COMMUTES else parts
        forms.append(hashlib.sha256("|".join((_label(node, shaped), *parts)).encode()).hexdigest()[:16])
    return forms


def _label(node: Node, shaped: bool) -> str:
    return f"{node.name} {node.constants} {' '.join(node.outputs)}" if shaped else node.name


def _through(nodes: list[Node], place: tuple[int, int]) -> tuple[int, int]:
    """What a transparent operator passes on."""
    while nodes[place[0]].name in _TRANSPARENT and nodes[place[0]].operands:
        place = nodes[place[0]].operands[0]
    return place


def _write(
    nodes: list[Node],
    place: tuple[int, int],
    forms: list[str],
    written: dict[int, int],
    lines: list[str],
    shaped: bool,
) -> str:
    """Number what the results need, in an order that depends on the graph alone; without recursion: graphs are deep."""
    todo = [place[0]]
    while todo:
        number = todo[-1]
        if number in written:
            todo.pop()
            continue
        operands = _ordered(nodes, number, forms)
        missing = [source for source, _ in operands if source not in written]
        if missing:
            todo += missing[::-1]
            continue
        todo.pop()
        written[number] = len(written)
        refs = " ".join(f"{written[source]}.{out}" for source, out in operands)
        lines.append(f"{written[number]} = {_label(nodes[number], shaped)} ({refs})")
    return f"{written[place[0]]}.{place[1]}"


def _ordered(nodes: list[Node], number: int, forms: list[str]) -> list[tuple[int, int]]:
    node = nodes[number]
    operands = [_through(nodes, operand) for operand in node.operands]
    return sorted(operands, key=lambda place: (forms[place[0]], place[1])) if node.name in _COMMUTES else operands
