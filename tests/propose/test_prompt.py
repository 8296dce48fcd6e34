"""What a model is asked, and that what we tell it about Triton and the judge is true."""

from pathlib import Path

import pytest

from autotriton.errors import UsageError
from autotriton.propose.extract import blocks
from autotriton.propose.prompt import AVAILABLE, INVENTED, Prompts, feedback, fenced, wanted
from autotriton.types import Attempt, Candidate, Check, Finding, Mode, Outcome, Policy, Severity, Task, Tier, Verdict

SOURCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
TASK = Task(id="double", source=SOURCE)
FUNCTION = Task(id="mine:rms_norm", source="def rms_norm(x, w):\n    return x * w\n", entry="rms_norm")


def verdict(
    outcome: Outcome = Outcome.WRONG, message: str = "wrong on case wide: the output is all zeros", **more: object
) -> Verdict:
    return Verdict.model_validate(
        {"outcome": outcome, "message": message, "policy": Policy.STRICT, "tier": Tier.RUN, **more}
    )


def attempt(code: str = "a = 1\nb = 2\n", answer: Verdict | None = None) -> Attempt:
    candidate = Candidate(task_id=TASK.id, code=code)
    return Attempt(run_id="run", task=TASK, candidate=candidate, verdict=answer or verdict())


def test_the_first_question_holds_the_task_the_rules_and_an_example():
    text = Prompts().rewrite(TASK)
    assert SOURCE.strip() in text
    assert "`ModelNew`" in text
    assert "mean_square_kernel" in text
    assert "`tl.relu`" in text
    assert "TF32" in text
    assert "$" not in text


def test_a_refinement_holds_the_attempt_and_what_the_judge_said():
    text = Prompts().refine(TASK, attempt())
    assert "a = 1\nb = 2" in text
    assert "the output is all zeros" in text
    assert SOURCE.strip() in text
    assert "$" not in text


def test_an_attempt_without_code_is_said_to_be_one():
    text = Prompts().refine(TASK, attempt(code="", answer=verdict(Outcome.NO_CODE, "the candidate holds no code")))
    assert "your answer held no code" in text


def test_dollars_and_braces_in_the_task_are_left_alone():
    task = TASK.model_copy(update={"source": "x = '$task ${code} {y} $$'\n"})
    assert "x = '$task ${code} {y} $$'" in Prompts().rewrite(task)


def test_functions_are_asked_for_as_functions():
    assert wanted(FUNCTION).name == "rms_norm_new"
    assert wanted(FUNCTION).accepted == ("rms_norm_new", "ModelNew", "rms_normNew", "rms_norm")
    assert "Write a function `rms_norm_new`" in Prompts().rewrite(FUNCTION)


def test_other_classes_and_unknown_entries_are_asked_for_as_modules():
    task = Task(id="net:Block", source="class Block:\n    pass\n", entry="Block")
    assert wanted(task).name == "ModelNew"
    assert "Block" in wanted(task).accepted
    assert wanted(task.model_copy(update={"source": "def ("})).name == "ModelNew"
    assert wanted(TASK).accepted == ("ModelNew",)


def test_mode_precision_and_instruction_of_the_task_are_told():
    task = TASK.model_copy(update={"mode": Mode.EVAL, "tf32": True, "instruction": "Mind the tails."})
    text = Prompts().rewrite(task)
    assert "evaluation mode" in text
    assert "TF32 is permitted" in text
    assert "Mind the tails." in text


def test_feedback_names_the_line_it_speaks_of():
    found = Finding(rule="torch-compute", severity=Severity.ERROR, message="left to torch", line=2)
    other = Finding(rule="import", severity=Severity.ERROR, message="not allowed", line=1)
    mild = Finding(rule="style", severity=Severity.WARNING, message="a matter of taste", line=1)
    text = feedback(
        verdict(Outcome.REJECTED, "line 2: left to torch", findings=(found, other, mild)), "a = 1\n  b = 2\n"
    )
    assert "Outcome: rejected." in text
    assert "line 2 (`b = 2`): left to torch" in text
    assert "line 1 (`a = 1`): not allowed" in text
    assert text.count("left to torch") == 1
    assert "taste" not in text


def test_feedback_tells_sizes_of_errors_and_what_passed():
    checks = (
        Check(inputs="draw#1", passed=True),
        Check(inputs="wide", passed=False, max_error=0.5, allowed_error=1e-5),
    )
    text = feedback(verdict(checks=checks), "")
    assert "case wide: largest error 0.5, at most 1e-05 is accepted" in text
    assert "cases that passed: draw#1" in text


def test_long_feedback_is_cut():
    assert len(feedback(verdict(message="x" * 100_000), "")) < 5000


def test_a_line_that_is_not_there_is_not_quoted():
    assert "line 99: odd" in feedback(verdict(message="line 99: odd"), "a = 1")


def test_code_with_fences_gets_a_longer_fence():
    code = '"""\n```python\nx\n```\n"""'
    assert [block.text for block in blocks(fenced(code))] == [code]


def test_own_templates_are_used(tmp_path):
    rewrite, refine = tmp_path / "rewrite.md", tmp_path / "refine.md"
    rewrite.write_text("Costs $$5: ${task} as $wanted", encoding="utf-8")
    refine.write_text("$task|$code|$feedback", encoding="utf-8")
    prompts = Prompts(rewrite, refine)
    assert prompts.rewrite(TASK).startswith("Costs $5: ```python\nimport torch")
    assert "all zeros" in prompts.refine(TASK, attempt())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$task $code", "unknown placeholder \\$code"),
        ("$task $taks", "unknown placeholder \\$taks"),
        ("no placeholder", "lacks the placeholder \\$task"),
        ("$task costs $5", "starts no placeholder"),
    ],
)
def test_a_template_with_wrong_placeholders_is_an_error(tmp_path, text, said):
    path = tmp_path / "own.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        Prompts(path)


def test_a_refinement_template_needs_code_and_feedback(tmp_path):
    path = tmp_path / "own.md"
    path.write_text("$task $code", encoding="utf-8")
    with pytest.raises(UsageError, match=r"lacks the placeholder \$feedback"):
        Prompts(refine=path)


def test_a_template_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        Prompts(Path("nowhere.md"))
    (tmp_path / "own.md").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UsageError, match="not UTF-8"):
        Prompts(tmp_path / "own.md")


@pytest.mark.interp
def test_what_is_said_about_triton_is_true():
    import triton.language as tl

    assert [name for name in AVAILABLE.split() if not hasattr(tl, name)] == []
    assert [name for name in INVENTED.split() if hasattr(tl, name)] == []


@pytest.mark.interp
def test_the_worked_example_is_accepted_by_the_judge():
    from autotriton.judge import JudgeOptions, judge

    example = Prompts().rewrite(TASK).partition("# An example")[2].partition("# Your task")[0]
    original, answer = (block.text for block in blocks(example))
    found = judge(Task(id="example", source=original), answer, JudgeOptions(timeout_s=60))
    assert found.accepted, found.message
