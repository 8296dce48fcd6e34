"""Harvest over small packages of our own: what closes, what does not, and what breaks nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autotriton.data.harvest import Report, harvest
from autotriton.errors import UsageError

MIT = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"
HELPERS = '''
import torch
EPS = 1e-5

def scaled(x, factor):
    """Documentation."""
    return torch.exp(x) * factor + EPS
'''
LAYERS = '''
"""Layers."""
import torch
from torch import nn
import torch.nn.functional as F
from typing import Optional
from .helpers import scaled
from .registry import register
try:
    import fastlib
    has_fast = True
except ImportError:
    has_fast = False

@register("gate")
class Gate(nn.Module):
    """Gates."""
    def __init__(self, dim: int, hidden_features: int, act_layer=nn.GELU, drop: float = 0.1):
        super().__init__()
        self.fc = nn.Linear(dim, hidden_features)
        self.act = act_layer()
        self.drop = nn.Dropout(drop)

    def forward(self, x: torch.Tensor) -> Optional["torch.Tensor"]:
        if has_fast:
            return fastlib.gate(x)
        return scaled(self.drop(self.act(self.fc(x))), 0.5)

class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states):
        return self.norm(hidden_states)

class Foreign(nn.Module):
    def forward(self, x):
        return fastlib.something(x)

class Unknown(nn.Module):
    def __init__(self, mystery):
        super().__init__()
        self.mystery = mystery

    def forward(self, x):
        return x * self.mystery

def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

def load_weights(path):
    return torch.load(path)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "thing"
    root.mkdir()
    (root / "__init__.py").write_text('__version__ = "1.2"\n')
    (root / "LICENSE").write_text(MIT)
    (root / "helpers.py").write_text(HELPERS)
    (root / "layers.py").write_text(LAYERS)
    (root / "registry.py").write_text("import os\ndef register(name):\n    return lambda kind: kind\n")
    return root


def _by_entry(folder: Path, report: Report | None = None) -> dict[str, object]:
    return {draft.task.entry: draft for draft in harvest([folder], report)}


def test_classes_and_functions_come_out_self_contained(package: Path) -> None:
    report = Report()
    found = _by_entry(package, report)
    assert set(found) == {"scaled", "Gate", "Configured", "Foreign", "rotate_half"}
    assert report.drafts == 5
    assert report.packages == ["thing 1.2"]
    for draft in found.values():
        tree = ast.parse(draft.task.source)
        imported = {
            alias.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert all(name.split(".")[0] in ("torch", "types") for name in imported), imported


def test_origin_version_and_licence_are_recorded(package: Path) -> None:
    draft = _by_entry(package)["Gate"]
    assert draft.licence == "MIT"
    assert draft.origin == "thing 1.2 thing/layers.py:Gate"
    assert "from thing 1.2" in draft.task.source
    assert draft.task.mode == "eval"


def test_helpers_constants_and_failed_imports_are_inlined(package: Path) -> None:
    text = _by_entry(package)["Gate"].task.source
    assert text.index("EPS = ") < text.index("def scaled") < text.index("class Gate")
    assert "has_fast = False" in text
    assert "fastlib = None" in text
    assert "@register" not in text
    assert "Documentation" not in text


def test_constructor_arguments_and_inputs_are_guessed_by_name(package: Path) -> None:
    found = _by_entry(package)
    assert "'dim': 32, 'hidden_features': 64, 'drop': 0.0" in found["Gate"].task.source
    assert "SimpleNamespace(hidden_size=32, layer_norm_eps=1e-5)" in found["Configured"].task.source
    assert len(found["Gate"].alternatives) >= 5
    assert len({found["Gate"].task.source, *found["Gate"].alternatives}) == len(found["Gate"].alternatives) + 1


def test_what_gives_no_draft_is_counted(package: Path) -> None:
    report = Report()
    _by_entry(package, report)
    assert report.left_out.total() == report.seen - report.drafts
    assert report.left_out["constructor argument"] == 1


def test_broken_files_are_named_and_the_rest_comes(package: Path) -> None:
    (package / "broken.py").write_text("def f(:\n")
    (package / "odd.py").write_bytes(b"# -*- coding: latin-9x -*-\nx = 1\n")
    (package / "binary.py").write_bytes(b"\xff\xfe\x00\x01")
    report = Report()
    assert "Gate" in _by_entry(package, report)
    assert {Path(problem.path).name for problem in report.problems} == {"broken.py", "odd.py", "binary.py"}
    assert "3 broken files" in report.line()


def test_a_package_without_a_permissive_licence_gives_nothing(package: Path) -> None:
    (package / "LICENSE").write_text("GNU GENERAL PUBLIC LICENSE Version 3")
    report = Report()
    assert _by_entry(package, report) == {}
    assert "thing 1.2" in report.refused
    assert "refused: thing 1.2" in report.line()


def test_stars_and_reexports_are_followed(package: Path) -> None:
    (package / "star.py").write_text("from .helpers import *\ndef doubled(x):\n    return scaled(x, 2.0).sum(-1)\n")
    (package / "sub").mkdir()
    (package / "sub" / "__init__.py").write_text("from thing.helpers import scaled\n")
    (package / "user.py").write_text("from .sub import scaled\ndef tripled(x):\n    return scaled(x, 3.0).exp()\n")
    found = _by_entry(package)
    assert "def scaled" in found["doubled"].task.source
    assert "def scaled" in found["tripled"].task.source


def test_an_asker_adds_texts_where_names_say_nothing(package: Path) -> None:
    asked = []

    def ask(text: str, name: str) -> list[str]:
        asked.append(name)
        return ["def get_init_inputs():\n    return [3.0]\n\n\ndef get_inputs():\n    return [torch.randn(4)]"]

    drafts = {draft.task.entry: draft for draft in harvest([package], ask=ask)}
    assert "return [3.0]" in drafts["Unknown"].task.source
    assert "Gate" in asked


def test_a_folder_without_a_package_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no Python package"):
        list(harvest([tmp_path]))
    with pytest.raises(UsageError, match="is not a folder"):
        list(harvest([tmp_path / "nothing"]))
