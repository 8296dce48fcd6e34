"""The text of a program: a module or a function, in one author's style.

Must stay true: text depends on the program, the style and the generator only, never on hashes or set order.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

from autotriton.data.synth.builder import Builder, Given, Step, token
from autotriton.data.synth.draws import drawn
from autotriton.data.synth.naming import Names, size_names
from autotriton.data.synth.style import Style
from autotriton.data.synth.values import LayerArgument, Op, Value
from autotriton.data.synth.wording import describe, function_name

_TOKEN = re.compile("\x01(\\d+)\x02")
_CONSTANT = re.compile("\x04(\\w+)=([^\x05]*)\x05")
_DIMENSION = re.compile("\x06(-?\\d+)\x07")
_WIDTH = 110
_ALONG = ("reduction", "softmax", "scan", "norm", "sorting")
"""Families of which a module is told its dimension."""
HELPER = Op("helper", "pointwise", lambda builder, op, operands: None)
SEQUENCE = Op("sequence", "view", lambda builder, op, operands: None, noun="out")


@dataclass(frozen=True)
class Text:
    source: str
    entry: str


@dataclass
class Writer:
    """Collects what the parts of the file need of each other."""

    builder: Builder
    style: Style
    rng: random.Random
    names: Names
    spoken: dict[int, str] = field(default_factory=dict)
    """Value -> its name, or the expression written in its place."""
    constants: dict[str, object] = field(default_factory=dict)
    """Module-level names and their values, in order."""
    arguments: dict[str, object] = field(default_factory=dict)
    """Constructor arguments."""
    defaults: dict[str, object] = field(default_factory=dict)
    """Those of them that need not be given."""
    setup: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)

    @property
    def module(self) -> bool:
        return self.builder.module


def render(builder: Builder, style: Style, rng: random.Random) -> Text:
    steps, givens = pruned(builder)
    writer = Writer(builder, style, rng, Names(rng))
    inputs = [given for given in givens if not given.learned]
    for given in inputs:
        writer.spoken[given.value.id] = writer.names.given(given.value.role)
    called = [writer.spoken[given.value.id] for given in inputs]
    if style.helpers:
        steps = _with_helper(writer, steps)
    if style.sequential and builder.module:
        steps = _with_sequences(writer, steps)
    uses = _uses(steps, builder.results)
    _learned(writer, [given for given in givens if given.learned])
    _write_steps(writer, steps, uses)
    entry = "Model" if builder.module else writer.names.fresh(function_name(builder))
    definition = _class(writer, called) if builder.module else _function(writer, entry, called)
    makers = _makers(writer, inputs)
    return Text(_assembled(writer, definition, makers), entry)


def pruned(builder: Builder) -> tuple[list[Step], list[Given]]:
    """Only what the results need."""
    needed = {value.id for value in builder.results}
    kept: list[Step] = []
    for step in reversed(builder.steps):
        if any(out.id in needed for out in step.outs):
            kept.append(step)
            needed |= {value.id for value in step.operands}
    return kept[::-1], [given for given in builder.givens if given.value.id in needed]


def _uses(steps: list[Step], results: tuple[Value, ...]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for text in [*(step.text for step in steps), *(token(value) for value in results)]:
        for found in _TOKEN.findall(text):
            counts[int(found)] = counts.get(int(found), 0) + 1
    return counts


# --- helper functions -------------------------------------------------------------------------------------


def _with_helper(writer: Writer, steps: list[Step]) -> list[Step]:
    """A run of element-wise steps becomes a function of its own."""
    run = _run(writer, steps)
    if len(run) < 2:
        return steps
    start, end = run[0], run[-1]
    inside = steps[start : end + 1]
    name = writer.names.fresh(
        writer.rng.choice(("activation", "epilogue", "transform", "post_process", "fused_pointwise", "apply_chain"))
    )
    parameter, lines = "x", []
    spoken = {inside[0].operands[0].id: parameter}
    for step in inside:
        text = _filled(_literal(step.text), spoken)
        last = step is inside[-1]
        lines.append(f"    return {text}" if last else f"    {parameter} = {text}")
        spoken = {step.outs[0].id: parameter}
    doc = f'    """{describe([step.op for step in inside])}"""\n' if writer.style.docstrings == "both" else ""
    writer.helpers.append(f"def {name}({parameter}):\n{doc}" + "\n".join(lines))
    call = Step(HELPER, inside[0].operands[:1], inside[-1].outs, f"{name}({token(inside[0].operands[0])})")
    return [*steps[:start], call, *steps[end + 1 :]]


def _run(writer: Writer, steps: list[Step]) -> list[int]:
    """The longest run of steps that each take only what the one before gave."""
    uses = _uses(steps, writer.builder.results)
    best: list[int] = []
    current: list[int] = []
    for place, step in enumerate(steps):
        plain = (
            step.layer is None
            and len(step.operands) == 1
            and len(step.outs) == 1
            and step.op.family in ("pointwise", "norm", "softmax")
        )
        linked = current and steps[current[-1]].outs[0].id == step.operands[0].id
        alone = linked and uses.get(steps[current[-1]].outs[0].id, 0) == len(_TOKEN.findall(step.text))
        if plain and (not current or (linked and alone)):
            current.append(place)
        else:
            current = [place] if plain else []
        if len(current) > len(best):
            best = list(current)
    return best


def _with_sequences(writer: Writer, steps: list[Step]) -> list[Step]:
    """Layers of which each takes only what the one before gave become one call."""
    uses = _uses(steps, writer.builder.results)
    found: list[Step] = []
    run: list[Step] = []

    def close() -> None:
        nonlocal run
        if len(run) > 1:
            first, last = run[0].operands[:1], run[-1].outs
            found.append(Step(SEQUENCE, first, last, f"\x03({token(first[0])})", inner=tuple(run)))
        else:
            found.extend(run)
        run = []

    for step in steps:
        plain = step.layer is not None and len(step.outs) == 1 and step.text == f"\x03({token(step.operands[0])})"
        linked = plain and bool(run) and run[-1].outs[0].id == step.operands[0].id
        if not (linked and uses[step.operands[0].id] == 1):
            close()
        (run if plain else found).append(step)
    close()
    return found


# --- statements -------------------------------------------------------------------------------------------


def _write_steps(writer: Writer, steps: list[Step], uses: dict[int, int]) -> None:
    remaining = dict(uses)
    for place, step in enumerate(steps):
        text = _constants(writer, step, step.text)
        if step.layer is not None or step.inner:
            attribute = _sequence(writer, step) if step.inner else _layer(writer, step)
            text = text.replace("\x03", f"self.{attribute}")
        expression = _filled(text, writer.spoken)
        for found in _TOKEN.findall(step.text):
            remaining[int(found)] -= 1
        out = step.outs[0]
        last = place == len(steps) - 1
        single = len(step.outs) == 1 and uses.get(out.id, 0) == 1
        if single and len(expression) < _WIDTH // 2 and not last and writer.rng.random() < writer.style.nested:
            writer.spoken[out.id] = expression
            continue
        if last and len(step.outs) == 1 and writer.builder.results == step.outs and not writer.style.return_variable:
            writer.body.append(f"return {expression}")
            return
        names = [_variable(writer, step, value, remaining) for value in step.outs]
        for value, name in zip(step.outs, names, strict=True):
            writer.spoken[value.id] = name
        writer.body.append(f"{', '.join(names)} = {expression}")
    results = [writer.spoken[value.id] for value in writer.builder.results]
    writer.body.append(f"return {', '.join(results)}")


def _variable(writer: Writer, step: Step, value: Value, remaining: dict[int, int]) -> str:
    style, names = writer.style, writer.names
    dead = [operand for operand in step.operands if remaining.get(operand.id, 0) == 0]
    reusable = [writer.spoken.get(operand.id, "") for operand in dead]
    plain = [name for name in reusable if name.isidentifier() and not _still_spoken(writer, name, remaining)]
    if style.variables == "same" and plain and len(step.outs) == 1:
        return plain[0]
    wanted = {"numbered": "t", "short": writer.rng.choice(("h", "y", "z", "out", "u"))}.get(
        style.variables, step.op.noun or "out"
    )
    return names.fresh(wanted)


def _still_spoken(writer: Writer, name: str, remaining: dict[int, int]) -> bool:
    """Some value still to be used is written with this name: as it, or inside an expression."""
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    return any(remaining.get(number, 0) > 0 and word.search(text) for number, text in writer.spoken.items())


def _filled(text: str, spoken: dict[int, str]) -> str:
    """Operands written in, with brackets where they are needed."""

    def one(match: re.Match[str]) -> str:
        inner = spoken[int(match[1])]
        before, after = text[: match.start()].rstrip(), text[match.end() :].lstrip()
        argument = (not before or before[-1] in "(,[") and (not after or after[0] in "),]")
        return inner if argument or _atomic(inner) else f"({inner})"

    return _TOKEN.sub(one, text)


def _atomic(text: str) -> bool:
    depth = 0
    for character in text:
        depth += character in "([{"
        if depth == 0 and not (character.isalnum() or character in "._"):
            return False
        depth -= character in ")]}"
    return True


# --- constants, layers, parameters ------------------------------------------------------------------------


def _literal(text: str) -> str:
    return _literal_dimensions(_CONSTANT.sub(lambda match: match[2], text))


def _literal_dimensions(text: str) -> str:
    return _DIMENSION.sub(lambda match: match[1], text)


def _dimensions(writer: Writer, step: Step, text: str) -> str:
    """The dimension a module works along is often the only thing it is told."""

    def one(match: re.Match[str]) -> str:
        if step.op.family not in _ALONG or writer.rng.random() < 0.3:
            return match[1]
        name = _hyper(writer, "dim", int(match[1]))
        if (line := f"self.{name} = {name}") not in writer.setup:
            writer.setup.append(line)
        return f"self.{name}"

    return _DIMENSION.sub(one, text) if writer.style.configured and writer.module else text


def _constants(writer: Writer, step: Step, text: str) -> str:
    text = _literal_dimensions(_dimensions(writer, step, text))
    if not writer.style.named_scalars:
        return _literal(text)

    def one(match: re.Match[str]) -> str:
        name = writer.names.constant(step.op.name, match[1])
        if not writer.module:
            writer.constants[name.upper()] = float(match[2])
            return name.upper()
        writer.setup.append(f"self.{name} = {_hyper(writer, name, float(match[2]), renamed=True)}")
        return f"self.{name}"

    return _CONSTANT.sub(one, text)


def _hyper(writer: Writer, name: str, value: object, *, renamed: bool = False) -> str:
    """The value as the constructor writes it: an argument's name, or the literal."""
    if not writer.style.hyper or isinstance(value, str) or (isinstance(value, bool) and not writer.style.configured):
        return repr(value)
    known = writer.arguments.get(name, value)
    if known != value or (renamed and name in writer.arguments):
        number = 2
        while writer.arguments.get(f"{name}_{number}", value) != value:
            number += 1
        name = f"{name}_{number}"
    writer.arguments[name] = value
    return name


