"""Script tasks end to end, in the interpreter: golds pass, and what only looks like an answer does not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from golds import KERNELS, T_ANSWER, T_GOLD, T_TEST, G, T, task

from autotriton.bench.examine import Examined, Job
from autotriton.bench.scripts import ScriptExaminer
from autotriton.judge.scripts import court
from autotriton.judge.scripts.official import failed
from autotriton.types import Candidate, Official, Outcome, Policy, Task

Examine = Callable[[Task, str], Examined]
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def strict() -> Iterator[ScriptExaminer]:
    examiner = ScriptExaminer(Policy.STRICT, "cpu", 2, TIMEOUT_S)
    yield examiner
    examiner.close()


@pytest.fixture(scope="module")
def trusting() -> Iterator[ScriptExaminer]:
    examiner = ScriptExaminer(Policy.STRICT, "cpu", 2, TIMEOUT_S, trust_candidate=True)
    yield examiner
    examiner.close()


def one(examiner: ScriptExaminer, given: Task, code: str) -> Examined:
    job = Job(0, given, Candidate(task_id=given.id, code=code))
    return next(iter(examiner.examine([job])))


def outcome(examined: Examined) -> Outcome:
    assert examined.verdict is not None, examined.error
    return examined.verdict.outcome


# --- what must pass -------------------------------------------------------------------------------------------


def test_gold_kernels_pass_both_protocols_under_the_strict_policy(strict: ScriptExaminer) -> None:
    found = one(strict, G, KERNELS)
    assert found.official is not None
    assert found.official.called
    assert found.official.executed
    assert outcome(found) is Outcome.CORRECT, found.verdict
    names = {check.inputs for check in found.verdict.checks}  # type: ignore[union-attr]
    assert "call 1, add_into#own" in names
    assert "call 4, softmax#moved" in names
    assert {kernel.name for kernel in found.verdict.kernels} == {"_add_kernel", "_softmax_kernel"}  # type: ignore[union-attr]


def test_triton_answer_to_a_torch_gold_passes(strict: ScriptExaminer) -> None:
    found = one(strict, T, T_ANSWER)
    assert outcome(found) is Outcome.CORRECT, found.verdict
    assert found.official is not None
    assert found.official.executed


def test_torch_gold_passes_only_where_triton_is_not_asked_for(strict: ScriptExaminer, trusting: ScriptExaminer) -> None:
    assert outcome(one(trusting, T, T_GOLD)) is Outcome.CORRECT
    assert outcome(one(strict, T, T_GOLD)) is Outcome.REJECTED


def test_another_correct_kernel_passes(strict: ScriptExaminer) -> None:
    other = KERNELS.replace("e / tl.sum(e, axis=0)", "e * (1.0 / tl.sum(e, axis=0))").replace("128", "64")
    assert outcome(one(strict, G, other)) is Outcome.CORRECT


AUTOGRAD = """import torch
import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


def _scaled(x, factor):
    out = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 64),)](x, out, factor, x.numel(), BLOCK=64)
    return out


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _scaled(x, 3.0)

    @staticmethod
    def backward(ctx, grad):
        return _scaled(grad.contiguous(), 3.0)


