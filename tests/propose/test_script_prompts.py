"""What a model is asked about a script task, and what is taken out of its answer."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))

from golds import KERNELS, T_ANSWER, G, T, task

from autotriton.data.wrappers import wording
from autotriton.propose.extract import extract
from autotriton.propose.prompt import SCRIPT_FILE, TRAINED_ON, Prompts, shipped_prompt, wanted
from autotriton.types import Attempt, Candidate, Outcome, Policy, Tier, Verdict

DESCRIBED = """import torch, triton

class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w=None):
        return x

run = F.apply

@triton.jit
def kernel(x_ptr, n):
    pass

class M(torch.nn.Module):
    def __init__(self, size):
        pass
"""


def test_instruction_is_given_verbatim_with_the_signatures_the_test_needs() -> None:
    text = Prompts().rewrite(G)
    assert text.startswith("Write it.")
    assert "def add(x, y): ..." in text
    assert "def add_into(x, y, out): ..." in text
    assert "def softmax(x): ..." in text
    assert "_softmax_kernel" not in text


def test_no_line_of_the_gold_or_its_test_reaches_the_model() -> None:
    verdict = Verdict(outcome=Outcome.WRONG, message="wrong on call 1", policy=Policy.STRICT, tier=Tier.RUN)
    attempt = Attempt(run_id="r", task=T, candidate=Candidate(task_id=T.id, code=T_ANSWER), verdict=verdict)
    for text in (Prompts().rewrite(T), Prompts().refine(T, attempt)):
        assert "torch.add(input" not in text
        assert "test_scaled_add" not in text
        assert "Write it." in text


def test_program_without_a_module_is_extracted() -> None:
    names = wanted(T).accepted
    assert names == ("scaled_add",)
    answer = f"Here it is.\n```python\nprint('no')\n```\nand\n```python\n{T_ANSWER}```\n"
    assert extract(answer, names) == T_ANSWER


def test_classes_kernels_and_applied_functions_are_described() -> None:
    source = DESCRIBED
    text = Prompts().rewrite(task(source, "\nrun(1)\nkernel[(1,)](1, 2)\nM(3)\n"))
    assert "run = F.apply  # takes (x, w)" in text
    assert "@triton.jit\ndef kernel(x_ptr, n): ..." in text
    assert "class M(torch.nn.Module):\n    def __init__(self, size): ..." in text


def test_a_trained_model_is_asked_as_its_rows_ask(tmp_path) -> None:
    shipped = tmp_path / SCRIPT_FILE
    shipped.write_text(shipped_prompt(TRAINED_ON[SCRIPT_FILE]))
    prompts = Prompts(script=shipped)
    text = prompts.rewrite(T)
    assert text.startswith(wording._LEADS[-1])
    assert wording._DEFINE[0].format(name="scaled_add", signature="input, other, alpha=1.0") in text
    closing = text.rpartition("`.")[2].strip()
    known = (wording._RULES, wording._GENERAL, wording._ENDINGS)
    assert closing in {" ".join(said) for said in itertools.product(*known)}
    several = prompts.rewrite(task(DESCRIBED, "\nrun(1)\nkernel[(1,)](1, 2)\nM(3)\n"))
    assert "class M(torch.nn.Module):\n    def __init__(self, size): ..." in several


def test_a_test_that_uses_nothing_asks_for_everything() -> None:
    assert "add_into" in wanted(task(KERNELS, "\nprint(1)\n")).accepted
