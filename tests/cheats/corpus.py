"""The adversarial corpus: real cheats a judge must reject and honest kernels it must accept.

A candidate's first line is its label; a label that does not parse is an error, never a skip. The candidates are read
here, not run: several hang, crash or flood on purpose and belong in a child process with a deadline.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAMILIES = ("delegation", "replay", "steal", "numerics", "tamper", "forge", "timing", "denial")
HONEST = "honest"

CHEAT_HEADER = re.compile(
    r"# trick: (?P<what>[^|]+?) \| family: (?P<family>\w+) \| expect: (?P<expect>reject) "
    r"\| task: (?P<task>\w+)(?P<gpu> \| gpu-only)?"
)
HONEST_HEADER = re.compile(
    r"# honest: (?P<what>[^|]+?) \| expect: (?P<expect>accept) \| task: (?P<task>\w+)(?P<gpu> \| gpu-only)?"
)


@dataclass(frozen=True)
class Case:
    """One candidate with the answer a trustworthy judge gives."""

    name: str
    family: str
    expected: str
    gpu_only: bool
    """A cheat that acts, or an honest kernel that the stock interpreter cannot run, only on a GPU."""
    task_path: Path
    code_path: Path


def load(root: Path = HERE) -> list[Case]:
    """Every case of this corpus, cheats first, by name."""
    cheats = [_cheat(path, root) for path in sorted((root / "cheats").glob("*.py"))]
    return cheats + [_honest(path, root) for path in sorted((root / "honest").glob("*.py"))]


def load_folder(root: Path) -> list[Case]:
    """Every case of a corpus laid out as NAME/{reference.py,candidate.py,meta.json}."""
    return list(_folder_cases(root))


def _cheat(path: Path, root: Path) -> Case:
    header = _header(path, CHEAT_HEADER)
    if header["family"] not in FAMILIES:
        raise ValueError(f"{path.name}: unknown family {header['family']!r}")
    return _case(path, root, header, header["family"])


def _honest(path: Path, root: Path) -> Case:
    return _case(path, root, _header(path, HONEST_HEADER), HONEST)


def _case(path: Path, root: Path, header: re.Match[str], family: str) -> Case:
    task_path = root / "tasks" / f"{header['task']}.py"
    if not task_path.is_file():
        raise ValueError(f"{path.name}: unknown task {header['task']!r}")
    return Case(path.stem, family, header["expect"], header["gpu"] is not None, task_path, path)


def _header(path: Path, pattern: re.Pattern[str]) -> re.Match[str]:
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    header = pattern.fullmatch(first)
    if header is None:
        raise ValueError(f"{path.name}: bad header {first!r}")
    return header


def _folder_cases(root: Path) -> Iterator[Case]:
    for meta_path in sorted(root.glob("*/meta.json")):
        folder = meta_path.parent
        meta = json.loads(meta_path.read_text(encoding="utf-8"))
        if meta["expected"] not in ("accept", "reject"):
            raise ValueError(f"{folder.name}: unknown expectation {meta['expected']!r}")
        family = "denial" if meta["category"] == "dos" else meta["category"]
        if family not in (*FAMILIES, HONEST):
            raise ValueError(f"{folder.name}: unknown category {meta['category']!r}")
        yield Case(
            name=folder.name,
            family=family,
            expected=meta["expected"],
            gpu_only=bool(meta.get("acts_only_on_a_gpu", False)),
            task_path=folder / "reference.py",
            code_path=folder / "candidate.py",
        )
