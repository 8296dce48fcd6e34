"""`autotriton doctor`: the machine, the sandbox, and an exit code one can rely on."""

from __future__ import annotations

import json
import py_compile
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest

from autotriton import machine


@dataclass(frozen=True)
class Probe:
    name: str
    passed: bool
    detail: str = ""


@pytest.fixture
def probes(monkeypatch):
    """The self-check's answers, to be filled in by the test."""
    answers: list[Probe] = []
    module = ModuleType("autotriton.judge.sandbox")
    module.__dict__.update(detect=lambda: "namespaces", selfcheck=SimpleNamespace(run=lambda: iter(answers)))
    monkeypatch.setitem(sys.modules, "autotriton.judge", ModuleType("autotriton.judge"))
    monkeypatch.setitem(sys.modules, "autotriton.judge.sandbox", module)
    return answers


def test_sandbox_that_holds_is_exit_0(run, probes):
    probes.append(Probe("network", True, "unreachable"))
    code, out, _ = run("doctor")
    assert code == 0
    assert "passed  network: unreachable" in out
    assert "namespaces" in out
    assert "torch" in out
    assert "GPU" in out


def test_one_failed_probe_is_exit_3_and_the_rest_is_still_shown(run, probes):
    probes += [Probe("files", False, "read the home folder"), Probe("network", True)]
    code, out, _ = run("doctor")
    assert code == 3
    assert "failed  files: read the home folder" in out
    assert "passed  network" in out


def test_self_check_that_checks_nothing_is_no_pass(run, probes):
    assert run("doctor")[0] == 3


def test_json_holds_the_same(run, probes):
    probes.append(Probe("network", True, "unreachable"))
    code, out, err = run("doctor", "--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["sandbox"] == "namespaces"
    assert answer["passed"] is True
    assert answer["probes"] == [{"name": "network", "passed": True, "detail": "unreachable"}]
    assert answer["machine"]["python"]
    assert answer["versions"]["torch"]


def test_packages_without_bytecode_are_named_with_the_remedy(run, probes, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    probes.append(Probe("network", True))
    monkeypatch.setattr(machine, "LARGE_PACKAGES", ("heavy_package", "not_installed"))
    (tmp_path / "heavy_package").mkdir()
    (tmp_path / "heavy_package/__init__.py").write_text("")
    code, out, _ = run("doctor")
    assert code == 0
    assert f"python -m compileall -q {tmp_path / 'heavy_package'}" in " ".join(out.split())
    assert json.loads(run("doctor", "--json")[1])["uncompiled"] == [str(tmp_path / "heavy_package")]
    py_compile.compile(str(tmp_path / "heavy_package/__init__.py"))
    assert "compileall" not in run("doctor")[1]
