"""TritonBench's two channels out of a checkout: each gold file is a task, its instruction the prompt.

The suite is not shipped with us. Files are parsed, never run. A damaged file is listed and left out; the rest loads.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotriton.errors import UsageError
from autotriton.syntax import parse_source
from autotriton.types import Task

CHANNELS = ("g", "t")
STYLES = {"simple": "simp", "complex": "comp"}
SEPARATOR = "#" * 146
_MARKS = ("Functional Description: ", "Wrapper Entry Information:")
_HINT = "point --root at a checkout of TritonBench (it has the folder data/TritonBench_G_v1)"


@dataclass(frozen=True)
class Loaded:
    """The tasks of one channel, and the files that could not be read, with the reason."""

    tasks: list[Task]
    version: str
    damaged: dict[str, str] = field(default_factory=dict)


def load(root: str | Path, channel: str, style: str = "simple") -> tuple[list[Task], str]:
    """The tasks of a channel in the order of their names, and the suite's version."""
    found = read(root, channel, style)
    return found.tasks, found.version


def read(root: str | Path, channel: str, style: str = "simple") -> Loaded:
    """As `load`, with what had to be left out."""
    if channel not in CHANNELS:
        raise UsageError(f"unknown TritonBench channel {channel!r}", hint="known: g, t")
    if style not in STYLES:
        raise UsageError(f"unknown instruction style {style!r}", hint=f"known: {', '.join(STYLES)}")
    data, letter = _data(Path(root).expanduser()), channel.upper()
    folder = data / f"TritonBench_{letter}_v1"
    if not folder.is_dir():
        raise UsageError(f"{folder} does not exist", hint=_HINT)
    instructions = _instructions(data, letter, style)
    damaged: dict[str, str] = {}
    sources: dict[str, str] = {}
    for path in sorted(folder.glob("*.py")):
        text, problem = _source(path)
        if problem is None and path.name not in instructions:
            problem = "it has no instruction"
        if problem is not None:
            damaged[path.name] = problem
        else:
            sources[path.name] = text
    missing = {name: "the file is missing" for name in instructions if not (folder / name).exists()}
    damaged |= missing
    if not sources:
        reason = next((f": {name}: {problem}" for name, problem in damaged.items()), "")
        raise UsageError(f"{folder} holds no usable task{reason}", hint=_HINT)
    version = _version(data, sources)
    suite = f"tritonbench-{channel}@{version}"
    tasks = [
        Task(
            id=Path(name).stem,
            source=text,
            entry=_entry(text),
            instruction=instructions[name],
            tags=("script",),
            suite=suite,
        )
        for name, text in sources.items()
    ]
    for name, problem in damaged.items():
        warnings.warn(f"TritonBench {letter}: {name} is left out: {problem}", stacklevel=3)
    return Loaded(tasks, version, damaged)


def _data(root: Path) -> Path:
    if not root.is_dir():
        raise UsageError(f"the TritonBench root {root} is no folder", hint=_HINT)
    for data in (root / "data", root):
        if any(data.glob("TritonBench_*_v1")):
            return data
    raise UsageError(f"{root} is no checkout of TritonBench", hint=_HINT)


def _source(path: Path) -> tuple[str, str | None]:
    """The text of a gold file, and what is wrong with it."""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        return "", f"it cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "", "it is not UTF-8 text"
    if SEPARATOR not in text:
        return text, "it has no line of 146 `#` above its test"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return text, f"it is not valid Python: {error}"
    return text, None


def _entry(text: str) -> str:
    """The first name of the implementation that the test uses: what the task is about."""
    implementation, _, test = text.rpartition(SEPARATOR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        defined = [n.name for n in parse_source(implementation).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        used = {n.id for n in ast.walk(parse_source(test)) if isinstance(n, ast.Name)}
    return next((name for name in defined if name in used), defined[0] if defined else "main")


# --- instructions ---------------------------------------------------------------------------------------------


def _instructions(data: Path, letter: str, style: str) -> dict[str, str]:
    """File name -> prompt. The rows name no file: G's are found by their gold code, T's by their description."""
    rows = _array(data / f"TritonBench_{letter}_{STYLES[style]}_alpac_v1.json")
    listing = _array(data / ("TritonBench_G_v1.json" if letter == "G" else "TritonBench_T_v1.jsonl"))
    found: dict[str, str] = {}
    left = [row for row in listing if isinstance(row.get("file"), str)]
    unmatched = []
    for row in rows:
        instruction = row.get("instruction")
        if not isinstance(instruction, str):
            continue
        match = _matching(row, instruction, left, letter)
        if match is None:
            unmatched.append(instruction)
            continue
        left.remove(match)
        more = row.get("input")
        found[match["file"]] = f"{instruction}\n{more}" if isinstance(more, str) and more.strip() else instruction
    if len(left) == len(unmatched) == 1:  # one gold differs between the two files; what is left belongs together
        found[left[0]["file"]] = unmatched[0]
    return found


def _matching(row: dict[str, Any], instruction: str, left: list[dict[str, Any]], letter: str) -> dict[str, Any] | None:
    if letter == "G":
        gold = _squeezed(row.get("output"))
        return next((one for one in left if gold and _squeezed(one.get("output")) == gold), None) or next(
            (one for one in left if gold and gold in _squeezed(one.get("output"))), None
        )
    described = _squeezed(instruction.partition(_MARKS[0])[2].partition(_MARKS[1])[0])
    signature = _squeezed(instruction.partition(_MARKS[1])[2])
    for one in left:
        if described and described == _squeezed(one.get("description")):
            return one
    same = [one for one in left if described and described in _squeezed(one.get("description"))]
    same = same or [one for one in left if _squeezed(one.get("func_inputs")) and signature.startswith(
        _squeezed(one.get("func_inputs")))]  # fmt: skip
    return same[0] if len(same) == 1 else None


def _squeezed(text: object) -> str:
    return "".join(str(text or "").split())


def _array(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that holds one JSON array (some of them are called .jsonl all the same) or one row a line."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist", hint=_HINT)
    try:
        text = path.read_text(encoding="utf-8")
        rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged: {error}", hint="check the file out again") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{path} is damaged: it holds no list of rows", hint="check the file out again")
    return rows


def _version(data: Path, sources: dict[str, str]) -> str:
    """The checkout's commit; a hash of what was read where it is no git checkout or something was changed."""
    try:
        root = str(data)
        commit = _git(root, "rev-parse", "HEAD")
        if commit and not _git(root, "status", "--porcelain", "--", "."):
            return commit[:12]
    except OSError:
        pass  # no git here
    text = "\0".join(f"{name}\0{sources[name]}" for name in sorted(sources))
    return "sha256-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def _git(folder: str, *words: str) -> str:
    """What git says of a folder that is a checkout or the `data` of one; nothing of a folder inside another project."""
    top = subprocess.run(["git", "-C", folder, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
    here = Path(folder).resolve()
    if top.returncode or Path(top.stdout.strip()).resolve() not in (here, here.parent):
        return ""
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
