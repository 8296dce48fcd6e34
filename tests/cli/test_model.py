"""`autotriton model` as a user calls it: what it prints, its exit codes, and that it starts at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from autotriton.errors import PrerequisiteError
from autotriton.models.files import require


@pytest.fixture
def models(tmp_path):
    """A checkpoint made elsewhere, an adapter, a GGUF file, and what a killed pull left."""
    place = tmp_path / "models"
    (place / "own").mkdir(parents=True)
    (place / "own" / "config.json").write_text("{}")
    (place / "adapter").mkdir()
    (place / "adapter" / "adapter_config.json").write_text('{"base_model_name_or_path": "models/own"}')
    (place / "some.gguf").write_bytes(b"x" * 2_500_000)
    (place / "other.gguf.parts").mkdir()
    (place / "readme.txt").write_text("no model")
    return place


def test_help_answers_without_torch():
    code = (
        "import sys; from autotriton.cli.main import main; code = main(['model', 'pull', '--help']);"
        "sys.exit(code or 'torch' in sys.modules or 'transformers' in sys.modules)"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0
    assert "--from" in child.stdout


def test_list_shows_kinds_sizes_and_bases(run, models):
    code, out, _ = run("model", "list", models)
    assert code == 0
    lines = {line.split()[0]: line.split() for line in out.splitlines()[1:]}
    assert lines["adapter"][1:] == ["adapter", "0.0", "MB", "-", "adapter", "of", "models/own"]
    assert lines["some.gguf"][1:4] == ["gguf", "2.5", "MB"]
    assert lines["own"][1] == "checkpoint"
    assert lines["other.gguf.parts"][1] == "incomplete"
    assert "readme.txt" not in lines
    code, out, _ = run("model", "list", models, "--json")
    assert {entry["name"]: entry["base"] for entry in json.loads(out)}["adapter"] == "models/own"
    assert run("model", "list", models / "nothing")[:2] == (0, f"no models in {models / 'nothing'}\n")


def test_pack_and_unpack_say_what_they_made(run, models, tmp_path):
    code, out, _ = run("model", "pack", models / "some.gguf", tmp_path / "packed", "--part-size", "1MB", "--json")
    assert code == 0
    assert json.loads(out) == {"folder": str(tmp_path / "packed"), "parts": 3, "files": 1}
    code, out, _ = run("model", "unpack", tmp_path / "packed", tmp_path / "back.gguf")
    assert (code, out) == (0, f"unpacked  {tmp_path / 'back.gguf'}\n")
    assert (tmp_path / "back.gguf").read_bytes() == (models / "some.gguf").read_bytes()


def test_a_failed_compression_leaves_nothing(run, models, tmp_path):
    pytest.importorskip("safetensors.torch")
    (models / "adapter" / "adapter_model.safetensors").write_bytes(b"cut off")
    code, _, err = run("model", "compress", models / "adapter", tmp_path / "small")
    assert code == 2
    assert "adapter_model.safetensors is damaged" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["pull", "gpt-5"], ["unknown model 'gpt-5'", "smollm2-135m"]),
        (["pull", "smollm2-135m", "--from", "moon"], ["moon", "hub", "index"]),
        (["convert", "nowhere.gguf", "out"], ["nowhere.gguf does not exist"]),
        (["merge", "nowhere", "out"], ["nowhere holds no adapter"]),
        (["pack", "nowhere", "out"], ["nowhere does not exist"]),
        (["pack", "pyproject.toml", "out", "--part-size", "much"], ["'much' is no size"]),
        (["unpack", "nowhere"], ["manifest.json cannot be read"]),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_2(run, args, words):
    code, out, err = run("model", *args)
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert all(word in err for word in words), err


def test_a_missing_package_is_named_with_what_to_install():
    with pytest.raises(PrerequisiteError, match=r"reading needs the `no_such_thing` package.*autotriton\[train\]"):
        require("json", "no_such_thing", what="reading")
