"""`model pack` and `unpack`: any file or folder in parts of a given size, for a machine reached by small copies.

Must stay true: nothing is unpacked whose checksum is wrong, and nothing is written outside the target, whatever the
manifest says. Needs the standard library and pydantic only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autotriton.errors import UsageError
from autotriton.models.files import CHUNK, Progress, appearing, files_in, refuse_taken, sha256_of, silent
from autotriton.models.record import FileSum

MANIFEST = "manifest.json"
PART_SIZE = 61 << 20
"""Below the 64 MiB many transfers stop at, with room for what travels along."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


class Manifest(BaseModel):
    """The parts in order are the files in order, end to end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(default=1, ge=1, le=1)
    name: str
    """Of the file or folder."""
    folder: bool
    files: tuple[FileSum, ...]
    parts: tuple[FileSum, ...]


def size(text: str) -> int:
    """`61MiB`, `500k`, `1GB` in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]I?)?B?", text.strip().upper())
    count = int(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if count < 1:
        raise UsageError(f"{text!r} is no size", hint="for example 61MiB")
    return count


def pack(source: Path, target: Path, part_size: int = PART_SIZE, progress: Progress = silent) -> Manifest:
    """Writes the parts and, last, the manifest."""
    if not source.exists():
        raise UsageError(f"{source} does not exist", hint="name a file or a folder")
    if target.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"{target} lies inside {source}", hint="name another folder")
    refuse_taken(target)
    paths = files_in(source) if source.is_dir() else [source]
    if not paths:
        raise UsageError(f"{source} is empty", hint="there is nothing to pack")
    if lost := [path for path in source.rglob("*") if not path.is_file() and not path.is_dir()]:
        raise UsageError(f"{lost[0]} cannot be packed: a link to nowhere, or no file", hint="remove it first")
    files: list[FileSum] = []
    parts: list[FileSum] = []
    with appearing(target) as folder:
        for number, block in enumerate(_parts(source, paths, files, part_size, progress), start=1):
            name = f"part-{number:04d}"
            (folder / name).write_bytes(block)
            parts.append(FileSum(path=name, bytes=len(block), sha256=hashlib.sha256(block).hexdigest()))
        name = source.resolve().name
        made = Manifest(name=name, folder=source.is_dir(), files=tuple(files), parts=tuple(parts))
        (folder / MANIFEST).write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return made


def _parts(
    source: Path, paths: list[Path], files: list[FileSum], part_size: int, progress: Progress
) -> Iterator[bytearray]:
    """Blocks of `part_size`; every file that has been read is added to `files`."""
    total, done = sum(path.stat().st_size for path in paths), 0
    held = bytearray()
    for path in paths:
        digest, count = hashlib.sha256(), 0
        with path.open("rb") as file:
            while block := file.read(min(CHUNK, part_size - len(held))):
                digest.update(block)
                held += block
                count += len(block)
                progress("packing", done + count, total)
                if len(held) == part_size:
                    yield held
                    held = bytearray()
        done += count
        name = path.relative_to(source).as_posix() if source.is_dir() else path.name
        files.append(FileSum(path=name, bytes=count, sha256=digest.hexdigest()))
    if held:
        yield held


def unpack(folder: Path, target: Path | None = None, progress: Progress = silent) -> Path:
    """The file or folder, by default under its own name beside the parts; every part and every file is verified."""
    manifest = _read(folder)
    target = target or folder.resolve().parent / manifest.name
    refuse_taken(target)
    _verify(folder, manifest, progress)
    with appearing(target, only=None if manifest.folder else manifest.files[0].path) as partial:
        stream = _stream(folder, manifest)
        held = b""
        for one in manifest.files:
            path = partial / one.path
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                held = _copy(stream, held, out, one)
    return target


def _read(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="name a folder of `model pack`") from None
    except (UnicodeDecodeError, ValidationError):
        raise UsageError(f"{path} is no manifest of `model pack`", hint="copy it again") from None
    names = [manifest.name, *(one.path for one in (*manifest.files, *manifest.parts))]
    for name in names:
        path_in = PurePosixPath(name)
        if path_in.is_absolute() or ".." in path_in.parts or not path_in.parts or "\0" in name:
            raise UsageError(f"{path} names {name!r}, which lies outside of the folder", hint="it was tampered with")
    if sum(one.bytes for one in manifest.files) != sum(one.bytes for one in manifest.parts) or not manifest.files:
        raise UsageError(f"{path} does not add up: its parts and files differ in size", hint="copy it again")
    if not manifest.folder and (len(manifest.files) != 1 or "/" in manifest.files[0].path):
        raise UsageError(f"{path} says a single file and names several", hint="copy it again")
    return manifest


def _verify(folder: Path, manifest: Manifest, progress: Progress) -> None:
    """All that is wrong is told at once: copying again may take long."""
    wanted = [one.path for one in manifest.parts]
    missing = [name for name in wanted if not (folder / name).is_file()]
    strange = sorted(path.name for path in folder.glob("part-*") if path.name not in wanted)
    damaged: list[str] = []
    total, done = sum(one.bytes for one in manifest.parts), 0
    for one in manifest.parts:
        if one.path not in missing and sha256_of(folder / one.path) != one.sha256:
            damaged.append(one.path)
        done += one.bytes
        progress("verifying", done, total)
    wrong = []
    if missing:
        wrong.append(f"{len(missing)} of {len(wanted)} parts are missing from {folder}: {_some(missing)}")
    if damaged:
        wrong.append(f"{_some([str(folder / name) for name in damaged])} {_is(damaged)} damaged: another sha256")
    if strange:
        wrong.append(f"{_some([str(folder / name) for name in strange])} {_is(strange)} not in its {MANIFEST}")
    if wrong:
        hint = "copy them and unpack again" if missing or damaged else "remove what is not in it, or copy it again"
        raise UsageError("; ".join(wrong), hint=hint)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _stream(folder: Path, manifest: Manifest) -> Iterator[bytes]:
    for one in manifest.parts:
        with (folder / one.path).open("rb") as file:
            while block := file.read(CHUNK):
                yield block


def _copy(stream: Iterator[bytes], held: bytes, out: IO[bytes], one: FileSum) -> bytes:
    """Fills one file; what is left of the last block belongs to the next."""
    digest, left = hashlib.sha256(), one.bytes
    while left:
        block = held or next(stream)
        taken, held = block[:left], block[left:]
        out.write(taken)
        digest.update(taken)
        left -= len(taken)
    if digest.hexdigest() != one.sha256:
        raise UsageError(f"{one.path} is not what was packed: its sha256 differs", hint="pack it again")
    return held
