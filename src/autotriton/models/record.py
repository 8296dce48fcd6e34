"""What a model folder says about itself: where its weights came from, and what its files must be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from autotriton.models.files import files_in, sha256_of

FILE = "autotriton-model.json"


class FileSum(BaseModel):
    """One file, by its path in the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    bytes: int
    sha256: str


class ModelRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    origin: str
    """hub, index, gguf or merged."""
    source: str
    """The hub's repository and revision, the GGUF file's name, or the adapter's folder."""
    source_sha256: str | None = None
    """Of the GGUF file."""
    base: str | None = None
    """What an adapter was merged into."""
    files: tuple[FileSum, ...] = ()


def sums(folder: Path) -> tuple[FileSum, ...]:
    """Every file but the record itself."""
    return tuple(
        FileSum(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=sha256_of(path))
        for path in files_in(folder)
        if path.name != FILE
    )


def write(folder: Path, record: ModelRecord) -> None:
    filled = record.model_copy(update={"files": sums(folder)})
    (folder / FILE).write_text(filled.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> ModelRecord | None:
    """None for a folder that was made elsewhere, or whose record cannot be read."""
    try:
        return ModelRecord.model_validate_json((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def wrong_files(folder: Path, record: ModelRecord) -> list[str]:
    """Files that are missing or not what they were."""
    return wrong_among(folder, record.files)


def wrong_among(folder: Path, files: Sequence[FileSum]) -> list[str]:
    wrong = []
    for one in files:
        path = folder / one.path
        if not path.is_file() or path.stat().st_size != one.bytes or sha256_of(path) != one.sha256:
            wrong.append(one.path)
    return wrong