def _layer(writer: Writer, step: Step) -> str:
    assert step.op.layer is not None
    attribute = writer.names.layer(step.op.layer)
    writer.setup.append(f"self.{attribute} = {_constructed(writer, step)}")
    return attribute


def _sequence(writer: Writer, step: Step) -> str:
    """At once, or gathered in a list first, as networks of a given depth are."""
    attribute = writer.names.fresh(writer.rng.choice(("net", "network", "layers", "model", "block", "features", "seq")))
    layers = [_constructed(writer, each) for each in step.inner]
    if writer.rng.random() < 0.35:
        appended = [f"modules.append({layer})" for layer in layers]
        writer.setup += ["modules = []", *appended, f"self.{attribute} = nn.Sequential(*modules)"]
    else:
        writer.setup += [f"self.{attribute} = nn.Sequential(", *(f"    {layer}," for layer in layers), ")"]
    return attribute


def _constructed(writer: Writer, step: Step) -> str:
    """The call that makes a layer."""
    assert step.layer is not None
    parts = []
    configured = writer.style.configured
    for argument, usual in _settings(writer, step) if configured else [(argument, None) for argument in step.layer]:
        text = _hyper(writer, argument.hyper, argument.value)
        if configured and argument.key and text in writer.arguments and writer.rng.random() < 0.8:
            _default(writer, text, argument.value if usual is None else usual)
        square = isinstance(argument.value, int) and argument.hyper == "kernel_size" and "Conv" in str(step.op.layer)
        if configured and square and str(step.op.layer).endswith(("2d", "3d")) and writer.rng.random() < 0.3:
            text = f"({', '.join([text] * int(str(step.op.layer)[-2]))})"
        parts.append(f"{argument.key}={text}" if argument.key else text)
    return f"{step.op.layer}({', '.join(parts)})"


