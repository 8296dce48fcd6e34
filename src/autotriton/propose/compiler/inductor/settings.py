"""What may be tuned in a kernel: its entry in `TILES`, further settings to try, and the grid as a formula over them.

Pure text and trees. A kernel from Inductor's heuristics brings settings and a formula. A template has its tile sizes
written into its body and a grid of plain numbers: where its kind is recognised, and the kind's formula gives those very
numbers, the sizes become parameters; else they stay as they are and only warps and stages are tuned.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotriton.propose.compiler.inductor.kernels import Kernel, drop_unread
from autotriton.propose.compiler.inductor.record import Launch
from autotriton.syntax import parse_expression, parse_source

Value = int | str | bool
Setting = dict[str, Value]

PRECISION = "PRECISION"
_PRECISIONS = {"ieee": ("bf16x6", "ieee", "tf32x3"), "tf32": ("tf32", "tf32x3")}
"""What a dot of fp32 numbers may be computed with, best guess first. Without leave to use TF32 only what is as accurate
as fp32: six products of bf16 parts measured 1.5 times as fast as IEEE arithmetic, with a fifth of its error."""
_PRECISION_NAMES = ("FLOAT32_PRECISION", PRECISION)
_MOST = 14
_TILES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
_FP32 = (
    (128, 128, 32, 8, 3),
    (128, 64, 32, 4, 3),
    (64, 128, 32, 4, 3),
    (64, 64, 32, 4, 4),
    (64, 64, 64, 4, 3),
    (32, 128, 32, 4, 4),
    (32, 64, 32, 4, 4),
    (32, 32, 32, 4, 4),
    (16, 64, 64, 4, 3),
)
_HALF = (
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (32, 64, 128, 4, 4),
    (32, 32, 128, 4, 4),
    (16, 64, 128, 4, 4),
)
_FLASH_TILES = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
_FLASH = (
    (128, 64, 4, 3),
    (64, 64, 4, 3),
    (128, 32, 4, 3),
    (64, 32, 4, 3),
    (128, 64, 8, 3),
    (32, 32, 4, 2),
    (128, 128, 8, 2),
)


@dataclass
class Settings:
    own: Setting
    choices: tuple[Setting, ...] = ()
    """Others to try."""
    grid: tuple[str, ...] = ("1",)
    """Source, with the names of settings in it."""
    prefix: tuple[str, ...] = ()
    """Statements before it."""
    lifted: tuple[str, ...] = field(default=())
    """Constants of the kernel's body that became parameters."""


def settle(kernel: Kernel, launch: Launch, known: Mapping[str, int]) -> Settings:
    """The kernel's settings; constants of templates are lifted out of its functions. `known`: the call's numbers."""
    own: Setting = {**launch.config, "num_warps": launch.num_warps, "num_stages": launch.num_stages}
    grid, prefix = formulas(launch, known)
    plain = Settings(own, launch.alternatives, grid, prefix)
    if launch.config or prefix:
        return plain
    return _template(kernel, launch, plain)


