"""The emitted file: helpers, pieces, `TILES` and a `ModelNew` that calls the pieces in order."""

from __future__ import annotations

import operator
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from autotriton.propose.compiler.inductor.constructor import slice_constructor
from autotriton.propose.compiler.inductor.program import Unsupported
from autotriton.propose.compiler.templates import pointwise, reduction, views
from autotriton.propose.compiler.templates.attention_patterns import merge_attention
from autotriton.propose.compiler.templates.body import Operands
from autotriton.propose.compiler.templates.cluster import Cluster, fill_of, is_constant, is_reduction
from autotriton.propose.compiler.templates.epilogue import FusedEpilogue
from autotriton.propose.compiler.templates.export import Exported
from autotriton.propose.compiler.templates.expressions import literal, name_of
from autotriton.propose.compiler.templates.families import family_of
from autotriton.propose.compiler.templates.formula import formula
from autotriton.propose.compiler.templates.layout import call
from autotriton.propose.compiler.templates.names import Names, identifier
from autotriton.propose.compiler.templates.options import DEFAULT, Options
from autotriton.propose.compiler.templates.piece import Piece, Setting, Site, Written, node_at, shape_of
from autotriton.propose.compiler.templates.plain_tiles import steady
from autotriton.propose.compiler.templates.plan import Plan
from autotriton.propose.compiler.templates.scan_patterns import merge_scans
from autotriton.propose.compiler.templates.simplify import simplify
from autotriton.propose.compiler.templates.titles import title_of

NEW_NAME = "ModelNew"
_HEADER = '''"""Triton kernels for {title}.

Sizes are read from the tensors at every call, and parameters from the module. `TILES` holds what may be tuned.
"""
'''
_PLACEHOLDER = "piece_name"
_OPERATORS = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
}


@dataclass(frozen=True)
class Emitted:
    code: str
    choices: dict[str, tuple[Setting, ...]]


def emit(exported: Exported, source: str, entry: str, title: str, tf32: bool, options: Options = DEFAULT) -> Emitted:
    prepare(exported)
    return written(exported, source, entry, title, tf32, options)


def prepare(exported: Exported) -> None:
    """Brings the graph into the form files are written from, once."""
    merge_attention(exported.graph)
    merge_scans(exported.graph)
    simplify(exported)


def written(exported: Exported, source: str, entry: str, title: str, tf32: bool, options: Options = DEFAULT) -> Emitted:
    """One way to write a prepared graph; the graph stays as it is."""
    return _File(exported, tf32, options).emitted(source, entry, title)


