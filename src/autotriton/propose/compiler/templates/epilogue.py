"""The element-wise rest of a family's kernel: what a cluster holds besides the family's operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
import torch.fx

from autotriton.propose.compiler.templates.access import Group
from autotriton.propose.compiler.templates.axes import Axis, refreshed
from autotriton.propose.compiler.templates.body import Body, Operands, strides
from autotriton.propose.compiler.templates.cluster import Cluster
from autotriton.propose.compiler.templates.formula import formula
from autotriton.propose.compiler.templates.loops import number_arguments
from autotriton.propose.compiler.templates.names import Names
from autotriton.propose.compiler.templates.piece import NO_PLACES, Places
from autotriton.propose.compiler.templates.sizes import Sizes


class FusedEpilogue:
    """Implements `piece.Epilogue` for a cluster around a family's operator."""

    def __init__(
        self, cluster: Cluster, outputs: Sequence[torch.fx.Node], names: Names, sizes: tuple[str, ...], like: str
    ) -> None:
        assert cluster.family is not None
        self.cluster, self.like = cluster, like
        self.family = cluster.family
        self._operands = Operands(cluster, names)
        self._outputs = [(node, names.unique("out")) for node in outputs]
        self._groups, self._pieces = _groups(cluster, sizes)
        self._names = sizes
        named = {axes[0]: name for axes, name in zip(cluster.frame, sizes, strict=True) if axes}
        value = torch.empty(0, dtype=self.family.meta["val"].dtype, device="meta")
        self._sizes = Sizes([(like, value, ()), *self._operands.walked], named, whole=(cluster.frame, sizes))

    @property
    def nodes(self) -> tuple[torch.fx.Node, ...]:
        """What the wrapper is given for `operands()`."""
        return (*self._operands.nodes, *self._operands.numbers())

    def operands(self) -> list[str]:
        return [*(name for name, _, _ in self._operands.values), *number_arguments(self._operands)]

    def formula(self, value: str) -> str:
        results = [node for node, _ in self._outputs]
        return formula(results[-1], lambda n: n in self.cluster.dims and n is not self.family, self._called(value))

    def _called(self, value: str) -> Callable[[torch.fx.Node], str]:
        return lambda node: value if node is self.family else self._operands.names.of(node)

    def parameters(self) -> list[str]:
        tensors = [name for name, _, _ in self._operands.values]
        pointers = [f"{name}_ptr" for name in [*tensors, *(name for _, name in self._outputs)]]
        return [*pointers, *number_arguments(self._operands), *(name for name, _ in self._strides())]

    def arguments(self) -> list[str]:
        tensors = [*(name for name, _, _ in self._operands.values), *(name for _, name in self._outputs)]
        return [*tensors, *number_arguments(self._operands), *(text for _, text in self._strides())]

    def _strides(self) -> list[tuple[str, str]]:
        return strides(
            self._operands, self._groups, "\n".join(self.lines("value", ["0"] * len(self.cluster.frame), ""))
        )

    def allocations(self) -> list[str]:
        return [
            f"{name} = {self._sizes.empty(node.meta['val'], self.cluster.dims[node])}" for node, name in self._outputs
        ]

    def lines(self, value: str, index: Sequence[str], mask: str, places: Places = NO_PLACES) -> list[str]:
        for group, (dimension, behind, wrap) in zip(self._groups, self._pieces, strict=True):
            text = index[dimension] if not behind else f"(({index[dimension]}) // {behind})"
            group.index = f"({text} % {wrap})" if wrap else text
            if not (group.index.isidentifier() or group.index.endswith(")")):
                group.index = f"({group.index})"
            # A batch that is part of a larger axis cannot be told from the rest of it.
            whole = dimension == 0 and not behind and not wrap
            group.scalar, group.more = (places.image, places.image_more) if whole else ("", "")
        single = " + ".join(index[d] for d, axes in enumerate(self.cluster.frame) if not axes)
        body = Body(
            self.cluster, self._operands, self._groups, lambda axes: self._mask(axes, index, mask), single=single
        )
        if places.flat:
            body.columns = [g for g, (d, _, _) in zip(self._groups, self._pieces, strict=True) if d > 1]
            body.column = (places.flat, places.flat_size)
        if places.leading:
            body.rows = [g for g, (d, _, _) in zip(self._groups, self._pieces, strict=True) if d < places.leading_dims]
            body.row = places.leading
        body.steered = places.steered
        # What the family's statements have named must not be named again before it is used.
        texts = [value, mask, *index, places.image, places.image_more, places.flat, places.flat_size]
        body.names.taken |= set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))
        body.values[self.family] = value
        for member in self.cluster.members:
            if member is not self.family:
                body.member(member)
        body.stores(self._outputs)
        return body.lines

    def _mask(self, axes: set[Axis], index: Sequence[str], mask: str) -> str:
        """What runs over some of the dimensions is loaded once for them, not once per element of the tile."""
        if not axes or axes >= set(self.cluster.axes):
            return mask if axes else ""
        dims = [d for d, own in enumerate(refreshed(self.cluster.frame)) if axes & set(own)]
        return " & ".join(f"({index[d]} < {self._names[d]})" for d in dims)

    def returned(self) -> str:
        return ", ".join(name for _, name in self._outputs)


def _groups(cluster: Cluster, sizes: tuple[str, ...]) -> tuple[list[Group], list[tuple[int, int, int]]]:
    """One group per axis of the output; a dimension that a view split gives several."""
    groups: list[Group] = []
    pieces: list[tuple[int, int, int]] = []
    for dimension, axes in enumerate(refreshed(cluster.frame)):
        behind = 1
        found: list[tuple[Axis, int]] = []
        for axis in reversed(axes):
            found.insert(0, (axis, behind))
            behind *= axis.size
        for number, (axis, inner) in enumerate(found):
            name = sizes[dimension] if len(axes) == 1 else str(axis.size)
            groups.append(Group((axis,), size_name=name))
            pieces.append((dimension, inner if inner > 1 else 0, axis.size if number else 0))
    return groups, pieces
