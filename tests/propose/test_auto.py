"""What `auto` stands for."""

from __future__ import annotations

import pytest

from autotriton.errors import UsageError
from autotriton.propose import auto, model, proposers


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A model's folder where `model` finds it; nothing is loaded from it."""
    monkeypatch.setenv(model.VARIABLE, str(tmp_path))
    (tmp_path / "config.json").write_text("{}")


def no_gpu_is_looked_for():
    raise AssertionError("without weights the GPU does not matter")


def test_the_model_joins_where_its_weights_and_a_gpu_are_here(weights):
    assert auto.expanded(["auto"], lambda: True) == ["compiler", "model"]
    assert auto.expanded(["auto"], lambda: False) == ["compiler"]


def test_without_weights_it_is_the_compiler_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(model.VARIABLE, str(tmp_path / "nowhere"))
    assert auto.expanded(["auto"], no_gpu_is_looked_for) == ["compiler"]
    monkeypatch.delenv(model.VARIABLE)
    monkeypatch.chdir(tmp_path)
    assert auto.expanded(["auto"], no_gpu_is_looked_for) == ["compiler"]


def test_others_stay_and_nobody_is_asked_twice(weights):
    asked = ["files:answers", "compiler", "auto", "files:answers"]
    assert auto.expanded(asked, lambda: True) == ["files:answers", "compiler", "model"]


def test_where_one_proposer_is_wanted_auto_is_none():
    with pytest.raises(UsageError, match="several proposers"):
        proposers.parse("auto")