_PLACED = (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1), ("bias", True))
_USUAL: dict[str, tuple[tuple[str, Any], ...]] = {
    "nn.ConvTranspose": (*_PLACED[:2], ("output_padding", 0), *_PLACED[2:]),
    "nn.Conv": _PLACED,
    "nn.Linear": (("bias", True),),
    "nn.MaxPool": (("stride", None), ("padding", 0), ("dilation", 1)),
    "nn.AvgPool": (("stride", None), ("padding", 0)),
    "nn.BatchNorm": (("eps", 1e-5),),
    "nn.GroupNorm": (("eps", 1e-5),),
    "nn.LayerNorm": (("eps", 1e-5),),
    "nn.InstanceNorm": (("eps", 1e-5),),
}  # fmt: skip
"""What layers may be told and mostly are not; None: the kernel's size."""


def _settings(writer: Writer, step: Step) -> list[tuple[LayerArgument, Any]]:
    """A layer's arguments and their usual values, many of those among them that it could do without."""
    assert step.layer is not None
    kind = next((kind for kind in _USUAL if str(step.op.layer).startswith(kind)), "")
    kernel = next((argument.value for argument in step.layer if argument.hyper == "kernel_size"), None)
    usual = {key: kernel if value is None else value for key, value in _USUAL.get(kind, ())}
    given = {argument.key for argument in step.layer}
    missing = [key for key in usual if key not in given and writer.rng.random() < 0.65]
    found = [(argument, usual.get(argument.key or "")) for argument in step.layer]
    return found + [(LayerArgument(usual[key], key, key), usual[key]) for key in missing]


