"""Proposers by name, and settings that are wrong."""

import importlib.util
import subprocess
import sys

import pytest

from autotriton.errors import PrerequisiteError, ProposerError, UsageError
from autotriton.propose.compiler import CompilerProposer
from autotriton.propose.endpoint import EndpointProposer
from autotriton.propose.files import FilesProposer
from autotriton.propose.model import DEFAULT, ModelProposer
from autotriton.propose.proposers import FORMS, parse

HAS_OPENAI = importlib.util.find_spec("openai") is not None
needs_openai = pytest.mark.skipif(not HAS_OPENAI, reason="needs the endpoint extra")
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the train extra"
)


def test_files_are_replayed_from_the_folder_after_the_colon(tmp_path):
    proposer = parse(f"files:{tmp_path}")
    assert isinstance(proposer, FilesProposer)
    assert proposer.folder == tmp_path


@pytest.mark.parametrize("spec", ["compiler", "compiler:inductor", "compiler:templates"])
def test_the_compiler_is_named_with_or_without_an_engine(spec):
    assert isinstance(parse(spec), CompilerProposer)
    assert parse(spec).on_gpu
    assert not parse(spec, on_gpu=False).on_gpu


@needs_openai
def test_an_endpoint_has_a_url_and_a_model():
    proposer = parse("endpoint:http://127.0.0.1:8000/v1#org/model:tag", samples=2, batch=4)
    assert isinstance(proposer, EndpointProposer)
    assert (proposer.url, proposer.model) == ("http://127.0.0.1:8000/v1", "org/model:tag")
    assert proposer.settings.samples == 2
    assert proposer.name == "endpoint:http://127.0.0.1:8000/v1#org/model:tag"


@needs_openai
@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("https://api.example.com/openai/v1/", "https://api.example.com/openai/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_a_url_without_a_path_means_v1(url, base):
    assert EndpointProposer(url, "m").url == base


@needs_transformers
def test_a_model_is_a_folder_or_a_name_on_the_hub(tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    proposer = parse(f"model:{tmp_path}", temperature=0, samples=1, retries=9)
    assert isinstance(proposer, ModelProposer)
    assert proposer.path == str(tmp_path)
    assert proposer.settings.temperature == 0
    assert parse("model:Qwen/Qwen2.5-Coder-1.5B-Instruct").path == "Qwen/Qwen2.5-Coder-1.5B-Instruct"


@needs_transformers
def test_without_a_path_the_variable_or_the_usual_folder_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOTRITON_MODEL", raising=False)
    with pytest.raises(ProposerError, match="AUTOTRITON_MODEL is not set"):
        parse("model")
    usual = tmp_path / DEFAULT
    usual.mkdir(parents=True)
    (usual / "config.json").write_text("{}", encoding="utf-8")
    assert parse("model").path == DEFAULT
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("AUTOTRITON_MODEL", str(own))
    assert parse("model").path == str(own)


@pytest.mark.parametrize("spec", ["", "gpt", "Compiler", "endpoints:x#y", ":x"])
def test_an_unknown_proposer_lists_the_known_forms(spec):
    with pytest.raises(UsageError) as caught:
        parse(spec)
    assert all(form in str(caught.value) for form in FORMS)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("compiler:mlir", "no engine 'mlir'"),
        ("endpoint:", "lacks a URL"),
        ("endpoint:http://here/v1", "lacks the model"),
        ("endpoint:http://here/v1#", "lacks the model"),
        ("endpoint:localhost:8000#m", "URL 'localhost:8000'"),
        ("endpoint:ftp://here#m", "URL 'ftp://here'"),
        ("endpoint:http://me:secret@here/v1#m", "user name or password"),
        ("endpoint:http://here:99999/v1#m", "URL"),
        ("endpoint:http://[::1/v1#m", "URL"),
        ("endpoint:http://here/v1?x=1#m", "query"),
        ("files:", "lacks a folder"),
        ("files:/nowhere/at/all", "does not exist"),
    ],
)
def test_a_spec_that_lacks_something_says_what(spec, said):
    with pytest.raises(UsageError, match=said) as caught:
        parse(spec)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nowhere/at/all", "does not exist"),
        ("./nowhere", "does not exist"),
        ("a/b/c", "does not exist"),
        (".", "holds no model"),
    ],
)
def test_a_model_that_is_not_there_is_one_clear_line(path, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProposerError, match=said):
        parse(f"model:{path}")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"samples": 0}, "samples: .*greater than or equal to 1"),
        ({"temperature": 3.0}, "temperature"),
        ({"temperature": "hot"}, "temperature: .*number"),
        ({"samples": 2, "temperature": 0}, "needs a temperature above 0"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"sample": 3}, "unknown proposer setting sample"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(settings, said):
    with pytest.raises(UsageError, match=said):
        parse("endpoint:http://here/v1#m", **settings)


def test_a_missing_package_names_the_command_that_installs_it(monkeypatch, tmp_path):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("openai", "peft") else real(name))
    with pytest.raises(PrerequisiteError, match=r"autotriton\[endpoint\]"):
        parse("endpoint:http://here/v1#m")
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(PrerequisiteError, match=r"autotriton\[train\]"):
        parse(f"model:{tmp_path}")


def test_naming_a_proposer_imports_nothing_heavy(tmp_path):
    code = f"""
import sys
from autotriton.propose.proposers import parse
parse("compiler:inductor"); parse({f"files:{tmp_path}"!r})
assert not {{"torch", "transformers", "openai"}} & set(sys.modules), "heavy import"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
