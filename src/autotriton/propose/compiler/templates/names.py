"""Names a reader knows: parameters by their own name, intermediate values by the operator that made them."""

from __future__ import annotations

import keyword
import re

import torch.fx

from autotriton.propose.compiler.templates.expressions import name_of

_RESERVED = {
    "tl",
    "triton",
    "torch",
    "row",
    "col",
    "mask",
    "row_mask",
    "col_mask",
    "offsets",
    "grid",
    "tiles",
    "device",
}
_SHORT = {"scaled_dot_product_attention": "attention", "_to_copy": "cast", "convolution": "conv", "var_mean": "var"}


class Names:
    """Distinct names in one text."""

    def __init__(self, sources: dict[str, str] | None = None, taken: set[str] | None = None) -> None:
        self.sources = sources or {}
        self.taken = set(_RESERVED) | (taken or set())
        self.given: dict[torch.fx.Node, str] = {}

    def of(self, node: torch.fx.Node) -> str:
        if node not in self.given:
            self.given[node] = self.unique(self.plain(node))
        return self.given[node]

    def plain(self, node: torch.fx.Node) -> str:
        """The last part of `self.fc.weight`; the operator of an intermediate value."""
        if node.op == "placeholder":
            source = self.sources.get(node.name, node.name)
            return identifier(source.rpartition(".")[2]) if not source.startswith("torch.tensor") else "constant"
        name = re.sub(r"(_default|_int)?(_\d+)?$", "", node.name)
        return identifier(_SHORT.get(name_of(node), name if name != "getitem" else "part"))

    def unique(self, name: str) -> str:
        chosen, number = name, 1
        while chosen in self.taken:
            number += 1
            chosen = f"{name}_{number}"
        self.taken.add(chosen)
        return chosen


def identifier(text: str) -> str:
    text = re.sub(r"\W+", "_", text).strip("_") or "value"
    if text[0].isdigit() or keyword.iskeyword(text):
        text = f"value_{text}"
    return text
