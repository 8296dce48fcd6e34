"""Inputs given by flags, turned into `get_inputs` and `get_init_inputs` source text.

    8x1024:float32      normal random numbers          8x1024:bf16@uniform   uniform in [0, 1)
    8:int64<1000        integers from 0 to 999         8x8:bool              fair coin
    3  0.5  true  none  Python values                  name=8x16:fp16        a keyword argument

Must stay true: nothing from a flag reaches the generated text unparsed.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass

from autotriton.errors import UsageError
from autotriton.syntax import parse_literal

HELP = 'write it like "8x1024:float32", "8:int64<1000", "8x8:bool", "0.5" or "name=8x16:bf16@uniform"'

_ALIASES = {
    "float64": ("f64", "fp64", "double"),
    "float32": ("f32", "fp32", "float"),
    "float16": ("f16", "fp16", "half"),
    "bfloat16": ("bf16",),
    "float8_e4m3fn": ("fp8", "f8e4m3"),
    "float8_e5m2": ("f8e5m2",),
    "complex64": (),
    "int64": ("i64", "long"),
    "int32": ("i32", "int"),
    "int16": ("i16", "short"),
    "int8": ("i8",),
    "uint8": ("u8", "byte"),
    "bool": (),
}
DTYPES = {alias: name for name, others in _ALIASES.items() for alias in (name, *others)}
# Values an integer input may take are 0 to the limit, exclusive.
_INTEGER_LIMITS = {"int64": 2**63 - 1, "int32": 2**31, "int16": 2**15, "int8": 2**7, "uint8": 2**8}
# Small enough to be an index into most tables; a task that needs more says so with `<bound`.
_DEFAULT_BOUND = 16

_TENSOR = re.compile(r"(?P<shape>\d+(?:x\d+)*)?(?::(?P<dtype>\w+))?(?:<(?P<bound>\d+))?(?:@(?P<draw>\w+))?", re.ASCII)
_KEYWORD = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?!=)(?P<rest>.*)", re.DOTALL)
_WORDS = {"true": "True", "false": "False", "none": "None"}


@dataclass(frozen=True)
class Argument:
    """One argument as Python source; `name` is None for a positional one."""

    name: str | None
    source: str


def parse_input(flag: str) -> Argument:
    """One `--input`."""
    name, text = _split(flag, "--input")
    source = _literal(text) if not _looks_like_tensor(text) else _tensor(text, flag)
    if source is None:
        raise UsageError(f"--input {flag!r} is neither a tensor nor a value", hint=HELP)
    return Argument(name, source)


def parse_init(flag: str) -> Argument:
    """One `--init`: a Python literal for the constructor."""
    name, text = _split(flag, "--init")
    source = _literal(text)
    if source is None:
        raise UsageError(
            f"--init {flag!r} is not a Python literal", hint='write it like "64", "0.5", "true" or "\'relu\'"'
        )
    return Argument(name, source)


def generate(function: str, arguments: Sequence[Argument]) -> str:
    """Source of `function`: a list of positional arguments, a dict of keyword ones, or `(list, dict)` for both."""
    names = [a.name for a in arguments if a.name is not None]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UsageError(f"the argument {repeated[0]!r} is given twice", hint="give each name once")
    positional = "[" + ", ".join(a.source for a in arguments if a.name is None) + "]"
    keywords = "{" + ", ".join(f'"{a.name}": {a.source}' for a in arguments if a.name is not None) + "}"
    if not names:
        value = positional
    elif len(names) == len(arguments):
        value = keywords
    else:
        value = f"({positional}, {keywords})"
    body = [f"def {function}():"]
    if "torch." in value:
        body.append("    import torch")
        body.append("")
    return "\n".join([*body, f"    return {value}", ""])


def _split(flag: str, option: str) -> tuple[str | None, str]:
    match = _KEYWORD.fullmatch(flag.strip())
    if match is None:
        return None, flag.strip()
    if keyword.iskeyword(match["name"]):
        raise UsageError(f"{option} {flag!r}: {match['name']!r} is a Python keyword", hint="use the parameter's name")
    return match["name"], match["rest"].strip()


def _looks_like_tensor(text: str) -> bool:
    return not text.isdigit() and text != "" and _TENSOR.fullmatch(text) is not None


def _literal(text: str) -> str | None:
    """The text of a Python literal, normalised; None when it is not one."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        source = repr(parse_literal(text))
        parse_literal(source)  # 1e999 becomes inf, which is a name and not a literal
        return source
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _tensor(text: str, flag: str) -> str:
    match = _TENSOR.fullmatch(text)
    assert match is not None
    dtype = DTYPES.get((match["dtype"] or "float32").lower())
    if dtype is None:
        raise UsageError(f"--input {flag!r}: unknown dtype {match['dtype']!r}", hint=f"known: {', '.join(_ALIASES)}")
    sizes = [int(size) for size in match["shape"].split("x")] if match["shape"] else []
    shape = "(" + "".join(f"{size}, " for size in sizes).strip() + ")"
    if dtype in _INTEGER_LIMITS:
        return _integers(shape, dtype, match["bound"], match["draw"], flag)
    if match["bound"] is not None:
        raise UsageError(f"--input {flag!r}: a bound with < is for integer tensors", hint="use @uniform for [0, 1)")
    if dtype == "bool":
        return f"(torch.rand({shape}) < 0.5)"
    return _floats(shape, dtype, match["draw"], flag)


def _integers(shape: str, dtype: str, bound: str | None, draw: str | None, flag: str) -> str:
    if draw is not None:
        raise UsageError(f"--input {flag!r}: @{draw} is for float tensors", hint='bound integers like "8:int64<1000"')
    high = int(bound) if bound is not None else _DEFAULT_BOUND
    limit = _INTEGER_LIMITS[dtype]
    if not 1 <= high <= limit:
        raise UsageError(f"--input {flag!r}: the bound must be from 1 to {limit} for {dtype}", hint="lower the bound")
    return f"torch.randint(0, {high}, {shape}, dtype=torch.{dtype})"


def _floats(shape: str, dtype: str, draw: str | None, flag: str) -> str:
    functions = {None: "randn", "normal": "randn", "uniform": "rand"}
    if draw not in functions:
        raise UsageError(f"--input {flag!r}: unknown distribution {draw!r}", hint="known: normal, uniform")
    if dtype.startswith("float8"):  # torch draws no random numbers in 8 bits
        return f"torch.{functions[draw]}({shape}).to(torch.{dtype})"
    return f"torch.{functions[draw]}({shape}, dtype=torch.{dtype})"
