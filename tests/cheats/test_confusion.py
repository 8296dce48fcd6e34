"""The whole corpus before the real judge: every cheat rejected, every honest kernel accepted. Interpreter only.

`--all` adds the honest kernels that others stand for.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

from autotriton.judge import Judge, JudgeOptions, judge_many
from autotriton.judge.processes import Processes
from autotriton.types import Task

# One run of the corpus serves every test here; `--dist loadfile` in scripts/test keeps them on one worker.
pytestmark = [pytest.mark.interp, pytest.mark.slow, pytest.mark.timeout(900)]

# Three cheats, all of them denials, run until their deadline; the other denials are over within a second. Honest
# kernels take 3 seconds on a free core: no deadline may decide about them. All others are judged together, so that a
# task is opened once for all.
_DENIAL_TIMEOUT_S, _TIMEOUT_S = 5.0, 200.0
# Of further calls, which every honest kernel costs. Those who change after a few calls do so within a dozen.
_LATE_CALLS_S = 0.7

_spec = importlib.util.spec_from_file_location("cheats_corpus", Path(__file__).with_name("corpus.py"))
assert _spec is not None
assert _spec.loader is not None
corpus = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("cheats_corpus", corpus)
_spec.loader.exec_module(corpus)

CASES = corpus.load()
# Honest kernels whose kind another one stands for: `fused_attention_exp2` streams attention too, `layernorm_two_pass`
# and `mse_loss_two_stage` have scratch tensors and several launches, `argmax_first_of_ties` and `truncate_in_kernel`
# an integer result and casts.
MORE = frozenset(("causal_attention_flash", "wide_softmax_three_kernels", "argmax_builtin"))
_NEEDS_GPU = pytest.mark.skip(reason="acts, or can be run, only on a GPU: see tests/gpu")


@pytest.fixture(scope="module")
def wanted(request):
    """The cases that are judged here."""
    every = request.config.getoption("--all")
    return [case for case in CASES if not case.gpu_only and (every or case.name not in MORE)]


@pytest.fixture(scope="module")
def judgements(wanted):
    """Every judgement on the CPU, by the name of its case."""
    denials = [case for case in wanted if case.family == "denial"]
    others = [case for case in wanted if case.family != "denial"]
    processes = Processes()  # both batches', as starting them takes seconds
    try:
        return {**_judged(others, _TIMEOUT_S, processes), **_judged(denials, _DENIAL_TIMEOUT_S, processes)}
    finally:
        processes.close()


def _judged(cases, timeout_s, processes):
    tasks = [Task(id=case.task_path.stem, source=case.task_path.read_text()) for case in cases]
    jobs = [(task, case.code_path.read_text()) for task, case in zip(tasks, cases, strict=True)]
    options = JudgeOptions(
        device="cpu", timeout_s=timeout_s, allow_degenerate=True, targets=("sm_90",), late_calls_s=_LATE_CALLS_S
    )
    judge = Judge(options, processes=processes)
    return {cases[found.index].name: found for found in judge_many(jobs, judge=judge, workers=2)}


def _marks(case):
    return [_NEEDS_GPU] if case.gpu_only else [pytest.mark.extra] if case.name in MORE else []


def test_what_is_left_out_is_honest_and_exists():
    assert {case.name for case in CASES if case.family == corpus.HONEST} > MORE


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=_marks(case)) for case in CASES])
def test_the_judge_answers_as_expected(case, judgements):
    found = judgements[case.name]
    assert found.verdict is not None, f"no verdict: {found.error}"
    answer = "accept" if found.verdict.accepted else "reject"
    assert answer == case.expected, f"{found.verdict.outcome} at {found.verdict.tier}: {found.verdict.message}"


def test_there_is_one_judgement_per_case(judgements, wanted):
    assert set(judgements) == {case.name for case in wanted}
