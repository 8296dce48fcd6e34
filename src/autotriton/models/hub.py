"""Weights from the model hub, where it can be reached: the checkpoint as published, hashes checked."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

from autotriton.errors import ProposerError
from autotriton.models.files import Progress, sha256_of

_TIMEOUT_S = 5.0
_WANTED = ("*.json", "*.safetensors", "*.jinja", "merges.txt", "vocab.json", "LICENSE*")


class Unreachable(Exception):
    """The hub does not answer, or may not be asked."""


def look(repo: str) -> Any:
    """What the hub says about a repository, within seconds."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise Unreachable("huggingface_hub is not installed")
    if os.environ.get("HF_HUB_OFFLINE", "0").lower() in ("1", "true", "yes", "on"):
        raise Unreachable("HF_HUB_OFFLINE is set")
    hub: Any = importlib.import_module("huggingface_hub")
    try:
        return hub.HfApi().model_info(repo, timeout=_TIMEOUT_S, files_metadata=True)
    except Exception as error:  # noqa: BLE001 - name lookup, TLS, proxies, HTTP: each version raises its own
        raise Unreachable(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from None


def fetch(info: Any, repo: str, folder: Path, progress: Progress) -> None:
    """The files of the revision that was looked at; interrupted downloads are continued by the library's own cache."""
    hub: Any = importlib.import_module("huggingface_hub")
    wanted = [one for one in info.siblings if any(Path(one.rfilename).match(pattern) for pattern in _WANTED)]
    total = sum(one.size or 0 for one in wanted)
    done = 0
    for one in wanted:
        progress("downloading", done, total)
        try:
            path = Path(hub.hf_hub_download(repo, one.rfilename, revision=info.sha, local_dir=folder))
        except Exception as error:  # noqa: BLE001 - as above
            text = " ".join(str(error).split())[:200]
            raise ProposerError(
                f"the hub could not deliver {one.rfilename} of {repo}: {text}", hint="run it again: it goes on"
            ) from None
        wants = getattr(one.lfs, "sha256", None) if one.lfs else None
        if wants is not None and sha256_of(path) != wants:
            path.unlink()
            raise ProposerError(f"{one.rfilename} of {repo} is refused: its sha256 is not the hub's {wants}")
        done += one.size or 0
    progress("downloading", total, total)
