"""The program inside a language model's answer. Pure functions of text; they never raise and run nothing.

Must stay true: what is returned is a piece of the answer (or pieces in their order), never a repaired program. Text a
model only thought (`<think>`) is not an answer. An answer without code gives "", which the judge counts as `no_code`.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotriton.syntax import parse_source

_THOUGHT = re.compile(r"<(?P<end>/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")
_CODE_LINE = re.compile(r"(?:import|from|class|def)\s+[A-Za-z_]|@[A-Za-z_]|\"\"\"|'''")
_PYTHON = frozenset(("", "py", "python", "python3", "py3", "triton", "ipython"))
MOST_CHARS = 1_000_000
"""Of an answer; a longer one is no program the judge would read, and parsing it could take gigabytes."""
_MOST_ENDS, _MOST_STARTS, _MOST_CUTS = 8, 3, 20
"""How many places a block or an unfenced program is tried to end or start at; each costs one parse."""


@dataclass(frozen=True)
class Block:
    """One fenced block, its indentation taken off."""

    text: str
    tag: str = ""


def extract(answer: str, names: Sequence[str] = ("ModelNew",)) -> str:
    """The program that defines one of `names`, or the likeliest piece of code; "" where there is none."""
    if len(answer) > MOST_CHARS:
        return ""
    spoken = without_thoughts(answer.replace("\r\n", "\n").replace("\r", "\n"))
    fenced = blocks(spoken)
    if not fenced:
        return _unfenced(spoken, names)
    usable = [block for block in fenced if block.tag in _PYTHON or _defines(block.text, names)]
    if not usable:
        return ""
    # Of equals the last: models show the old program first, and correct themselves.
    best = max(reversed(usable), key=lambda block: _likelihood(block.text, names))
    return _tidy(best.text if "triton" in best.text else _joined(usable, best, names))


def without_thoughts(answer: str) -> str:
    """The answer without its reasoning; a lone closing tag ends a thought that began before the answer did."""
    kept: list[str] = []
    thinking, position = False, 0
    for tag in _THOUGHT.finditer(answer):
        if tag["end"] and not thinking:
            kept.clear()
        elif not thinking:
            kept.append(answer[position : tag.start()])
        thinking, position = not tag["end"], tag.end()
    return "".join(kept) + ("" if thinking else answer[position:])


def blocks(answer: str) -> list[Block]:
    """The fenced blocks in order; the last one may lack its end."""
    lines = answer.split("\n")
    fences = {number: fence for number, line in enumerate(lines) if (fence := _FENCE.fullmatch(line))}
    found: list[Block] = []
    position = 0
    for number, fence in fences.items():
        if number < position:
            continue
        end = _end(lines, fences, number)
        found.append(Block(_without_stuck_fence(_content(lines, number, end), fence["mark"]), _tag(fence)))
        # A tagged fence that ends a block opens the next one.
        position = end if end in fences and fences[end]["info"].strip() else end + 1
    return [block for block in found if block.text.strip()]


def _end(lines: list[str], fences: dict[int, re.Match[str]], start: int) -> int:
    """Where the block that starts at `start` ends: fences inside a docstring are part of the program around them."""
    mark = fences[start]["mark"]
    later = [number for number, fence in fences.items() if number > start and fence["mark"].startswith(mark)]
    closing = [number for number in later if not fences[number]["info"].strip()]
    if later and _tag(fences[start]) in _PYTHON:
        for end in (*closing[:_MOST_ENDS], len(lines)):
            if parses(_content(lines, start, end)):
                return end
    return later[0] if later else len(lines)


def _content(lines: list[str], start: int, end: int) -> str:
    return textwrap.dedent("\n".join(lines[start + 1 : end]))


def _tag(fence: re.Match[str]) -> str:
    return re.split(r"[^a-z0-9+#]+", fence["info"].strip().lower().lstrip("{."))[0]


def _without_stuck_fence(text: str, mark: str) -> str:
    """Some models end the last line of code with the fence; what follows is no code."""
    stuck = re.search(rf"{mark}[ \t]*$", text, re.MULTILINE)
    return text if stuck is None or parses(text) else text[: stuck.start()]


def _likelihood(code: str, names: Sequence[str]) -> tuple[bool, bool, bool]:
    return _defines(code, names), "triton" in code, parses(code)


def _joined(found: list[Block], best: Block, names: Sequence[str]) -> str:
    """Kernels in one block and the module in another, as one program."""
    if not _defines(best.text, names):
        return best.text
    parts = [block for block in found if block is best or ("triton" in block.text and parses(block.text))]
    return "\n\n\n".join(block.text.strip("\n") for block in parts)


def _unfenced(spoken: str, names: Sequence[str]) -> str:
    """An answer without fences: all of it, or what is left when the words before and after the code are cut off."""
    if _is_program(spoken):
        return _tidy(spoken)
    lines = spoken.split("\n")
    starts = [number for number, line in enumerate(lines) if _CODE_LINE.match(line)][:_MOST_STARTS]
    texts = ["\n".join(lines[start:]) for start in starts]
    for text in texts:
        program = next(filter(_is_program, _shortened(text)), "")
        if program and _defines(program, names) >= _defines(text, names):
            return _tidy(program)
    # Cut off or misspelt code is still code: what the judge says about it helps the next turn.
    return _tidy(texts[0]) if texts and _defines(texts[0], names) else ""


def _shortened(text: str) -> Iterator[str]:
    """The text with ever more paragraphs cut off at its end."""
    paragraphs = re.split(r"(\n[ \t]*\n)", text)
    for end in range(len(paragraphs), max(0, len(paragraphs) - 2 * _MOST_CUTS), -2):
        yield "".join(paragraphs[:end])


def parses(code: str) -> bool:
    return _tree(code) is not None


def _is_program(code: str) -> bool:
    """Prose such as `Sorry` parses too; a program imports or defines something."""
    tree = _tree(code)
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    return tree is not None and any(isinstance(statement, kinds) for statement in tree.body)


def _tree(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_source(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defines(code: str, names: Sequence[str]) -> bool:
    spelled = "|".join(map(re.escape, names))
    return re.search(rf"^(?:(?:class|def)\s+(?:{spelled})\b|(?:{spelled})\s*=[^=])", code, re.MULTILINE) is not None


def _tidy(code: str) -> str:
    code = code.strip("\n").rstrip()
    return f"{code}\n" if code else ""
