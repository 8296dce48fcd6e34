"""`model merge`: an adapter's weights added into those of its base, as a checkpoint that needs no peft."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from autotriton.adapters import attached, base_of, opened
from autotriton.errors import AutoTritonError, ProposerError, UsageError
from autotriton.line_cache import cache_folder
from autotriton.models import record
from autotriton.models.files import appearing, refuse_taken, require
from autotriton.models.record import ModelRecord


def merge(adapter: Path, target: Path, base: str | None = None) -> ModelRecord:
    """`base` overrides what the adapter says it belongs to."""
    require("torch", "transformers", "peft", "accelerate", what="merging an adapter")
    config = adapter / "adapter_config.json"
    if not config.is_file():
        raise UsageError(f"{adapter} holds no adapter", hint="an adapter_config.json belongs there")
    refuse_taken(target)
    named = base or base_of(adapter)
    with appearing(target) as folder:
        _merge(adapter, str(named), folder)
        made = ModelRecord(name=target.name, origin="merged", source=str(adapter), base=str(named))
        record.write(folder, made)
    return record.read(target) or made


def _merge(adapter: Path, base: str, folder: Path) -> None:
    transformers: Any = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    tokens = str(adapter) if (adapter / "tokenizer_config.json").is_file() else base
    whole = opened(adapter, base, cache_folder())
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype="auto")
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokens)
        merged = attached(model, whole).merge_and_unload(safe_merge=True)
    except AutoTritonError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged checkpoint: each of its files has errors of its own
        text = " ".join(str(error).split())[:300]
        raise ProposerError(
            f"{adapter} cannot be merged into {base}: {text}", hint="--base names the model it was trained on"
        ) from None
    merged.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
