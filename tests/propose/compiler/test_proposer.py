"""The whole way: a task in, a file out that the strict judge accepts.

`--all` tries every family of operators in `tasks.py`, which takes minutes.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

from autotriton.errors import ProposerError
from autotriton.propose import Proposer
from autotriton.propose.compiler import CompilerProposer
from autotriton.tune import tiles
from autotriton.types import Candidate, Task

pytestmark = pytest.mark.interp

_spec = importlib.util.spec_from_file_location("propose_tasks", Path(__file__).with_name("tasks.py"))
assert _spec is not None
assert _spec.loader is not None
tasks = importlib.util.module_from_spec(_spec)
sys.modules["propose_tasks"] = tasks
_spec.loader.exec_module(tasks)

ALWAYS = ("linear_batchnorm_cumsum",)


def proposed(task: Task) -> Candidate:
    proposer: Proposer = CompilerProposer(timeout_s=90, engines=("inductor",))
    return next(proposer.propose(task, []))


@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.extra) for name in sorted(tasks.TASKS)]
)
def test_the_judge_accepts_what_is_proposed(name):
    from autotriton.judge import JudgeOptions, judge

    candidate = proposed(tasks.TASKS[name])
    options = JudgeOptions(timeout_s=60, targets=("sm_90",), late_calls_s=0.2)  # other targets: `test_targets.py`
    verdict = judge(tasks.TASKS[name], candidate.code, options)
    assert verdict.accepted, verdict.message


def test_a_file_stands_alone_and_keeps_matmul_exact_and_numbers_live():
    task = tasks.task(
        "scaled", "return (a @ b) * scale", "torch.randn(32, 16), torch.randn(16, 8), 2.0", inputs="a, b, scale"
    )
    code = proposed(task).code
    imported = {line for line in code.splitlines() if line.startswith(("import ", "from "))}
    assert imported == {"import torch", "import torch.nn as nn", "import triton", "import triton.language as tl"}
    assert "input_precision=PRECISION" in code
    assert tiles.read(code)["mm_mul"]["PRECISION"] == "bf16x6"
    assert "scale = torch.full((), scale, dtype=torch.float64, device=device)" in code


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        pytest.param("return x + 1 if x.sum() > 0 else x", "reads tensor values", marks=pytest.mark.extra),
        ("return torch.linalg.qr(x)[1]", "no Triton kernel for .*qr"),
    ],
)
def test_what_cannot_be_captured_is_one_clear_line(forward, said):
    with pytest.raises(ProposerError, match=said) as error:
        proposed(tasks.task("refused", forward, "torch.randn(8, 8)"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("engine", ["templates", "inductor"])
def test_a_random_reference_is_refused_by_the_name_of_the_operator(engine):
    from autotriton.propose.compiler.inductor.program import Unsupported, load
    from autotriton.propose.compiler.inductor.record import Request
    from autotriton.propose.compiler.inductor.trace import trace
    from autotriton.propose.compiler.templates.engine import emitted

    task = tasks.task("random", "return F.dropout(x, 0.5)", "torch.randn(8, 8)")
    request = Request(source=task.source, entry=task.entry, mode=task.mode, tf32=False)
    with pytest.raises(Unsupported, match=r"^forward is random: it calls \w*(dropout|bernoulli)\w*, active dropout"):
        emitted(request, task.id) if engine == "templates" else trace(request, load(request))


def test_variants_follow_the_first_and_settings_are_offered_for_every_entry():
    task = tasks.task(
        "normed", "return torch.softmax(x, -1) + y", "torch.randn(40, 300), torch.randn(40, 300)", inputs="x, y"
    )
    candidates = list(CompilerProposer(timeout_s=120, engines=("inductor",)).propose(task, []))
    names = [candidate.proposer for candidate in candidates]
    assert names[:2] == ["compiler:inductor", "compiler:inductor:looped"]
    assert len({candidate.code for candidate in candidates}) == len(candidates)
    for candidate in candidates:
        own = tiles.read(candidate.code)
        assert all(settings[0] == own[name] for name, settings in candidate.choices.items())
