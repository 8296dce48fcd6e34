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
import warnings
from pathlib import Path
from typing import Any

from autotriton.errors import UsageError
from autotriton.places import model_folder

CONFIG = "adapter_config.json"
WEIGHTS, COMPRESSED = "adapter_model.safetensors", "adapter_model.int8.safetensors"
_OLD_WEIGHTS = "adapter_model.bin"
SHIPPED = Path(__file__).parent / "models" / "shipped"
"""The adapter that comes with the package, by the name of its base."""
_SCALE = ".scale"
_LEVELS = 127.0
_BASE = "base_model_name_or_path"
_AGAIN = "copy it again, or make it again"
_OTHER_BASE = "an adapter belongs to the model it was trained on"


def compress(adapter: Path, target: Path, base: str) -> None:
    """`base` is what the compressed adapter says it belongs to."""
    if not (adapter / CONFIG).is_file() or not (adapter / WEIGHTS).is_file():
        raise UsageError(f"{adapter} holds no adapter", hint=f"{CONFIG} and {WEIGHTS} belong there")
    torch, files = _packages()
    tensors: dict[str, Any] = {}
    for name, weight in _weights(adapter / WEIGHTS).items():
        weight = weight.float()
        if not torch.isfinite(weight).all():
            raise UsageError(f"{adapter / WEIGHTS} has weights that are no finite numbers", hint=f"the first is {name}")
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
    (target / COMPRESSED).chmod(0o644)  # safetensors gives it to its owner alone


def is_compressed(folder: Path) -> bool:
    return (folder / COMPRESSED).is_file()


def base_of(folder: Path) -> str:
    """What the adapter says it belongs to: a folder, a model of `models/` by its name, or one on the hub."""
    named = _config(folder).get(_BASE)
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
    stored = _weights(folder / COMPRESSED)
    names = [name for name in stored if not name.endswith(_SCALE)]
    if missing := [name for name in names if name + _SCALE not in stored]:
        raise UsageError(f"{folder / COMPRESSED} lacks the scale of {missing[0]}", hint=_AGAIN)
    weights = {name: (stored[name].float() * stored[name + _SCALE].float()).to(torch.bfloat16) for name in names}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name not in (COMPRESSED, CONFIG):
            shutil.copyfile(path, target / path.name)
    _write_config(folder, target, base)
    files.save_file(weights, str(target / WEIGHTS), metadata={"format": "pt"})


def attached(model: Any, adapter: Path | str, *, trainable: bool = False) -> Any:
    """The model with an ordinary adapter (a folder, or a name on the hub) that was made for such a model: peft alone
    begins anew with layers the adapter does not know, and forgets those the model does not have."""
    if (folder := Path(adapter)).is_dir():
        _config(folder)
        if not any((folder / name).is_file() for name in (WEIGHTS, _OLD_WEIGHTS)):
            raise UsageError(f"{folder} holds no weights", hint=f"{WEIGHTS} belongs there")
        if (folder / WEIGHTS).is_file():
            _weights(folder / WEIGHTS)
    peft: Any = importlib.import_module("peft")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Found missing adapter keys")  # told below
            made = peft.PeftModel.from_pretrained(model, str(adapter), is_trainable=trainable)
        found = made.load_adapter(str(adapter), made.active_adapter, is_trainable=trainable)
    except Exception as error:  # noqa: BLE001 - peft, torch and the hub each raise their own
        text = " ".join(str(error).split())[:300]
        raise UsageError(f"the adapter {adapter} does not fit the model: {text}", hint=_OTHER_BASE) from None
    for names, what in ((found.missing_keys, "knows nothing of"), (found.unexpected_keys, "has weights for")):
        if names:
            raise UsageError(
                f"the adapter {adapter} does not fit the model: it {what} {names[0]} and {len(names) - 1} more",
                hint=_OTHER_BASE,
            )
    return made


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_AGAIN) from None
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}", hint=_AGAIN) from None
    if not isinstance(values, dict):
        raise UsageError(f"{path} is no config of an adapter", hint=_AGAIN)
    return values


def _weights(path: Path) -> dict[str, Any]:
    _, files = _packages()
    try:
        return dict(files.load_file(str(path)))
    except (importlib.import_module("safetensors").SafetensorError, OSError) as error:
        raise UsageError(f"{path} is damaged: {' '.join(str(error).split())[:300]}", hint=_AGAIN) from None


def _write_config(folder: Path, target: Path, base: str) -> None:
    config = _config(folder)
    text = json.dumps({**config, _BASE: base}, indent=1)
    (target / CONFIG).write_text(text + "\n", encoding="utf-8")


def _packages() -> tuple[Any, Any]:
    return importlib.import_module("torch"), importlib.import_module("safetensors.torch")
