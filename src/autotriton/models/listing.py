"""`model list`: what lies in a folder of models, and where each came from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from autotriton.errors import UsageError
from autotriton.models import record
from autotriton.models.files import size_of


@dataclass(frozen=True)
class Entry:
    name: str
    kind: str
    """checkpoint, adapter, gguf, pack, or incomplete: left by a run that was killed."""
    bytes: int
    origin: str | None = None
    sha256: str | None = None
    """Of the GGUF file it was made from."""
    base: str | None = None
    """Of an adapter."""
    wrong: tuple[str, ...] | None = None
    """Files that are not what they were; None: not verified, or nothing to verify against."""


def entries(folder: Path, *, verify: bool = False) -> list[Entry]:
    """Everything that is a model, sorted by name; an absent folder holds none."""
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="name a folder of models")
    found = [_entry(path, verify) for path in sorted(folder.iterdir())]
    return [entry for entry in found if entry is not None]


def _entry(path: Path, verify: bool) -> Entry | None:
    if path.suffix in (".partial", ".parts", ".hub"):
        return Entry(path.name, "incomplete", size_of(path))
    if path.is_file():
        return Entry(path.name, "gguf", path.stat().st_size) if path.suffix == ".gguf" else None
    if (path / "adapter_config.json").is_file():
        return Entry(path.name, "adapter", size_of(path), base=_base(path))
    if (path / "manifest.json").is_file():
        return Entry(path.name, "pack", size_of(path))
    if not (path / "config.json").is_file():
        return None
    made = record.read(path)
    if made is None:
        return Entry(path.name, "checkpoint", size_of(path))
    wrong = tuple(record.wrong_files(path, made)) if verify else None
    origin = f"{made.origin}: {made.source}"
    return Entry(path.name, "checkpoint", size_of(path), origin, made.source_sha256, made.base, wrong)


def _base(path: Path) -> str | None:
    try:
        found = json.loads((path / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError):
        return None
    return None if found is None else str(found)