def formulas(launch: Launch, known: Mapping[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Grid and the statements before it, with the call's numbers in them."""
    names = [name for name in launch.config if isinstance(launch.config[name], int)]
    grid = _trimmed([_formula(text, known, names) for text in launch.grid])
    return grid, tuple(_statement(line, known, names) for line in launch.prefix)


# --- formulas ---------------------------------------------------------------------------------------------


class _Formula(ast.NodeTransformer):
    """Numbers put in, settings read from `tiles`, and `-(a // -b)` written as the rounded up division it is."""

    def __init__(self, known: Mapping[str, int], settings: list[str]) -> None:
        self.known, self.settings = known, settings

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.settings:
            return parse_expression(f'tiles["{node.id}"]')
        return ast.Constant(self.known[node.id]) if node.id in self.known else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        division = node.operand
        if isinstance(node.op, ast.USub) and isinstance(division, ast.BinOp) and isinstance(division.op, ast.FloorDiv):
            below = division.right
            if isinstance(below, ast.UnaryOp) and isinstance(below.op, ast.USub):
                return ast.Call(parse_expression("triton.cdiv"), [division.left, below.operand], [])
        return node


def _formula(text: str, known: Mapping[str, int], settings: list[str]) -> str:
    tree = _Formula(known, settings).visit(parse_expression(text))
    plain = ast.unparse(ast.fix_missing_locations(tree))
    numbers_only = not any(isinstance(node, ast.Name | ast.Subscript) for node in ast.walk(tree))
    return str(eval(plain, {"__builtins__": {}})) if numbers_only else plain.replace("'", '"')


def _statement(line: str, known: Mapping[str, int], settings: list[str]) -> str:
    tree = parse_source(line)
    return ast.unparse(ast.fix_missing_locations(_Formula(known, settings).visit(tree))).replace("'", '"')


def _trimmed(grid: list[str]) -> tuple[str, ...]:
    """Trailing ones are left out."""
    while len(grid) > 1 and grid[-1] == "1":
        grid.pop()
    return tuple(grid)


# --- templates --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """A template whose grid follows from its sizes."""

    sizes: tuple[str, ...]
    """Constants it has; what tells it from the others."""
    tiles: tuple[str, ...]
    grid: tuple[str, str, str]
    """Over sizes, tiles, and `y`, `z` for numbers taken as they are."""
    emitted: tuple[str, str, str] | None = None
    """What is launched instead, where Inductor's grid has programs with nothing to do."""


_KINDS = (
    _Kind(
        ("BATCH", "OUT_C", "OUT_D", "OUT_H", "OUT_W"),
        ("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        ("-(BATCH * OUT_D * OUT_H * OUT_W // -BLOCK_M)", "-(OUT_C // -BLOCK_N)", "z"),
        ("-(BATCH * OUT_D * OUT_H * OUT_W // -BLOCK_M)", "-(OUT_C // z // -BLOCK_N)", "z"),
    ),
    _Kind(
        ("BATCH", "OUT_C", "OUT_H", "OUT_W"),
        ("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        ("-(BATCH * OUT_H * OUT_W // -BLOCK_M)", "-(OUT_C // -BLOCK_N)", "z"),
        ("-(BATCH * OUT_H * OUT_W // -BLOCK_M)", "-(OUT_C // z // -BLOCK_N)", "z"),
    ),
    _Kind(("Q_LEN", "KV_LEN"), ("BLOCK_M", "BLOCK_N"), ("-(Q_LEN // -BLOCK_M)", "y", "z")),
    _Kind(
        ("M", "N", "K"), ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"), ("-(M // -BLOCK_M) * -(N // -BLOCK_N)", "y", "z")
    ),
)


def _template(kernel: Kernel, launch: Launch, plain: Settings) -> Settings:
    # Numbers are read where they were set, whether or not the kernel still needs their names.
    found = {name: value for name, value in kernel.constants.items() if isinstance(value, int)}
    numbers = [int(eval(text, {"__builtins__": {}})) for text in (*plain.grid, "1", "1")[:3]]
    places = {"y": numbers[1], "z": numbers[2]}
    precision = _precision(kernel, launch)
    for kind in _KINDS:
        if (
            not {*kind.sizes, *kind.tiles} <= found.keys()
            or [int(eval(text, {"__builtins__": {}}, {**found, **places})) for text in kind.grid] != numbers
        ):
            continue
        lifted = (*kind.tiles, *((PRECISION,) if precision else ()))
        limits = _limits(kind, found)
        own: Setting = {**{name: min(found[name], limits.get(name, found[name])) for name in kind.tiles}, **plain.own}
        if precision:
            own[PRECISION] = precision[0]
        lift(kernel, lifted)
        known = {name: found[name] for name in kind.sizes} | places
        grid = _trimmed([_formula(text, known, list(kind.tiles)) for text in kind.emitted or kind.grid])
        return Settings(own, _tile_choices(kind, found, own, precision), grid, (), lifted)
    if not precision:
        return plain
    lift(kernel, (PRECISION,))
    return Settings(
        {**plain.own, PRECISION: precision[0]}, _precise(plain.own, precision), plain.grid, (), (PRECISION,)
    )


def _precise(setting: Setting, precision: tuple[str, ...]) -> tuple[Setting, ...]:
    return tuple({**setting, PRECISION: other} for other in precision[1:])


def _tile_choices(
    kind: _Kind, found: Mapping[str, int], own: Setting, precision: tuple[str, ...]
) -> tuple[Setting, ...]:
    """Tiles not larger than the matrices, then the best guesses at other precisions."""
    if "Q_LEN" in kind.sizes:
        tiles = [dict(zip(_FLASH_TILES, tile, strict=True)) for tile in _FLASH]
    else:
        tiles = [dict(zip(_TILES, tile, strict=True)) for tile in (_FP32 if precision else _HALF)]
    limits = _limits(kind, found)
    settings: list[Setting] = []
    for tile in tiles:
        fitted: Setting = {name: min(v, limits[name]) if name in limits else v for name, v in tile.items()}
        # A product whose K is a multiple of its tile was written without the check for the rest.
        even = "K" in kind.sizes and found["K"] % found["BLOCK_K"] == 0
        if not (even and found["K"] % int(fitted["BLOCK_K"])):
            settings.append({**own, **fitted})
    distinct = [one for number, one in enumerate(settings) if one != own and one not in settings[:number]]
    others = [one for base in (own, *distinct[:2]) for one in _precise(base, precision)]
    return (*distinct[: _MOST - len(others)], *others)


def _limits(kind: _Kind, found: Mapping[str, int]) -> dict[str, int]:
    """The next power of two above each size, 16 at the least, which is what `tl.dot` takes."""
    if "OUT_C" in kind.sizes:
        images = found["BATCH"] * found["OUT_H"] * found["OUT_W"] * found.get("OUT_D", 1)
        sizes = {"BLOCK_M": images, "BLOCK_N": found["OUT_C"], "BLOCK_K": found.get("IN_C", 1 << 20)}
    elif "Q_LEN" in kind.sizes:
        sizes = {"BLOCK_M": found["Q_LEN"], "BLOCK_N": found["KV_LEN"]}
    else:
        sizes = {"BLOCK_M": found["M"], "BLOCK_N": found["N"], "BLOCK_K": found["K"]}
    return {name: max(16, 1 << max(0, size - 1).bit_length()) for name, size in sizes.items()}


def _precision(kernel: Kernel, launch: Launch) -> tuple[str, ...]:
    """Precisions to choose from; none where no product of fp32 numbers is computed."""
    operands = [kind for name, kind in launch.types.items() if name in ("arg_A", "arg_B", "arg_X", "arg_W", "arg_Q")]
    if not operands or any(kind != "*fp32" for kind in operands):
        return ()
    for function in kernel.functions:
        for keyword in _precision_keywords(function):
            value = keyword.value
            text = value.value if isinstance(value, ast.Constant) else kernel.constants.get(ast.unparse(value))
            return _PRECISIONS.get(str(text), ())
    return ()


def _precision_keywords(function: ast.FunctionDef) -> list[ast.keyword]:
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and ast.unparse(n.func) == "tl.dot"]
    return [keyword for call in calls for keyword in call.keywords if keyword.arg == "input_precision"]


# --- constants become parameters --------------------------------------------------------------------------


def lift(kernel: Kernel, names: tuple[str, ...]) -> None:
    """Constants of the body become parameters, and those of the functions it calls their first arguments."""
    if PRECISION in names:
        for function in kernel.functions:
            for keyword in _precision_keywords(function):
                keyword.value = ast.Name(PRECISION, ast.Load())
    needs = {function.name: _needed(function, names) for function in kernel.functions}
    for _ in kernel.functions:  # a function needs what those it calls need
        for function in kernel.functions:
            called = {n.func.id for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
            wanted = {*needs[function.name], *(name for other in called for name in needs.get(other, ()))}
            needs[function.name] = tuple(name for name in names if name in wanted)
    for function in kernel.functions:
        _Lift(names, needs).visit(function)
        added = [ast.arg(name, parse_expression("tl.constexpr")) for name in needs[function.name]]
        if function is kernel.main:
            function.args.args += [ast.arg(name, parse_expression("tl.constexpr")) for name in names]
        else:
            function.args.args[:0] = added
        drop_unread(function)


def _needed(function: ast.FunctionDef, names: tuple[str, ...]) -> tuple[str, ...]:
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    passed = {argument.arg for argument in function.args.args}
    return tuple(name for name in names if name in read and name not in passed)


class _Lift(ast.NodeTransformer):
    def __init__(self, names: tuple[str, ...], needs: Mapping[str, tuple[str, ...]]) -> None:
        self.names, self.needs = names, needs

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        return None if isinstance(node.target, ast.Name) and node.target.id in self.names else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        wanted = self.needs.get(node.func.id, ()) if isinstance(node.func, ast.Name) else ()
        node.args[:0] = [ast.Name(name, ast.Load()) for name in wanted]
        return node