class _File:
    def __init__(self, exported: Exported, tf32: bool, options: Options) -> None:
        self.exported, self.tf32, self.options = exported, tf32, options
        self.plan = Plan(exported.graph, options)
        titles = [title_of(cluster) for cluster in self.plan.clusters]
        functions = {f"{title}_{number}" for title in titles for number in range(1, titles.count(title) + 1)} | {
            *titles
        }
        taken = {"self", "device", *map(identifier, exported.inputs.values())}
        self.names = Names(exported.sources, taken | functions)
        self.pieces: dict[str, Piece] = {}
        """Text with its own name taken out -> the piece, so that equal layers share one."""
        self.taken: set[str] = set()
        self.statements: list[str] = []
        self.made: list[torch.fx.Node] = []
        """Results the statements so far have names for."""
        self.reading = self._reading()
        self.results = [*exported.outputs, *(node for _, node in exported.writes)]

    def emitted(self, source: str, entry: str, title: str) -> Emitted:
        for cluster in self.plan.clusters:
            self._cluster(cluster)
        if not self.pieces:
            raise Unsupported("nothing to compute: the outputs are the inputs or views of them")
        tuned = {piece.name: self._settings(piece) for piece in self.pieces.values() if piece.settings}
        constructor = slice_constructor(source, entry, NEW_NAME)
        helpers = list(dict.fromkeys(text for piece in self.pieces.values() for text in piece.helpers))
        texts = [piece.text for piece in self.pieces.values()]
        parts = [
            _HEADER.format(title=title) + "\n" + _imports(constructor.imports, "\n".join([*texts, *helpers])),
            *constructor.definitions,
            _tiles(tuned),
            *helpers,
            *texts,
            self._class(constructor.base, constructor.members),
        ]
        return Emitted("\n\n\n".join(part.strip("\n") for part in parts if part) + "\n", tuned)

    def _settings(self, piece: Piece) -> tuple[Setting, ...]:
        return (steady(piece.settings[0]),) if self.options.plain else piece.settings

    # --- clusters --------------------------------------------------------------------------------------------------

    def _cluster(self, cluster: Cluster) -> None:
        outputs = self._outputs(cluster)
        piece, arguments = (
            self._family(cluster, outputs) if cluster.family is not None else self._plain(cluster, outputs)
        )
        name = self._shared(piece, title_of(cluster))
        targets = [self.names.of(node) for node in (outputs if not cluster.whole else [node_at(cluster.family)])]
        self.statements.append(call(f"{', '.join(targets)} = {name}", [self._text(arg) for arg in arguments]))
        self.made += [node for node in outputs if isinstance(node.meta["val"], torch.Tensor)]

    def _plain(self, cluster: Cluster, outputs: list[torch.fx.Node]) -> tuple[Piece, Sequence[Any]]:
        operands = Operands(cluster, Names(self.exported.sources))
        if not operands.values:
            operands.witness(self._first_input())
        text = "; ".join(
            dict.fromkeys(formula(node, lambda n: n in cluster.dims, operands.names.of) for node in outputs)
        )
        render = reduction.render if any(is_reduction(member) for member in cluster.members) else pointwise.render
        piece = render(cluster, operands, outputs, _PLACEHOLDER, text[:200])
        return piece, piece.operands

    def _family(self, cluster: Cluster, outputs: list[torch.fx.Node]) -> tuple[Piece, Sequence[Any]]:
        node = cluster.family
        assert node is not None
        family = family_of(node)
        assert family is not None
        own = Names(self.exported.sources, _FAMILY_NAMES)
        if cluster.whole:
            piece = family.render(Site(node, _PLACEHOLDER, None, (), self.tf32, self.options))  # type: ignore[arg-type]
            return piece, piece.operands
        sizes = family.sizes(node)
        epilogue = FusedEpilogue(cluster, outputs, own, sizes, family_like(node))
        piece = family.render(Site(node, _PLACEHOLDER, epilogue, sizes, self.tf32, self.options))
        return piece, (*piece.operands, *epilogue.nodes)

    def _outputs(self, cluster: Cluster) -> list[torch.fx.Node]:
        if cluster.whole:
            return []
        found = []
        for node in cluster.dims:
            if isinstance(node.meta["val"], torch.Tensor) and (
                self._is_read_outside(node, cluster) or self._returned(node)
            ):
                found.append(node)
        return found

    def _returned(self, node: torch.fx.Node) -> bool:
        return any(views.base_of(result) is node for result in self.results)

    def _is_read_outside(self, node: torch.fx.Node, cluster: Cluster) -> bool:
        for user in node.users:
            if user.op == "output":
                continue
            if views.is_view(user):
                if self._is_read_outside(user, cluster):
                    return True
            elif (
                user not in cluster.dims
                or cluster.dims_of(views.base_of(node)) is None
                or (node is not views.base_of(node) and cluster.dims_of(node) is None)
            ):
                return True
        return False

    def _shared(self, piece: Piece, title: str) -> str:
        """The name of an equal piece that exists already, or of this one from now on."""
        key = f"{piece.text}{self._settings(piece)}"
        if key not in self.pieces:
            name, number = title, 1
            while name in self.taken:
                number += 1
                name = f"{title}_{number}"
            self.taken.add(name)
            text = re.sub(rf"\b{_PLACEHOLDER}(?=_|\b)", name, piece.text)
            text = re.sub(rf"{_PLACEHOLDER}(?=\W|_)", name, text)
            self.pieces[key] = Piece(name, text, piece.operands, piece.settings, piece.helpers)
        return self.pieces[key].name

    # --- forward ---------------------------------------------------------------------------------------------------

    def _text(self, value: Any) -> str:
        if isinstance(value, Written):
            return value.text
        if isinstance(value, list | tuple):
            return f"[{', '.join(self._text(item) for item in value)}]"
        if isinstance(value, torch.SymInt | torch.SymFloat):
            return self._symbol(value)
        if not isinstance(value, torch.fx.Node):
            return literal(value)
        if value.op == "placeholder":
            return self.names.given.get(value) or self.exported.sources[value.name]
        if views.is_view(value) and value in self.names.given:
            return self.names.given[value]
        if views.is_view(value):
            source = self._text(value.args[0])
            if name_of(value) in ("view", "reshape", "_unsafe_view") and not source.isidentifier():
                source = self._held(node_at(value.args[0]), source)
            return views.expression(value, source, self._text, self._like(value))
        if is_constant(value):
            tensor = value.meta["val"]
            shape = self._text(value.args[0] if name_of(value) in ("full", "zeros", "ones") else list(tensor.shape))
            return f"torch.full({shape}, {literal(fill_of(value))}, dtype={tensor.dtype}, device=device)"
        if isinstance(value.meta.get("val"), torch.Tensor | tuple | list):
            if value.target is operator.getitem and self.plan.owner[whole := node_at(value.args[0])].whole:
                return f"{self.names.of(whole)}[{value.args[1]}]"
            return self.names.of(value)
        return self._number(value)

    def _like(self, node: torch.fx.Node) -> str:
        """An input, or a result that is there by now, with the shape of this view, so that it can be read off it."""
        shape = shape_of(node) if isinstance(node.meta["val"], torch.Tensor) else ()
        for other in self.exported.graph.nodes if len(shape) > 1 else ():
            if other.op == "placeholder" and other.name in self.exported.inputs and shape_of(other) == shape:
                return self.names.given.get(other, self.exported.inputs[other.name])
        sizes = [str(size) for size in node.meta["val"].shape] if len(shape) > 1 else []
        for other in self.made if sizes else ():
            if [str(size) for size in other.meta["val"].shape] == sizes:
                return self.names.of(other)
        return ""

    def _held(self, node: torch.fx.Node, text: str) -> str:
        """A view under a name of its own, because its shape is read."""
        if node not in self.names.given:
            self.statements.append(f"{self.names.of(node)} = {text}")
        return self.names.given[node]

    def _number(self, node: torch.fx.Node) -> str:
        """A size that is known at run time only."""
        name = name_of(node)
        args = [self._text(arg) for arg in node.args]
        if name == "sym_size":
            return f"{args[0]}.shape[{args[1]}]"
        if name == "sym_numel":
            return f"{args[0]}.numel()"
        if node.target in _OPERATORS:
            return f"({args[0]} {_OPERATORS[node.target]} {args[1]})"
        if str(node.target) in ("<class 'float'>", "sym_float") or name == "sym_float":
            return f"float({args[0]})"
        raise Unsupported(f"the size {node.target} cannot be written out")

    def _symbol(self, value: Any) -> str:
        """A symbolic size that no operator of the graph computes: its symbols are read off the inputs."""
        known: dict[str, str] = {}
        for node in self.exported.graph.nodes:
            if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
                known |= {str(size): f"{self._text(node)}.shape[{d}]" for d, size in enumerate(node.meta["val"].shape)}
        text = re.sub(r"\b[su]\d+\b", lambda found: known.get(found[0], found[0]), str(value))
        if re.search(r"\b[su]\d+\b", text):
            raise Unsupported(f"the size {value} cannot be read off the inputs")
        return f"({text})" if " " in text else text

    def _class(self, base: str, members: Sequence[str]) -> str:
        last = [*self._writing(), f"return {self._returned_text()}"]  # first, for it may add statements
        forward = [*self.reading, *self.statements, *last]
        if any("device=device" in line for line in forward):
            forward.insert(0, f"device = {self.exported.inputs[self._first_input().name]}.device")
        signature = ", ".join(filter(None, ("self", self.exported.signature)))
        method = f"    def forward({signature}):\n" + textwrap.indent("\n".join(forward), "        ")
        inner = [textwrap.indent(member, "    ") for member in members]
        return "\n\n".join([f"class {NEW_NAME}({base}):", *inner, method]).replace(":\n\n", ":\n", 1)

    def _first_input(self) -> torch.fx.Node:
        """A tensor that is always there, for its device."""
        tensors = self.exported.inputs.keys() - self.exported.numbers.keys()
        return next(node_at(node) for node in self.exported.graph.nodes if node.name in tensors)

    def _reading(self) -> list[str]:
        """Inputs as the kernels expect them; what was fixed is checked."""
        lines = []
        for expression, text in self.exported.fixed.items():
            told = f"{expression}: the kernels are for {text}, got "
            lines.append(f"if {expression} != {text}:\n    raise ValueError({told!r} + repr({expression}))")
        written = {target for target, _ in self.exported.writes}
        for node in self.exported.graph.nodes:
            if node.op == "placeholder" and node.name in self.exported.inputs and node.users:
                expression = self.exported.inputs[node.name]
                value = node.meta["val"]
                name = expression if expression.isidentifier() else self.names.unique(identifier(expression))
                if node.name in self.exported.numbers:
                    self.names.given[node] = name
                    kind = self.exported.numbers[node.name]
                    lines.append(f"{name} = torch.full((), {expression}, dtype={kind}, device=device)")
                elif value.dim() and value.is_contiguous() and expression not in written:
                    self.names.given[node] = name
                    lines.append(f"{name} = {expression}.contiguous()")
        return lines

    def _writing(self) -> list[str]:
        return [f"{target}.copy_({self._text(node)})" for target, node in self.exported.writes]

    def _returned_text(self) -> str:
        texts = [self._text(node) for node in self.exported.outputs]
        return re.sub(r"_out(\d+)", lambda found: texts[int(found[1])], self.exported.returned)


_FAMILY_NAMES = {
    "x",
    "weight",
    "bias",
    "M",
    "N",
    "K",
    "acc",
    "a",
    "b",
    "q",
    "k",
    "v",
    "query",
    "key",
    "value",
    "left",
    "right",
}


def family_like(node: torch.fx.Node) -> str:
    """The wrapper parameter whose type and device outputs take: every family calls its first tensor by this name."""
    family = family_of(node)
    return str(getattr(family, "first", "x"))


def _imports(wanted: Sequence[str], text: str) -> str:
    lines = {"import torch", "import triton", "import triton.language as tl", *wanted}
    if "libdevice." in text:
        lines.add("from triton.language.extra import libdevice")
    future = sorted(line for line in lines if "__future__" in line)
    return "\n".join([*future, *sorted(line for line in lines if "__future__" not in line)])


def _tiles(settings: dict[str, tuple[Setting, ...]]) -> str:
    lines = [f"    {name!r}: {first[0]!r},".replace("'", '"') for name, first in settings.items()]
    return "TILES = {\n" + "\n".join(lines) + "\n}" if lines else ""