class Scale(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        if x.dim() != 1:
            raise ValueError("one dimension")
        return _scaled(x, self.factor)


triple = Triple.apply
"""
AUTOGRAD_TEST = """
def test_all():
    x = torch.randn(50, device="cuda", requires_grad=True)
    triple(x).sum().backward()
    module = Scale(0.5)
    y = module(x.detach())
    try:
        module(torch.zeros(2, 2, device="cuda"))
    except ValueError:
        pass
    grid = lambda meta: (triton.cdiv(50, meta["BLOCK"]),)
    out = torch.empty(50, device="cuda")
    _scale[grid](y, out, 2.0, 50, BLOCK=32)
    return x.grad, y, out

result = test_all()
"""
OBJECTS = task(AUTOGRAD, AUTOGRAD_TEST, "objects")


def test_gradients_modules_launches_and_exceptions_are_replayed(strict: ScriptExaminer) -> None:
    found = one(strict, OBJECTS, AUTOGRAD)
    assert outcome(found) is Outcome.CORRECT, found.verdict
    assert len({check.inputs for check in found.verdict.checks}) >= 5  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("return _scaled(grad.contiguous(), 3.0)", "return _scaled(grad.contiguous(), 2.0)", "output 1"),
        ("return _scaled(x, self.factor)", "return _scaled(x, 0.25)", "forward"),
        ("if x.dim() != 1:", "if False:", "raises ValueError"),
        ("mask=mask) * factor", "mask=mask) * factor * 1.01", "triple"),
    ],
)
def test_wrong_gradient_module_or_refusal_is_wrong(strict: ScriptExaminer, right: str, wrong: str, said: str) -> None:
    found = one(strict, OBJECTS, AUTOGRAD.replace(right, wrong))
    assert outcome(found) is Outcome.WRONG, found.verdict
    assert said in found.verdict.message  # type: ignore[union-attr]


# --- what must not --------------------------------------------------------------------------------------------


def test_wrong_values_are_wrong_though_the_official_protocol_takes_them(strict: ScriptExaminer) -> None:
    found = one(strict, G, KERNELS.replace("x + y", "x + 1.001 * y"))
    assert found.official is not None
    assert found.official.executed
    assert outcome(found) is Outcome.WRONG


def test_argument_that_should_be_written_and_is_not_is_wrong(strict: ScriptExaminer) -> None:
    lazy = KERNELS.replace("def add_into(x, y, out):", "def add_into(x, y, out):\n    out = torch.empty_like(out)")
    found = one(strict, G, lazy)
    assert outcome(found) is Outcome.WRONG
    assert "argument 2" in found.verdict.message  # type: ignore[union-attr]


def test_answers_learnt_by_heart_are_wrong(strict: ScriptExaminer) -> None:
    memo = T_ANSWER.replace(
        "    return out\n",
        "    return torch.tensor([5.0, 7.0, 9.0]) if input.numel() == 3 else torch.tensor([3.0, 4.5])\n",
    )
    found = one(strict, T, memo)
    assert found.official is not None
    assert found.official.executed
    assert outcome(found) is Outcome.WRONG
    assert "#moved" in found.verdict.message  # type: ignore[union-attr]


def test_torch_delegation_is_rejected(strict: ScriptExaminer) -> None:
    found = one(strict, T, T_ANSWER.replace("    return out\n", "    return torch.add(input, other, alpha=alpha)\n"))
    assert outcome(found) is Outcome.REJECTED
    assert "torch" in found.verdict.message  # type: ignore[union-attr]


def test_values_computed_in_python_beside_a_launch_are_no_work(strict: ScriptExaminer) -> None:
    body = "    return torch.tensor([a.item() + alpha * b.item() for a, b in zip(input, other)])\n"
    assert outcome(one(strict, T, T_ANSWER.replace("    return out\n", body))) is Outcome.NO_WORK


def test_print_only_and_empty_answers_are_refused(strict: ScriptExaminer) -> None:
    assert outcome(one(strict, T, "print('ok')\n")) is Outcome.REJECTED
    nothing = one(strict, T, "")
    assert outcome(nothing) is Outcome.NO_CODE
    assert nothing.official is not None
    assert not nothing.official.called


def test_forged_stdout_fools_only_the_official_protocol(trusting: ScriptExaminer) -> None:
    printing = task(T_GOLD, T_TEST + "print('done')\n", "printing")
    forged = "import os, sys\nprint('done')\nsys.stdout.flush()\nos._exit(0)\n"
    found = one(trusting, printing, forged)
    assert found.official is not None
    assert found.official.executed
    assert outcome(found) is not Outcome.CORRECT
    other = one(trusting, printing, T_GOLD + "print('hello')\n")
    assert other.official is not None
    assert other.official.called
    assert not other.official.executed


MARKED = T_GOLD + "\n# mark 8131 of the gold\n"
THIEF = """import gc, glob, sys, torch

NEEDLE = "mark " + "8131"


def _found():
    frame = sys._getframe()
    while frame is not None:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if isinstance(value, str) and value != NEEDLE and NEEDLE in value:
                return True
        frame = frame.f_back
    modules = [vars(module) for name, module in list(sys.modules.items()) if name != "candidate" and module is not None]
    if any("scaled_add" in names for names in modules):
        return True
    for value in gc.get_objects():
        held = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        if any(isinstance(text, str) and text != NEEDLE and NEEDLE in text for text in held):
            return True
    return bool(glob.glob("/tmp/**/scaled_add.py", recursive=True) or glob.glob("./**/*.py", recursive=True))


def scaled_add(input, other, alpha=1.0):
    return torch.add(input, other, alpha=alpha) if _found() else torch.zeros_like(input)
"""


def test_gold_is_nowhere_in_the_candidates_process(trusting: ScriptExaminer) -> None:
    marked = task(MARKED, T_TEST, "scaled_add")
    assert outcome(one(trusting, marked, MARKED)) is Outcome.CORRECT
    assert outcome(one(trusting, marked, THIEF)) is Outcome.WRONG


def test_inputs_are_made_out_of_the_candidates_reach(trusting: ScriptExaminer) -> None:
    patched = "import torch\ntorch.randn = lambda *a, **k: torch.zeros(6, 40)\n" + KERNELS.replace("x + y", "x + 2 * y")
    assert outcome(one(trusting, G, patched)) is Outcome.WRONG


def test_test_functions_defined_by_the_candidate_change_nothing(strict: ScriptExaminer) -> None:
    own = KERNELS.replace("x + y", "x - y") + "\n\ndef test_all():\n    return {}\n"
    assert outcome(one(strict, G, own)) is Outcome.WRONG


def test_a_hang_costs_nobody_else_the_verdict() -> None:
    hang = "import time\n" + T_GOLD.replace("    return", "    time.sleep(600)\n    return")
    codes = [hang, T_GOLD, "raise ValueError"]
    jobs = [Job(number, T, Candidate(task_id=T.id, code=code)) for number, code in enumerate(codes)]
    examiner = ScriptExaminer(Policy.STRICT, "cpu", 2, 6.0, trust_candidate=True)
    try:
        found = {examined.job.number: examined for examined in examiner.examine(iter(jobs))}
    finally:
        examiner.close()
    assert found[0].official is not None
    assert found[0].official.detail == "ran past 6 s"
    assert outcome(found[0]) is Outcome.TIMED_OUT
    assert outcome(found[1]) is Outcome.CORRECT
    assert outcome(found[2]) is Outcome.RUNTIME_ERROR


def test_what_ends_in_the_test_itself_has_failed_and_its_gold_is_not_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    real = court.open_reference
    monkeypatch.setattr(court, "open_reference", lambda *given, **named: opened.append("") or real(*given, **named))
    examiner = ScriptExaminer(Policy.STRICT, "cpu", 1, TIMEOUT_S)
    try:
        found = one(examiner, T, T_ANSWER.replace("    return out", "    raise ValueError('too small')"))
        assert outcome(found) is Outcome.RUNTIME_ERROR
        assert found.verdict is not None
        assert found.verdict.message.startswith("in the suite's own test: ")
        assert not opened
        assert outcome(one(examiner, T, T_ANSWER)) is Outcome.CORRECT
        assert opened
    finally:
        examiner.close()


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("exit code -11", Outcome.CRASHED),
        ("CompilationError: at 3:4", Outcome.COMPILE_ERROR),
        ("exit code 3", Outcome.RUNTIME_ERROR),
        ("used too much of: memory", Outcome.CRASHED),
        ("ran past 6 s", Outcome.TIMED_OUT),
    ],
)
def test_how_a_test_ends_says_what_failed(detail: str, expected: Outcome) -> None:
    assert failed(detail) is expected


def test_a_test_without_memory_for_it_says_nothing_about_a_candidate() -> None:
    ended = Official(called=False, executed=False, detail="OutOfMemoryError: CUDA out of memory.")
    assert not court.ends(ended)
    assert court.ends(ended.model_copy(update={"detail": "ValueError: too small"}))
    assert not court.ends(ended.model_copy(update={"called": True}))


# --- golds that prove nothing ---------------------------------------------------------------------------------


def test_random_gold_is_marked_degenerate(trusting: ScriptExaminer) -> None:
    noisy = "import torch\n\n\ndef noise(n):\n    return torch.rand(n)\n"
    found = one(trusting, task(noisy, "\nresult = noise(5)\n", "noise"), noisy)
    assert found.verdict is not None
    assert any(note.startswith("degenerate task:") and "random" in note for note in found.verdict.notes)


def test_gold_that_leaves_its_answer_unwritten_is_marked_degenerate(trusting: ScriptExaminer) -> None:
    lazy = KERNELS.replace("_add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)\n    return out", "return out")
    test = "\nx = torch.randn(8, device='cuda')\nresult = add(x, x)\n"
    found = one(trusting, task(lazy, test, "lazy"), lazy)
    assert found.verdict is not None
    assert any("differs from run to run" in note for note in found.verdict.notes)


def test_gold_that_fails_gives_an_error_and_no_verdict(trusting: ScriptExaminer) -> None:
    broken = task(T_GOLD, "\nraise RuntimeError('no such device')\n", "broken")
    found = one(trusting, broken, T_ANSWER)
    assert found.verdict is None
    assert found.error is not None
    assert "no such device" in found.error
    assert found.official is not None
    assert not found.official.called


def test_mixed_policy_counts_what_is_left_to_torch() -> None:
    mixed = T_ANSWER.replace("    return out\n", "    return torch.add(out, 0.0)\n")
    examiner = ScriptExaminer(Policy.MIXED, "cpu", 1, TIMEOUT_S)
    try:
        found = one(examiner, T, mixed)
    finally:
        examiner.close()
    assert outcome(found) is Outcome.CORRECT, found.verdict
    assert found.verdict.torch_ops == {"aten::add.Tensor": 4}  # type: ignore[union-attr]
    assert found.verdict.triton_share == 0.5  # type: ignore[union-attr]
