"""The judge beside a training run: real verdicts, and what happens when things go wrong."""

from __future__ import annotations

from typing import Any

import pytest

from autotriton.train.config import JudgePart, RewardPart
from autotriton.train.grading import Grader, judge_options
from autotriton.types import Outcome

pytestmark = pytest.mark.slow
TORCH_ONLY = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.exp(x)\n"
PART = JudgePart(device="cpu", tier="interpret", timeout_s=10.0)


def test_every_answer_gets_its_grade_whatever_it_is(workshop: Any) -> None:
    row, example = workshop.tiny.rows()[0], workshop.tiny.examples()[0]
    wrong = workshop.tiny.CODE.format(value="x")
    codes = [example.code, wrong, "", "def broken(:", TORCH_ONLY, example.code]
    with Grader(judge_options(PART), workers=2) as grader:
        for number, code in enumerate(codes):
            grader.submit(number, row.task(), code)
        grades = {grade.number: grade for grade in grader.collect()}
        assert [grades[n].verdict.outcome for n in range(6)] == [
            Outcome.CORRECT, Outcome.WRONG, Outcome.NO_CODE, Outcome.REJECTED, Outcome.REJECTED, Outcome.CORRECT,
        ]  # fmt: skip
        # A judge that dies costs the answers it had, and the next one is judged again.
        grader._process.kill()
        grader.submit(7, row.task(), example.code)
        assert [grade.number for grade in grader.collect()] == [7]
        grader.submit(8, row.task(), wrong)
        [grade] = grader.collect()
        assert grade.verdict is not None


def test_nobody_waits_for_what_a_judge_that_died_had(workshop: Any) -> None:
    row, example = workshop.tiny.rows()[0], workshop.tiny.examples()[0]
    with Grader(judge_options(PART), workers=1) as grader:
        grader.submit(1, row.task(), example.code)
        grader._process.kill()
        grader._process.wait()
        grader.submit(2, row.task(), example.code)
        first, second = sorted(grader.collect([1, 2]), key=lambda grade: grade.number)
        assert first.verdict is None
        assert first.error == "the judge's process ended"
        assert second.verdict is not None
        assert second.verdict.accepted


def test_without_the_rule_reward_a_program_without_triton_can_pass(workshop: Any) -> None:
    row = workshop.tiny.rows()[0]
    with Grader(judge_options(PART, RewardPart(rule=False)), workers=1) as grader:
        grader.submit(0, row.task(), TORCH_ONLY)
        [grade] = grader.collect()
    assert grade.verdict is not None
    assert grade.verdict.outcome is Outcome.CORRECT