def _default(writer: Writer, name: str, usual: Any) -> None:
    """What stands in the signature: the usual value, or what this module is made with."""
    value = writer.arguments[name]
    writer.defaults.setdefault(name, usual if writer.rng.random() < 0.5 else value)


def _learned(writer: Writer, givens: list[Given]) -> None:
    for given in givens:
        name = writer.names.fresh(given.value.role)
        writer.spoken[given.value.id] = f"self.{name}"
        shape = given.value.shape
        # Shapes of parameters are passed as one tuple, as KernelBench-style tasks do.
        text = (
            _hyper(writer, f"{name}_shape", shape, renamed=True)
            if len(shape) > 1 and writer.rng.random() < 0.6
            else repr(shape)
        )
        size = f"({text})" if text.startswith("(") else text
        size = text if text.startswith("(") else size
        if given.value.domain == "pos":
            made = (
                f"torch.rand({size}) * {given.scale:.3g} + 0.1" if given.scale != 1.0 else f"torch.rand({size}) + 0.5"
            )
        else:
            made = f"torch.randn({size})" if given.scale == 1.0 else f"torch.randn({size}) * {given.scale:.3g}"
        writer.setup.append(f"self.{name} = nn.Parameter({made})")


# --- the file ---------------------------------------------------------------------------------------------


def _class(writer: Writer, called: list[str]) -> str:
    style, builder = writer.style, writer.builder
    ops = [step.op for step in pruned(builder)[0]]
    lines = ["class Model(nn.Module):"]
    if style.docstrings in ("class", "both"):
        lines += ['    """', f"    {describe(ops)}", '    """', ""]
    setup = list(writer.setup)
    if builder.dtype != "float32" and setup:
        setup.append(f"self.to(torch.{builder.dtype})")
    parent = "super(Model, self).__init__()" if style.old_super else "super().__init__()"
    if setup or writer.rng.random() < 0.5:
        told = [_parameter(writer, name) for name in _in_order(writer)]
        head = f"    def __init__({', '.join(['self', *told])}):"
        if style.configured and len(head) > _WIDTH + 10:
            head = "\n".join(["    def __init__(", *(f"        {one}," for one in ("self", *told)), "    ):"])
        lines.append(head)
        lines += [f"        {line}" for line in (parent, *setup)] + [""]
    hint = (": torch.Tensor", " -> torch.Tensor" if len(builder.results) == 1 else "") if style.hints else ("", "")
    told = [f"{name}{hint[0]}" for name in called]
    lines.append(f"    def forward({', '.join(['self', *told])}){hint[1]}:")
    if style.docstrings == "both":
        lines += ['        """', f"        Args: {', '.join(called)}.", '        """']
    return "\n".join([*lines, *(f"        {line}" for line in writer.body)])


def _function(writer: Writer, entry: str, called: list[str]) -> str:
    style = writer.style
    hint = ": torch.Tensor" if style.hints else ""
    lines = [f"def {entry}({', '.join(f'{name}{hint}' for name in called)}):"]
    if style.docstrings in ("class", "both"):
        lines.append(f'    """{describe([step.op for step in pruned(writer.builder)[0]])}"""')
    return "\n".join([*lines, *(f"    {line}" for line in writer.body)])


