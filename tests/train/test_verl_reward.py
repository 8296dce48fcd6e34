"""verl's reward function as verl calls it: many answers at once on an event loop, judged for real."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from autotriton.errors import UsageError
from autotriton.train import verl_reward
from autotriton.train.verl_reward import Settings, compute_score, environment

JUDGE = {"device": "cpu", "tier": "interpret", "workers": 2, "timeout_s": 10.0}
TORCH_ONLY = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.exp(x)\n"


def fenced(code: str) -> str:
    return f"<think>```python\nimport os\n```</think>A plan.\n\n```python\n{code}```\n"


def score(truth: Any, answer: str, **settings: Any) -> Any:
    return compute_score("synth", answer, truth, {"index": 0}, **{"judge": JUDGE, **settings})


@pytest.fixture(scope="module")
def truth(workshop: Any) -> str:
    row = workshop.tiny.rows()[0]
    return json.dumps({"id": row.id, "source": row.source, "entry": row.entry, "mode": row.mode})


@pytest.mark.slow
def test_answers_of_all_kinds_are_scored_together_and_a_dead_judge_costs_none(workshop: Any, truth: str) -> None:
    row = workshop.tiny.rows()[0]
    right, wrong = workshop.tiny.examples()[0].code, workshop.tiny.CODE.format(value="x")
    answers = [fenced(right), fenced(wrong), fenced(TORCH_ONLY), "I cannot.", "```python\ndef broken(:\n```", ""]

    async def together() -> list[Any]:
        judged = [score(truth, answer) for answer in answers]
        broken = [score("{no JSON", fenced(right)), score('{"id": "x"}', fenced(right))]
        about = {"id": "x", "entry": "Model", "mode": "train", "index": 0}
        plain = compute_score("synth", fenced(right), row.source, about, judge=JUDGE)
        return await asyncio.gather(*judged, *broken, plain)

    found = asyncio.run(together())
    assert [one["score"] for one in found] == [1.0] + [0.0] * 7 + [1.0]
    assert [one["rule"] for one in found] == [1.0, 1.0] + [0.0] * 6 + [1.0]
    assert [one["cheated"] for one in found] == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert [one["unscored"] for one in found] == [0.0] * 6 + [1.0] * 2 + [0.0]
    assert [one["outcome"] for one in found[:4]] == ["correct", "wrong", "rejected", "no_code"]
    assert len({tuple(one) for one in found}) == 1, "verl stacks the keys"
    assert all(isinstance(value, float | str) for one in found for value in one.values())

    [bench] = [bench for bench in verl_reward._benches.values() if bench.settings.judge.workers == 2]
    child = bench.asking._child
    assert child is not None

    async def killed() -> Any:
        asked = asyncio.create_task(score(truth, fenced(right)))
        await asyncio.sleep(0)
        child.process.kill()
        return await asked

    assert asyncio.run(killed())["score"] == 1.0, "another loop, another judge, the same answer"
    assert bench.asking._child is not child
    bench.asking.close()


def test_a_wrong_setting_is_told_and_not_scored_zero() -> None:
    with pytest.raises(UsageError, match=r"reward_kwargs has the unknown key judge\.polcy \(did you mean policy\?\)"):
        asyncio.run(score("{}", "", judge={"polcy": "strict"}))
    with pytest.raises(UsageError, match="unknown key timeout"):
        asyncio.run(score("{}", "", timeout=3))
    with pytest.raises(UsageError, match=r"needs judge\.tier"):
        asyncio.run(score("{}", "", reward={"speed": 0.5}))


def test_the_judge_sees_a_gpu_where_ray_hid_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES" not in environment(())
    assert environment((5, 7))["CUDA_VISIBLE_DEVICES"] in ("5", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert environment(Settings().gpus)["CUDA_VISIBLE_DEVICES"] == "2,3"
