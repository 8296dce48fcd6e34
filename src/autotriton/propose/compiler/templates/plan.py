"""Which operators of the graph become one kernel.

Greedy, in program order: an element-wise operator joins the cluster of one of its operands when it runs over the same
axes and nothing it needs waits for that cluster; a reduction joins the element-wise cluster it reduces. What must stay
true: the clusters can be put into an order in which each finds its operands made.
"""

from __future__ import annotations

import torch.fx

from autotriton.propose.compiler.inductor.program import Unsupported
from autotriton.propose.compiler.templates import gathers
from autotriton.propose.compiler.templates.axes import Axis, Dims, aligned, flat, fresh, refreshed
from autotriton.propose.compiler.templates.cluster import (
    Cluster,
    is_constant,
    is_reduction,
    reduced_dims,
    tensor_inputs,
)
from autotriton.propose.compiler.templates.expressions import is_pointwise, name_of
from autotriton.propose.compiler.templates.families import family_of
from autotriton.propose.compiler.templates.options import DEFAULT, Options
from autotriton.propose.compiler.templates.piece import node_at, shape_of
from autotriton.propose.compiler.templates.views import base_of, is_view

_MAX_OPERANDS = 12


class Plan:
    """Clusters in an order in which they can run."""

    def __init__(self, graph: torch.fx.Graph, options: Options = DEFAULT) -> None:
        self.options = options
        self.owner: dict[torch.fx.Node, Cluster] = {}
        self.clusters: list[Cluster] = []
        self.needs: dict[Cluster, set[Cluster]] = {}
        """Clusters whose results a cluster reads."""
        for node in graph.nodes:
            if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor | tuple | list):
                self._place(node)
                if node in self.owner:
                    self._note_needs(node)
        self.clusters = self._ordered()

    def _place(self, node: torch.fx.Node) -> None:
        if is_view(node) or is_constant(node) or _is_part(node):
            if _is_part(node) and node.args[0] in self.owner:
                self.owner[node] = self.owner[node_at(node.args[0])]
            return
        if is_pointwise(node) or gathers.is_gather(node):
            self._place_element_wise(node)
        elif is_reduction(node):
            self._place_reduction(node)
        elif (family := family_of(node)) is not None and family.accepts(node):
            self._place_family(node)
        else:
            raise Unsupported(f"operator {node.target!s} is not supported by the templates")

    def _place_family(self, node: torch.fx.Node) -> None:
        value = node.meta["val"]
        if isinstance(value, tuple | list):
            self._new(Cluster((), family=node, whole=True)).add(node, ())
        else:
            frame = fresh(node)
            self._new(Cluster(frame, family=node)).add(node, frame)
        self.owner[node] = self.clusters[-1]

    def _place_element_wise(self, node: torch.fx.Node) -> None:
        for cluster in self._producers(node):
            dims = self._joined(cluster, node)
            if dims is not None:
                cluster.add(node, dims)
                self.owner[node] = cluster
                self._absorb_small(cluster, node)
                return
        frame = fresh(node)
        cluster = self._new(Cluster(frame))
        cluster.add(node, frame)
        self.owner[node] = cluster
        self._absorb_small(cluster, node)

    def _place_reduction(self, node: torch.fx.Node) -> None:
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        cluster = self.owner.get(base_of(source))
        # A family's cluster takes no reduction, and looking at a view would split its axes.
        dims = cluster.dims_of(source) if cluster is not None and cluster.family is None else None
        over, keep = reduced_dims(node)
        if cluster is None or dims is None or not self._reducible(cluster, node, dims):
            cluster = self._twin(node)
            dims = refreshed(cluster.frame) if cluster is not None else fresh(source)
            cluster = cluster or self._new(Cluster(dims))
        if not cluster.reduced:
            cluster.reduced = tuple(axis for d in over for axis in dims[d])
            cluster.frame = dims
        result = tuple(() if d in over else axes for d, axes in enumerate(dims) if keep or d not in over)
        cluster.add(node, result)
        self.owner[node] = cluster
        for part in node.users:
            if _is_part(part):
                cluster.dims[part] = result
                self.owner[part] = cluster

    def _twin(self, node: torch.fx.Node) -> Cluster | None:
        """The cluster that reduces the same tensor over the same dimensions already: both come out of one reading."""
        source = node_at(node.args[0])
        for other in source.users:
            if other is not node and other in self.owner and is_reduction(other) and other.args[0] is source:
                cluster = self.owner[other]
                same = reduced_dims(other)[0] == reduced_dims(node)[0]
                if same and cluster.dims_of(source) is None and cluster.frame_shape() == list(shape_of(source)):
                    return cluster
        return None

    def _reducible(self, cluster: Cluster, node: torch.fx.Node, dims: Dims) -> bool:
        over, _ = reduced_dims(node)
        axes = {axis for d in over for axis in dims[d]}
        if cluster.family is not None or set(flat(dims)) != set(cluster.axes) or not axes:
            return False
        if not cluster.reduced:
            trial = Cluster(dims, options=self.options)
            trial.reduced = tuple(axes)
            # The results of a wide reduction come from a second kernel, so that nothing else can be in the first.
            return not trial.is_wide or all(cluster.is_full(member) for member in cluster.members)
        if name_of(node) in ("argmax", "argmin", "max", "min"):  # places count in the order of the columns
            return tuple(axis for d in over for axis in dims[d]) == cluster.reduced
        # In a wide cluster every full value comes before the reductions, so that this one depends on none of them.
        return axes == set(cluster.reduced)

    def _joined(self, cluster: Cluster, node: torch.fx.Node) -> Dims | None:
        """Dims the element-wise node would have in the cluster; None when it cannot be there."""
        if cluster.whole or (cluster.family is not None and not self.options.fused):
            return None
        if any(self._depends(self.owner.get(base_of(table)), cluster) for table in _tables(node)):
            return None
        others = [other for n in tensor_inputs(node) if (other := self.owner.get(base_of(n))) not in (None, cluster)]
        if any(self._depends(other, cluster) for other in others):  # before views are looked at, which splits axes
            return None
        dims = self._broadcast(cluster, node)
        if dims is None:
            return None
        axes, full = set(flat(dims)), set(cluster.axes)
        if len(axes) != len(flat(dims)):  # x[:, None] - x[None, :] runs over pairs of places, not over places
            return None
        if axes != full and not (cluster.reduced and axes == set(cluster.kept)):
            return None
        if cluster.reduced and cluster.is_wide and axes == full:
            return None
        outside = [base_of(n) for n in tensor_inputs(node) if cluster.dims_of(n) is None and not is_constant(n)]
        if any(self._depends(self.owner.get(n), cluster) for n in outside):
            return None
        operands = {n for member in [*cluster.members, node] for n, _ in _outer(cluster, member)}
        return dims if len(operands) <= _MAX_OPERANDS else None

    def _broadcast(self, cluster: Cluster, node: torch.fx.Node) -> Dims | None:
        shape = shape_of(node)
        result: list[tuple[Axis, ...]] = [()] * len(shape)
        inputs = [n for n in tensor_inputs(node) if n not in _tables(node) and base_of(n) in cluster.dims]
        if not inputs or (gathers.is_gather(node) and name_of(node) not in ("slice_scatter", "select_scatter")):
            return None
        for n in inputs:
            dims = cluster.dims_of(n)
            if dims is None:
                return None
            for d, axes in enumerate(aligned(dims, len(shape))):
                if axes and result[d] and result[d] != axes:
                    return None
                result[d] = axes or result[d]
        frame = refreshed(cluster.frame)
        for d, size in enumerate(shape):
            if size != 1 and not result[d]:
                if list(shape) != cluster.frame_shape():
                    return None
                result[d] = frame[d]
        fits = list(shape) != cluster.frame_shape() or all(not a or a == b for a, b in zip(result, frame, strict=True))
        return tuple(result) if fits or not cluster.reduced else None

    def _absorb_small(self, cluster: Cluster, node: torch.fx.Node) -> None:
        """Element-wise operands of lower rank that nobody else wants are computed on the spot, not stored first."""
        for operand, dims in cluster.outside(node).values():
            other = self.owner.get(base_of(operand))
            if other is None or other is cluster or other.family is not None or other.reduced or other.whole:
                continue
            inner = other.dims_of(operand)
            users = {user for member in other.members for user in _readers(member) if user not in other.members}
            if sum(base_of(n) in other.dims for n in tensor_inputs(node)) > 1:  # i[:, None] - i[None, :]
                continue
            if inner is None or users != {node} or any(len(a) != len(b) for a, b in zip(inner, dims, strict=True)):
                continue
            moved = {a: b for old, new in zip(inner, dims, strict=True) for a, b in zip(old, new, strict=True)}
            if set(flat(refreshed(other.frame))) - set(moved) or any(a.size != b.size for a, b in moved.items()):
                continue
            self._move(other, cluster, node, moved)

    def _move(self, other: Cluster, cluster: Cluster, before: torch.fx.Node, moved: dict[Axis, Axis]) -> None:
        place = cluster.members.index(before)
        cluster.members[place:place] = other.members
        for member, dims in other.dims.items():
            cluster.dims[member] = tuple(tuple(moved[axis] for axis in axes) for axes in refreshed(dims))
            self.owner[member] = cluster
        self.clusters.remove(other)
        self.needs[cluster] |= self.needs.pop(other)
        self.needs[cluster].discard(other)

    def _producers(self, node: torch.fx.Node) -> list[Cluster]:
        """Clusters of the operands: those around a family's operator or a reduction first, then the latest."""
        found = [self.owner[base_of(n)] for n in tensor_inputs(node) if base_of(n) in self.owner]
        order = {cluster: number for number, cluster in enumerate(self.clusters)}
        return sorted(dict.fromkeys(found), key=lambda c: (c.family is None and not c.reduced, -order[c]))

    def _new(self, cluster: Cluster) -> Cluster:
        cluster.options = self.options
        self.clusters.append(cluster)
        self.needs[cluster] = set()
        return cluster

    def _note_needs(self, node: torch.fx.Node) -> None:
        cluster = self.owner[node]
        for n in tensor_inputs(node):
            other = self.owner.get(base_of(n))
            if other is not None and other is not cluster:
                self.needs[cluster].add(other)

    def _depends(self, cluster: Cluster | None, on: Cluster) -> bool:
        """Whether `cluster` is `on`, or needs it by any path."""
        todo, seen = ([cluster] if cluster is not None else []), set()
        while todo:
            current = todo.pop()
            if current is on:
                return True
            if current not in seen:
                seen.add(current)
                todo += self.needs[current]
        return False

    def _ordered(self) -> list[Cluster]:
        order: list[Cluster] = []
        state: dict[Cluster, bool] = {}
        place = {cluster: number for number, cluster in enumerate(self.clusters)}

        def visit(cluster: Cluster) -> None:
            if cluster in state:
                return
            state[cluster] = True
            for other in sorted(self.needs[cluster], key=place.__getitem__):
                visit(other)
            order.append(cluster)

        for cluster in self.clusters:
            visit(cluster)
        return order


def _is_part(node: torch.fx.Node) -> bool:
    """One of several results: `var_mean(x)[0]`."""
    return str(node.target) == "<built-in function getitem>" and not is_view(node)


def _tables(node: torch.fx.Node) -> list[torch.fx.Node]:
    return gathers.tables(node) if gathers.is_gather(node) else []


def _outer(cluster: Cluster, member: torch.fx.Node) -> list[tuple[torch.fx.Node, Dims]]:
    return [] if member not in cluster.dims or member is cluster.family else list(cluster.loads(member))


def _readers(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Nodes that use the value, through views."""
    found = []
    for user in node.users:
        found += _readers(user) if is_view(user) else [user]
    return found
