"""The same program as another person would have written it: other tiles, other names, the table of tiles or plain
constants, with or without the formulas.

Every result is judged again: a restyled program is a new program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from autotriton.data.pairs.rename import renamed
from autotriton.syntax import parse_literal

Settings = Mapping[str, int | str | bool]
_SYNONYMS = {
    "row": ("rows", "row_idx", "r"),
    "col": ("cols", "offs", "col_idx", "c"),
    "rows": ("offs_m", "row_ids"),
    "cols": ("offs_n", "col_ids"),
    "ks": ("offs_k", "k_ids"),
    "mask": ("valid", "inside", "in_bounds"),
    "row_mask": ("row_ok", "valid_rows"),
    "col_mask": ("col_ok", "valid_cols"),
    "acc": ("accumulator", "total"),
    "out": ("output", "result", "y"),
    "out_ptr": ("output_ptr", "y_ptr", "result_ptr", "dst_ptr"),
    "n_rows": ("num_rows", "rows_total"),
    "n_cols": ("num_cols", "row_length"),
    "tile": ("pid", "tile_id"),
    "tiles_m": ("num_tiles_m", "grid_m"),
    "tiles_n": ("num_tiles_n", "grid_n"),
    "tile_m": ("pid_m",),
    "tile_n": ("pid_n",),
    "index": ("offsets", "idx", "offs"),
    "n_elements": ("numel", "size", "total_elements"),
    "BLOCK_R": ("ROWS", "ROWS_PER_PROGRAM", "BLOCK_ROWS"),
    "BLOCK_C": ("COLS", "BLOCK_COLS", "BLOCK_SIZE"),
    "BLOCK": ("BLOCK_SIZE", "TILE"),
    "TILES": ("CONFIG", "LAUNCH", "META"),
    "tiles": ("config", "meta", "settings"),
}
_KERNEL_NAMES = ("{0}_kernel", "_{0}_kernel", "{0}_fwd_kernel", "triton_{0}", "_{0}_fwd", "fused_{0}_kernel")
_WRAPPER_NAMES = ("{0}", "launch_{0}", "run_{0}", "{0}_triton", "call_{0}")


def restyled(code: str, choices: Mapping[str, Sequence[Settings]], draw: Random, asked_for: str | None = None) -> str:
    """Another form of the program; the same for the same `draw`. `asked_for`: a function that keeps its name."""
    code = with_tiles(code, {name: draw.choice(list(options[:6])) for name, options in choices.items() if options})
    if draw.random() < 0.5:
        code = without_table(code)
    if draw.random() < 0.25:
        code = without_formulas(code)
    names = _functions(code, draw) | {old: draw.choice(new) for old, new in _SYNONYMS.items() if draw.random() < 0.5}
    names.pop(asked_for or "", None)
    return renamed(code.replace("`TILES`", f"`{names.get('TILES', 'TILES')}`"), names)


def with_tiles(code: str, tiles: Mapping[str, Settings]) -> str:
    """The table with other settings."""
    found = re.search(r"^TILES = \{\n(?:.*\n)*?\}\n", code, re.MULTILINE)
    if found is None:
        return code
    table = parse_literal(found[0].removeprefix("TILES = "))
    lines = [f'    "{name}": {_literal({**settings, **tiles.get(name, {})})},\n' for name, settings in table.items()]
    return code[: found.start()] + "TILES = {\n" + "".join(lines) + "}\n" + code[found.end() :]


def without_table(code: str) -> str:
    """Each launch with its own constants written out, as short programs are."""
    found = re.search(r"^TILES = \{\n(?:.*\n)*?\}\n\n*", code, re.MULTILINE)
    if found is None:
        return code
    table: dict[str, dict[str, object]] = parse_literal(found[0].removeprefix("TILES = ").strip())
    body = code[: found.start()] + code[found.end() :]
    for name, settings in table.items():
        constants = "".join(f"    {key} = {_value(value)}\n" for key, value in settings.items())
        given = ", ".join(f"{key}={key}" for key in settings)
        start = rf'^    tiles = TILES\["{re.escape(name)}"\]\n'
        place = re.search(start + r"(?P<rest>(?:.*\n)*?)(?=^\S|\Z)", body, re.MULTILINE)
        if place is None or re.search(r"\btiles\b(?!\[\"|\})", place["rest"].replace("**tiles", "")):
            return code  # a wrapper uses its tiles in a way of its own
        rest = re.sub(r'tiles\["(\w+)"\]', r"\1", place["rest"]).replace("**tiles", given)
        body = body[: place.start()] + constants + rest + body[place.end() :]
    for note in (" `TILES` holds what may be tuned.", "# What may be tuned: tile sizes, warps, stages.\n"):
        body = body.replace(note, "")
    return code if re.search(r"\bTILES\b|\btiles\[", body) else body


def without_formulas(code: str) -> str:
    """Kernels without their docstrings, and the file without its heading."""
    body = re.sub(r'\A"""(?:.|\n)*?"""\n+', "", code)
    return re.sub(r'(?<=:\n)    """[^"\n]*"""\n', "", body)


def _functions(code: str, draw: Random) -> dict[str, str]:
    """New names for kernels and wrappers, in one manner for the whole file."""
    kernels = re.findall(r"^def (\w+)_kernel\(", code, re.MULTILINE)
    wrappers = [name for name in kernels if re.search(rf"^def {re.escape(name)}\(", code, re.MULTILINE)]
    kernel, wrapper = draw.choice(_KERNEL_NAMES), draw.choice(_WRAPPER_NAMES)
    return {f"{name}_kernel": kernel.format(name) for name in kernels} | {n: wrapper.format(n) for n in wrappers}


def _literal(settings: Mapping[str, object]) -> str:
    return "{" + ", ".join(f'"{key}": {_value(value)}' for key, value in settings.items()) + "}"


def _value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
