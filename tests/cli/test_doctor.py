"""`autotriton doctor`: the machine, the sandbox, and an exit code one can rely on."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest


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