def _in_order(writer: Writer) -> list[str]:
    """Constructor arguments: those with a default come last."""
    return sorted(writer.arguments, key=lambda name: name in writer.defaults)


def _parameter(writer: Writer, name: str) -> str:
    text = f"{name}: {_hint(writer.arguments[name])}" if writer.style.hints else name
    if name not in writer.defaults:
        return text
    return f"{text} = {writer.defaults[name]!r}" if writer.style.hints else f"{text}={writer.defaults[name]!r}"


def _given(writer: Writer) -> list[str]:
    """Arguments a caller gives: up to the last that is not as it would be anyway, now and then all."""
    names = _in_order(writer)
    if writer.defaults and writer.rng.random() < 0.85:
        while names and names[-1] in writer.defaults and writer.defaults[names[-1]] == writer.arguments[names[-1]]:
            names.pop()
    return names


def _hint(value: object) -> str:
    return "tuple" if isinstance(value, tuple) else type(value).__name__


def _makers(writer: Writer, inputs: list[Given]) -> str:
    """get_inputs, and get_init_inputs for modules."""
    style, rng = writer.style, writer.rng
    lines = ["def get_inputs():"]
    roles = tuple(writer.arguments)
    values = []
    for place, given in enumerate(inputs):
        shape = _shape_text(writer, given.value, roles if place == 0 else ())
        values.append(drawn(rng, given, shape))
    if len(values) == 1 or sum(map(len, values)) < _WIDTH - 20:
        if len(values) == 1 and rng.random() < 0.3:
            name = writer.spoken[inputs[0].value.id]
            name = name if name.isidentifier() else "x"
            lines += [f"    {name} = {values[0]}", f"    return [{name}]"]
        else:
            lines.append(f"    return [{', '.join(values)}]")
    else:
        lines += ["    return [", *(f"        {value}," for value in values), "    ]"]
    if not writer.module:
        return "\n".join(lines)
    given_names = []
    for name in _given(writer):
        value = writer.arguments[name]
        spelled = name.upper() if style.constants == "caps" else name
        # A size above may already have the name with another value: then the number itself is given.
        if style.constants == "literal" or writer.constants.get(spelled, value) != value:
            given_names.append(repr(value))
        else:
            writer.constants.setdefault(spelled, value)
            given_names.append(spelled)
    return "\n".join([*lines, "", "", "def get_init_inputs():", f"    return [{', '.join(given_names)}]"])


def _shape_text(writer: Writer, value: Value, roles: tuple[str, ...]) -> str:
    names = size_names(writer.rng, value.rank, roles) if writer.style.constants != "literal" else ()
    parts = []
    for axis, size in enumerate(value.shape):
        name = names[axis] if axis < len(names) else ""
        name = name.upper() if writer.style.constants == "caps" else name
        taken = name in writer.names.taken
        known = writer.constants.get(name, writer.arguments.get(name, size))
        if not name or known != size or (taken and name not in writer.constants):
            parts.append(str(size))
        else:
            writer.constants.setdefault(name, size)
            parts.append(name)
    return ", ".join(parts)


def _assembled(writer: Writer, definition: str, makers: str) -> str:
    style = writer.style
    constants = "\n".join(f"{name} = {value!r}" for name, value in writer.constants.items())
    body = "\n\n\n".join([*writer.helpers, definition])
    code = "\n".join((body, makers, constants))
    imports = ["import torch"]
    if "nn." in code:
        imports.append("import torch.nn as nn" if writer.rng.random() < 0.8 else "from torch import nn")
    if re.search(r"\bF\.", code):
        imports.append("import torch.nn.functional as F")
    if "math." in code:
        imports.insert(0, "import math")
    ops = [step.op for step in pruned(writer.builder)[0]]
    module_doc = f'"""{describe(ops)}"""\n\n' if style.docstrings == "module" else ""
    first = writer.constants and (style.constants_first or not writer.module)
    blocks = [
        module_doc + "\n".join(imports),
        *([constants] if first else []),
        body,
        *([constants] if constants and not first else []),
        makers,
    ]
    text = "\n\n\n".join(blocks)
    return (text.replace("'", '"') if style.quotes == '"' and '"""' not in text else text) + "\n"
