"""Adapters in eight bits, and the one that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from autotriton import adapters
from autotriton.adapters import COMPRESSED, CONFIG, WEIGHTS, base_of, compress, is_compressed, opened
from autotriton.errors import UsageError
from autotriton.propose import model as proposing


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    torch.manual_seed(1)
    weights = {"a.lora_A.weight": torch.randn(8, 64) * 0.01, "a.lora_B.weight": torch.randn(48, 8)}
    weights["b.lora_B.weight"] = torch.zeros(4, 8)
    save_file({name: weight.bfloat16() for name, weight in weights.items()}, str(folder / WEIGHTS))
    (folder / CONFIG).write_text(json.dumps({"base_model_name_or_path": "/elsewhere/base", "r": 8}))
    (folder / "prompt.md").write_text("Rewrite it.")
    return folder


def test_half_the_size_and_nearly_the_same_numbers(adapter: Path, tmp_path: Path) -> None:
    compress(adapter, tmp_path / "small", "mine-1b")
    assert is_compressed(tmp_path / "small")
    assert not is_compressed(adapter)
    assert base_of(tmp_path / "small") == "mine-1b"
    whole = opened(tmp_path / "small", "/here/base", tmp_path / "cache")
    before, after = load_file(str(adapter / WEIGHTS)), load_file(str(whole / WEIGHTS))
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert after[name].dtype == torch.bfloat16
        largest = weight.float().abs().amax(dim=-1, keepdim=True)
        assert ((after[name].float() - weight.float()).abs() <= largest / 120).all(), name
    assert base_of(whole) == "/here/base"
    assert json.loads((whole / CONFIG).read_text())["r"] == 8
    assert (whole / "prompt.md").read_text() == "Rewrite it."
    stored = load_file(str(tmp_path / "small" / COMPRESSED))
    numbers = sum(weight.numel() for weight in before.values())
    rows = sum(weight.shape[0] for weight in before.values())
    assert sum(one.numel() * one.element_size() for one in stored.values()) == numbers + 2 * rows


def test_damaged_adapters_are_one_line_and_leave_nothing_in_the_cache(adapter: Path, tmp_path: Path) -> None:
    compress(adapter, tmp_path / "small", "base")
    stored = load_file(str(tmp_path / "small" / COMPRESSED))
    save_file({name: one for name, one in stored.items() if "scale" not in name}, str(tmp_path / "small" / COMPRESSED))
    with pytest.raises(UsageError, match=r"lacks the scale of a.lora_A.weight"):
        opened(tmp_path / "small", "base", tmp_path / "cache")
    data = (tmp_path / "small" / COMPRESSED).read_bytes()
    (tmp_path / "small" / COMPRESSED).write_bytes(data[: len(data) // 2])
    with pytest.raises(UsageError, match=f"{COMPRESSED} is damaged"):
        opened(tmp_path / "small", "base", tmp_path / "cache")
    assert list((tmp_path / "cache" / "adapters").iterdir()) == []
    (adapter / CONFIG).write_text("[]")
    with pytest.raises(UsageError, match="is no config of an adapter"):
        compress(adapter, tmp_path / "other", "base")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_not_made_some(adapter: Path, tmp_path: Path, wrong: float) -> None:
    weights = load_file(str(adapter / WEIGHTS))
    weights["a.lora_A.weight"][3, 5] = wrong
    save_file(weights, str(adapter / WEIGHTS))
    with pytest.raises(UsageError, match=r"no finite numbers \(the first is a.lora_A.weight\)"):
        compress(adapter, tmp_path / "small", "base")


def test_opened_once_and_again_when_it_changes(adapter: Path, tmp_path: Path) -> None:
    assert opened(adapter, "base", tmp_path / "cache") == adapter
    compress(adapter, tmp_path / "small", "base")
    first = opened(tmp_path / "small", "base", tmp_path / "cache")
    (first / "prompt.md").write_text("kept as it is")
    assert opened(tmp_path / "small", "base", tmp_path / "cache") == first
    assert (first / "prompt.md").read_text() == "kept as it is"
    assert opened(tmp_path / "small", "other", tmp_path / "cache") != first
    assert sorted(path.name for path in first.parent.iterdir() if "." in path.name) == []


def test_a_name_means_the_model_that_was_pulled(adapter: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    compress(adapter, tmp_path / "small", "mine-1b")
    (tmp_path / "models" / "mine-1b").mkdir(parents=True)
    assert base_of(tmp_path / "small") == "models/mine-1b"
    (tmp_path / "small" / CONFIG).write_text("{}")
    with pytest.raises(UsageError, match="does not say what it belongs to"):
        base_of(tmp_path / "small")
    with pytest.raises(UsageError, match="holds no adapter"):
        compress(tmp_path / "models", tmp_path / "other", "base")


def test_the_default_model_has_the_shipped_adapter(adapter: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(proposing.VARIABLE, raising=False)
    base = Path(proposing.DEFAULT)
    base.mkdir(parents=True)
    (base / "config.json").write_text("{}")
    monkeypatch.setattr(proposing, "SHIPPED", tmp_path / "nothing")
    assert proposing.located(None) == proposing.DEFAULT
    monkeypatch.setattr(proposing, "SHIPPED", tmp_path / "shipped")
    compress(adapter, tmp_path / "shipped" / base.name, base.name)
    assert proposing.located(None) == str(tmp_path / "shipped" / base.name)
    assert adapters.base_of(tmp_path / "shipped" / base.name) == proposing.DEFAULT
    monkeypatch.setenv(proposing.VARIABLE, proposing.DEFAULT)
    assert proposing.located(None) == proposing.DEFAULT
