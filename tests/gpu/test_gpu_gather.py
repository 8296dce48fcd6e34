"""Gathering on a GPU: a task that ends its CUDA context costs itself only."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotriton.data.gather import GatherOptions, gather, gathered, refusals
from autotriton.data.records import Draft, SourceKind
from autotriton.types import Task

pytestmark = pytest.mark.gpu

_TASK = "import torch\n\n\ndef run(x):\n    return {}\n\n\ndef get_inputs():\n    return [torch.randn(64)]\n"
_FINE, _LOST = "torch.tanh(x) + {}", "x[torch.tensor([99], device=x.device)]"


def draft(name: str, source: str) -> Draft:
    return Draft(task=Task(id=name, source=source, entry="run"), kind=SourceKind.SYNTH, origin=name, licence="MIT")


def test_a_lost_context_costs_the_draft_that_lost_it(tmp_path: Path) -> None:
    bodies = {"before": _FINE.format(1), "lost": _LOST, "after": _FINE.format(2)}
    drafts = [draft(name, _TASK.format(body)) for name, body in bodies.items()]
    gather(drafts, tmp_path, GatherOptions(device="cuda"), workers=1)
    assert [row.task.id for row in gathered(tmp_path)] == ["before", "after"]
    assert [refusal.task_id for refusal in refusals(tmp_path)] == ["lost"]
