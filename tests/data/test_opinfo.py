"""Tasks out of PyTorch's operator database."""

from __future__ import annotations

import ast

import pytest

from autotriton.data import opinfo
from autotriton.data.records import SourceKind
from autotriton.errors import PrerequisiteError

pytestmark = pytest.mark.interp


def test_samples_become_single_operator_tasks() -> None:
    drafts = list(opinfo.drafts(only=("softmax", "nn.functional.conv2d", "svd"), per_operator=3))
    by_operator: dict[str, int] = {}
    for draft in drafts:
        name = draft.ops[0].split(".with_dtype")[0]
        by_operator[name] = by_operator.get(name, 0) + 1
        tree = ast.parse(draft.task.source)
        assert {"op_task", "get_inputs"} <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert draft.kind is SourceKind.OPINFO
        assert draft.licence == "BSD-3-Clause"
        assert "op_db" in draft.origin
    assert by_operator["nn.functional.conv2d"] == 3
    assert "svd" not in by_operator
    assert len({draft.task.source for draft in drafts}) == len(drafts)
    assert any("F.conv2d(x0, x1" in draft.task.source for draft in drafts)


def test_a_torch_without_the_database_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opinfo, "child_command", lambda module: ["python3", "-c", "raise ImportError('no op_db')"])
    with pytest.raises(PrerequisiteError, match="cannot be read: ImportError: no op_db"):
        list(opinfo.drafts())
