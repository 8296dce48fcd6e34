"""Python packages and repositories on disk, read as text. Nothing of them is ever imported here.

A file that cannot be read or parsed is named and counted, and the rest goes on.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autotriton.data.harvest.licences import Licence, licence_of
from autotriton.errors import UsageError
from autotriton.syntax import parse_source

_MOST_BYTES = 1 << 20
_SKIPPED_FOLDERS = frozenset(
    ("tests", "test", "testing", ".git", "__pycache__", "build", "docs", "examples", "scripts", "benchmarks")
)


@dataclass(frozen=True)
class Problem:
    """A file that gave nothing, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class SourceFile:
    module: str
    """Dotted name inside the package, e.g. `timm.layers.mlp`."""
    path: str
    """Relative to the package's parent, for the record."""
    text: str
    tree: ast.Module
    is_package: bool = False


@dataclass
class Package:
    name: str
    version: str
    root: Path
    licence: Licence
    files: dict[str, SourceFile] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


def open_packages(folder: Path) -> Iterator[Package]:
    """The packages in a folder: an unpacked wheel, a package, or a repository with packages (or `src/`) in it."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name an unpacked wheel, a package or a repository")
    roots = [folder] if (folder / "__init__.py").is_file() else _roots(folder)
    if not roots:
        raise UsageError(f"{folder} holds no Python package", hint="name a folder with an __init__.py in it or below")
    for root in roots:
        yield open_package(root)


def _roots(folder: Path) -> list[Path]:
    places = [folder, folder / "src"]
    return [
        child
        for place in places
        if place.is_dir()
        for child in sorted(place.iterdir())
        if (child / "__init__.py").is_file() and child.name not in _SKIPPED_FOLDERS
    ]


def open_package(root: Path) -> Package:
    metadata = _metadata(root)
    version = _version(metadata, root)
    package = Package(root.name, version, root, licence_of(root, metadata))
    if package.licence.spdx is None:
        return package  # not even read
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root.parent)
        if any(part in _SKIPPED_FOLDERS for part in inner.parts[1:-1]):
            continue
        file = _read(path, inner)
        if isinstance(file, Problem):
            package.problems.append(file)
        else:
            package.files[file.module] = file
    return package


def _metadata(root: Path) -> Path | None:
    wanted = re.sub(r"[-_.]+", "_", root.name).lower()
    for folder in sorted(root.parent.glob("*.dist-info")):
        if (
            re.sub(r"[-_.]+", "_", folder.name.removesuffix(".dist-info").rpartition("-")[0]).lower() == wanted
            and (folder / "METADATA").is_file()
        ):
            return folder / "METADATA"
    return None


def _version(metadata: Path | None, root: Path) -> str:
    if metadata is not None:
        found = re.search(r"^Version: (\S+)", metadata.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        if found:
            return found[1]
    for path in (root / "version.py", root / "_version.py", root / "__init__.py"):
        if path.is_file():
            text = path.read_bytes()[:_MOST_BYTES].decode("utf-8", "replace")
            found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
            if found:
                return found[1]
    return "unknown"


def _read(path: Path, inner: Path) -> SourceFile | Problem:
    try:
        data = path.read_bytes()
        if len(data) > _MOST_BYTES:
            return Problem(str(inner), "larger than 1 MiB")
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding).replace("\r\n", "\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_source(text)
    except OSError as error:
        return Problem(str(inner), error.strerror or "cannot be read")
    except (SyntaxError, UnicodeDecodeError, LookupError, ValueError, RecursionError, MemoryError) as error:
        return Problem(str(inner), f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    parts = list(inner.with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    return SourceFile(module, str(inner), text, tree, is_package)
