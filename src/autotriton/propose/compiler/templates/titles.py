"""What a kernel is called: after the layers and functions of the program it computes."""

from __future__ import annotations

import builtins
import keyword
import re

import torch.fx

from autotriton.propose.compiler.templates.cluster import Cluster
from autotriton.propose.compiler.templates.expressions import name_of

_PARTS = 4
_SILENT = frozenset(["clone", "_to_copy", "alias", "detach", "copy", "lift_fresh_copy", "expand", "view"])
_SHORT = {"scaled_dot_product_attention": "attention", "var_mean": "var", "_adaptive_avg_pool2d": "adaptive_avg_pool2d"}


def title_of(cluster: Cluster) -> str:
    """`linear_gelu`, `layer_norm`: the program's own words, each once, at most four of them."""
    words: list[str] = []
    for member in cluster.members:
        word = _word(member)
        if word and (not words or words[-1] != word) and word not in words:
            words.append(word)
    if len(words) > _PARTS:
        words = [*words[: _PARTS - 1], words[-1]]
    title = "_".join(words) or "copy"
    # Kernels and wrappers call `min` and `max` themselves, and `or` is no name.
    taken = hasattr(builtins, title) or keyword.iskeyword(title)
    return f"{title}_{'reduction' if cluster.reduced else 'elements'}" if taken else title


def _word(node: torch.fx.Node) -> str:
    """The function the program called, which a decomposed operator remembers; the layer, where we took it apart."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    if stack and "InstanceNorm" in str(stack[-1][1]):
        return "instance_norm"
    origin = node.meta.get("torch_fn")
    word = origin[1].rpartition(".")[2] if origin else ""
    if not word or word in ("getitem", "to", "default"):
        word = name_of(node)
    if word in _SILENT or name_of(node) in ("clone", "_to_copy"):
        return ""
    return re.sub(r"\W+", "_", _SHORT.get(word, word)).strip("_").lower()
