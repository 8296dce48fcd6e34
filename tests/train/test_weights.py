"""Checkpoints and adapters that are not what they should be: one line before anything is trained."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.train import weights


def _half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _deeper(folder: Path) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, "num_hidden_layers": 3}), encoding="utf-8")


def _no_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: _half(folder / "model.safetensors"), "cannot be loaded: Error while deserializing header"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot be loaded: Error no file named"),
        (lambda folder: (folder / "config.json").write_text("{"), "is not a valid JSON file"),
        (_deeper, r"lacks model.layers.2.input_layernorm.weight and 8 more weights: they would be random"),
        (_no_tokenizer, "cannot be loaded: .*tokenizer"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "cannot be loaded: Expecting property name"),
        (lambda folder: (folder / "chat_template.jinja").write_text("{% for %}"), "cannot be loaded: Expected"),
    ],
)
def test_a_damaged_checkpoint_is_one_line(
    workshop: Any, tmp_path: Path, damage: Callable[[Path], Any], words: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(workshop.model, folder)
    damage(folder)
    with pytest.raises(UsageError, match=words) as caught:
        weights.load(workshop.sft(model={"path": str(folder)}))
    assert "\n" not in str(caught.value)


def test_layers_and_packages_that_are_not_there(workshop: Any) -> None:
    with pytest.raises(UsageError, match=r"lora\.targets: Target modules .* not found"):
        weights.load(workshop.sft(lora={"rank": 4, "targets": ["no_proj"]}))
    flash = {"path": str(workshop.model), "attention": "flash_attention_2"}
    with pytest.raises(PrerequisiteError, match=r"model\.attention = flash_attention_2: "):
        weights.load(workshop.sft(model=flash))


def test_liger_without_a_gpu_is_no_silent_wish(workshop: Any) -> None:
    with pytest.raises(PrerequisiteError, match=r"liger-kernel needs a GPU, and none was found \(--set liger=false\)"):
        weights.load(workshop.sft(liger=True))


def test_too_little_memory_says_what_would_fit(workshop: Any) -> None:
    gib, count = 2**30, 8 * 10**9
    torch = SimpleNamespace(cuda=SimpleNamespace(mem_get_info=lambda: (40 * gib, 80 * gib)))
    model = SimpleNamespace(parameters=lambda: [SimpleNamespace(numel=lambda: count)])
    every_weight, some = workshop.sft(), workshop.sft(lora={"rank": 8})
    # 16 bytes each and a fifth for activations: 143 GiB; an adapter's 2.8 bytes: 25 GiB.
    with pytest.raises(PrerequisiteError, match=r"about 143 GiB and 40 GiB .* \(an adapter .* takes about 25 GiB\)"):
        weights._require_memory(torch, model, every_weight)
    weights._require_memory(torch, model, some)
    gone_on = workshop.sft(model={"path": str(workshop.model), "adapter": "a"})
    weights._require_memory(torch, model, gone_on)  # the adapter is trained, whatever `lora.rank` says
    torch.cuda.mem_get_info = lambda: (10 * gib, 80 * gib)
    with pytest.raises(PrerequisiteError, match="a model of about 2B parameters or fewer fits"):
        weights._require_memory(torch, model, some)


def _adapter(workshop: Any, folder: Path, layers: int) -> Path:
    """Of a model with so many layers, naming its targets as short as they go."""
    import peft
    import transformers

    config = transformers.AutoConfig.from_pretrained(workshop.model)
    config.num_hidden_layers = layers
    model = transformers.AutoModelForCausalLM.from_config(config)
    peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "up_proj"])).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("layers", "words"), [(1, "it knows nothing of .*layers.1"), (3, "it has weights for .*layers.2")]
)
def test_an_adapter_of_a_model_of_other_depth_is_refused(
    workshop: Any, tmp_path: Path, layers: int, words: str
) -> None:
    adapter = _adapter(workshop, tmp_path / "adapter", layers)
    config = workshop.sft(model={"path": str(workshop.model), "adapter": str(adapter)})
    with pytest.raises(UsageError, match=f"does not fit the model: {words}"):
        weights.load(config)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: _half(folder / "adapter_model.safetensors"), "adapter_model.safetensors is damaged"),
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "holds no weights"),
        (lambda folder: (folder / "adapter_config.json").write_text("{"), "adapter_config.json is no JSON"),
        (lambda folder: (folder / "adapter_config.json").write_text("[]"), "is no config of an adapter"),
        (lambda folder: (folder / "adapter_config.json").write_text("{}"), "does not fit the model: .*peft_type"),
    ],
)
def test_a_damaged_adapter_is_one_line(
    workshop: Any, tmp_path: Path, damage: Callable[[Path], Any], words: str
) -> None:
    adapter = _adapter(workshop, tmp_path / "adapter", 2)
    config = workshop.sft(model={"path": str(workshop.model), "adapter": str(adapter)})
    weights.load(config)
    damage(adapter)
    with pytest.raises(UsageError, match=words):
        weights.load(config)
