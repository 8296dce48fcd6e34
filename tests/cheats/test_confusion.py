"""The whole corpus before the real judge: every cheat rejected, every honest kernel accepted. Interpreter only."""

import importlib.util
import sys
from pathlib import Path

import pytest

from autotriton.judge import JudgeOptions, judge_many
from autotriton.types import Task

# One run of the corpus serves every test here; `--dist loadfile` in scripts/test keeps them on one worker.
pytestmark = [pytest.mark.interp, pytest.mark.slow, pytest.mark.timeout(900)]

# Three cheats, all of them denials, run until their deadline. Honest kernels take 3 seconds (one convolution 22) on a
# free core: no deadline may decide about them. All others are judged together, so that a task is opened once for all.
_DENIAL_TIMEOUT_S, _TIMEOUT_S = 10.0, 200.0

_spec = importlib.util.spec_from_file_location("cheats_corpus", Path(__file__).with_name("corpus.py"))
assert _spec is not None
assert _spec.loader is not None
corpus = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("cheats_corpus", corpus)
_spec.loader.exec_module(corpus)

CASES = corpus.load()
_NEEDS_GPU = pytest.mark.skip(reason="acts, or can be run, only on a GPU: see tests/gpu")


@pytest.fixture(scope="module")
def judgements():
    """Every judgement on the CPU, by the name of its case."""
    cases = [case for case in CASES if not case.gpu_only]
    denials = [case for case in cases if case.family == "denial"]
    others = [case for case in cases if case.family != "denial"]
    return {**_judged(others, _TIMEOUT_S), **_judged(denials, _DENIAL_TIMEOUT_S)}


def _judged(cases, timeout_s):
    tasks = [Task(id=case.task_path.stem, source=case.task_path.read_text()) for case in cases]
    jobs = [(task, case.code_path.read_text()) for task, case in zip(tasks, cases, strict=True)]
    options = JudgeOptions(device="cpu", timeout_s=timeout_s, allow_degenerate=True, targets=("sm_90",))
    return {cases[found.index].name: found for found in judge_many(jobs, options, workers=2)}


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[_NEEDS_GPU] if case.gpu_only else []) for case in CASES]
)
def test_the_judge_answers_as_expected(case, judgements):
    found = judgements[case.name]
    assert found.verdict is not None, f"no verdict: {found.error}"
    answer = "accept" if found.verdict.accepted else "reject"
    assert answer == case.expected, f"{found.verdict.outcome} at {found.verdict.tier}: {found.verdict.message}"


def test_there_is_one_judgement_per_case(judgements):
    assert set(judgements) == {case.name for case in CASES if not case.gpu_only}
