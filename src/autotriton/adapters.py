"""Adapters in eight bits: half the size of bf16, for shipping. Every row has a scale of its own.

A compressed adapter is a folder with `adapter_config.json`, `adapter_model.int8.safetensors` and whatever else lay
beside the weights. `opened` makes an ordinary adapter of it, once, in the cache; who loads it need not know.

Must stay true: an opened adapter appears whole or not at all, and changes with the file it was made from.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from autotriton.errors import UsageError
from autotriton.places import model_folder

CONFIG = "adapter_config.json"
WEIGHTS, COMPRESSED = "adapter_model.safetensors", "adapter_model.int8.safetensors"
SHIPPED = Path(__file__).parent / "models" / "shipped"
"""The adapter that comes with the package, by the name of its base."""
_SCALE = ".scale"
_LEVELS = 127.0
_BASE = "base_model_name_or_path"


def compress(adapter: Path, target: Path, base: str) -> None:
    """`base` is what the compressed adapter says it belongs to."""
    if not (adapter / CONFIG).is_file() or not (adapter / WEIGHTS).is_file():
        raise UsageError(f"{adapter} holds no adapter", hint=f"{CONFIG} and {WEIGHTS} belong there")
    torch, files = _packages()
    tensors: dict[str, Any] = {}
    for name, weight in files.load_file(str(adapter / WEIGHTS)).items():
        weight = weight.float()
        scale = weight.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / _LEVELS
        # Rounded first: the numbers are those that the stored scale gives.
        tensors[name + _SCALE] = scale = scale.to(torch.bfloat16)
        tensors[name] = (weight / scale.float()).round().clamp(-_LEVELS, _LEVELS).to(torch.int8)
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(adapter.iterdir()):
        if path.is_file() and path.name not in (WEIGHTS, CONFIG):
            shutil.copyfile(path, target / path.name)
    _write_config(adapter, target, base)
    files.save_file(tensors, str(target / COMPRESSED), metadata={"format": "pt"})


def is_compressed(folder: Path) -> bool:
    return (folder / COMPRESSED).is_file()


def base_of(folder: Path) -> str:
    """What the adapter says it belongs to: a folder, a model of `models/` by its name, or one on the hub."""
    try:
        named = json.loads((folder / CONFIG).read_text(encoding="utf-8"))[_BASE]
    except (OSError, ValueError, KeyError, TypeError):
        named = None
    if not named:
        raise UsageError(f"{folder / CONFIG} does not say what it belongs to", hint=f"write its base into {_BASE}")
    pulled = model_folder(str(named))
    return str(pulled) if not Path(named).is_dir() and pulled.is_dir() else str(named)


def opened(folder: Path, base: str, cache: Path) -> Path:
    """An ordinary adapter of that base. One that is not compressed is one already."""
    if not is_compressed(folder):
        return folder
    digest = hashlib.sha256((folder / COMPRESSED).read_bytes())
    digest.update((folder / CONFIG).read_bytes() + os.fsencode(base))
    target = cache / "adapters" / digest.hexdigest()[:16]
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
        try:
            _decompress(folder, partial, base)
            if not target.is_dir():
                partial.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return target


def _decompress(folder: Path, target: Path, base: str) -> None:
    torch, files = _packages()
    stored = files.load_file(str(folder / COMPRESSED))
    weights = {
        name: (whole.float() * stored[name + _SCALE].float()).to(torch.bfloat16)
        for name, whole in stored.items()
        if not name.endswith(_SCALE)
    }
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name not in (COMPRESSED, CONFIG):
            shutil.copyfile(path, target / path.name)
    _write_config(folder, target, base)
    files.save_file(weights, str(target / WEIGHTS), metadata={"format": "pt"})


def _write_config(folder: Path, target: Path, base: str) -> None:
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    text = json.dumps({**config, _BASE: base}, indent=1)
    (target / CONFIG).write_text(text + "\n", encoding="utf-8")


def _packages() -> tuple[Any, Any]:
    return importlib.import_module("torch"), importlib.import_module("safetensors.torch")
