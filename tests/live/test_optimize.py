"""`autotriton.optimize` on a machine without a GPU: verified all the same; the original runs, which is said once."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import warnings

import pytest
import torch
from torch import nn

import autotriton
from autotriton.errors import ProposerError, TaskError, UsageError
from autotriton.judge import JudgeOptions
from autotriton.live import FallbackWarning, OptimizedModule, search

pytestmark = [pytest.mark.interp, pytest.mark.slow]


class Scaled(nn.Module):
    """Needs constructor arguments, and has a method and a setting of its own."""

    def __init__(self, width, factor):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.factor = factor

    def forward(self, x, shift=1.0):
        return torch.relu(x * self.weight) * self.factor + shift

    def doubled(self):
        return 2 * self.factor


@pytest.fixture(scope="module")
def optimized():
    torch.manual_seed(0)
    return autotriton.optimize(Scaled(24, 3.0), torch.randn(6, 24))


@pytest.fixture
def fresh(optimized):
    """One that has said nothing yet, over weights of its own."""
    return copy.deepcopy(optimized)


def silently(module, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        return module(*args)


def test_it_is_verified_for_any_batch(optimized):
    assert optimized.verdict.accepted
    assert optimized.verdict.policy == "strict"
    assert optimized.optimized.inputs[0].symbol is not None
    assert list(optimized.optimized.ranges.values()) == [(1, None)]


def test_repr_says_what_was_verified(optimized):
    text = repr(optimized)
    assert "Scaled, correct (strict" in text
    assert "x float32 (*, 24)" in text
    assert optimized.verdict.kernels[0].name in text


def test_on_a_cpu_the_original_runs_and_says_so_once(fresh):
    x = torch.randn(6, 24)
    with pytest.warns(FallbackWarning, match="do not run on cpu"):
        first = fresh(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = fresh(x)
    assert torch.equal(first, fresh.original(x))
    assert torch.equal(first, second)


def test_weights_are_the_very_same_objects(fresh):
    assert fresh.weight is fresh.original.weight
    assert list(fresh.state_dict()) == list(fresh.original.state_dict()) == ["weight"]
    assert [id(p) for p in fresh.parameters()] == [id(p) for p in fresh.original.parameters()]


def test_loading_into_either_reaches_both(fresh):
    fresh.load_state_dict({"weight": torch.full((24,), 2.0)})
    assert fresh.original.weight[0] == 2
    fresh.original.load_state_dict({"weight": torch.full((24,), 3.0)})
    assert fresh.weight[0] == 3
    fresh.weight = nn.Parameter(torch.ones(24))
    assert fresh.original.weight is fresh.weight


def test_mode_and_type_reach_the_original(fresh):
    assert not fresh.eval().original.training
    assert fresh.train().original.training
    assert fresh.double().original.weight.dtype is torch.float64
    assert silently(fresh, torch.randn(6, 24).double()).dtype is torch.float64


def test_methods_and_settings_are_the_originals(fresh):
    assert fresh.doubled() == 6.0
    fresh.factor = 5.0
    assert fresh.original.factor == 5.0
    assert fresh.doubled() == 10.0


def test_inside_another_module_keys_stay_the_same(fresh):
    assert list(nn.Sequential(fresh).state_dict()) == ["0.weight"]
    outer = nn.Sequential(fresh)
    outer.load_state_dict({"0.weight": torch.zeros(24)})
    assert not fresh.original.weight.any()
    outer.half()
    assert fresh.original.weight.dtype is torch.float16


def test_copies_and_pickles_are_whole_and_apart(fresh):
    buffer = io.BytesIO()
    torch.save(fresh, buffer)
    buffer.seek(0)
    x = torch.randn(6, 24)
    for other in (copy.deepcopy(fresh), pickle.loads(pickle.dumps(fresh)), torch.load(buffer, weights_only=False)):
        assert isinstance(other, OptimizedModule)
        assert other.verdict == fresh.verdict
        assert other.weight is other.original.weight
        assert other.weight is not fresh.weight
        assert torch.equal(silently(other, x), silently(fresh, x))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_torch_compile_works_and_is_told(fresh, fullgraph):
    torch.compiler.reset()
    x = torch.randn(6, 24)
    compiled = torch.compile(fresh, backend="aot_eager", fullgraph=fullgraph)
    with pytest.warns(FallbackWarning, match="torch.compile"):
        result = compiled(x)
    torch.testing.assert_close(result, fresh.original(x))


def test_it_can_be_trained(fresh):
    x = torch.randn(6, 24)
    silently(fresh, x).sum().backward()
    assert fresh.original.weight.grad is not None


def test_saved_files_stand_alone(fresh, tmp_path):
    path = fresh.save(tmp_path / "kernels" / "scaled")
    assert path.name == "scaled.py"
    assert path.read_text() == fresh.kernel_source
    assert autotriton.Verdict.model_validate_json(path.with_suffix(".verdict.json").read_text()) == fresh.verdict
    task = autotriton.load_task(path.with_suffix(".task.py"))
    assert task.source == fresh.optimized.task.source


def test_optimizing_again_starts_from_the_original(optimized):
    with pytest.raises(UsageError, match="unknown proposer"):
        autotriton.optimize(optimized, torch.randn(6, 24), proposers=("nobody",))


RELU = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


class Given:
    """A proposer whose answer is there already: the compiler takes seconds to start, and is asked for each size."""

    def propose(self, task, history):
        if not history:
            yield autotriton.Candidate(task_id=task.id, code=RELU)


def test_what_is_too_large_for_the_interpreter_is_verified_at_a_smaller_size(monkeypatch):
    # A hundredth of the limits, as a million elements take the interpreter half a minute.
    judging = importlib.import_module("autotriton.judge.judge")  # not the function of that name
    monkeypatch.setattr(judging, "_INTERPRETER_ELEMENTS", judging._INTERPRETER_ELEMENTS // 100)
    monkeypatch.setattr(search, "_LARGE", search._LARGE // 100)
    options = JudgeOptions(targets=("sm_90",), late_calls_s=0.0)
    module = autotriton.optimize(nn.Sequential(nn.ReLU()), torch.randn(600, 100), proposers=(Given(),), judge=options)
    (first,) = module.optimized.inputs
    assert first.shape == (600, 100)
    assert list(module.optimized.ranges.values()) == [(1, None)]
    assert "torch.randn(52, 100)" in module.optimized.task.source


class Deciding(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def test_what_cannot_be_optimized_raises_or_comes_back_wrapped():
    module, x = Deciding(), torch.ones(3)
    with pytest.raises(TaskError, match="looks at tensor values"):
        autotriton.optimize(module, x)
    with pytest.warns(FallbackWarning, match="was not optimized: Deciding.forward looks at tensor values"):
        wrapped = autotriton.optimize(module, x, on_failure="fallback")
    assert torch.equal(wrapped(x), module(x))
    assert wrapped.verdict is None
    assert wrapped.kernel_source is None
    assert "no kernel" in repr(wrapped)
    with pytest.raises(UsageError, match="no kernel to save"):
        wrapped.save("nowhere")


class Refused:
    """A proposer whose only candidate is no kernel at all."""

    def propose(self, task, history):
        if not history:
            yield autotriton.Candidate(
                task_id=task.id, code="import torch\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
            )


def test_a_candidate_that_is_not_accepted_is_not_used():
    with pytest.raises(ProposerError, match="no kernel for Linear was accepted"):
        autotriton.optimize(nn.Linear(4, 4), torch.randn(2, 4), proposers=(Refused(),))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"module": torch.relu}, "needs an nn.Module"),
        ({"on_failure": "ignore"}, "on_failure"),
        ({"policy": "loose"}, "unknown policy"),
        ({"example_inputs": (1, 2, 3)}, "do not fit"),
        ({"budget": "soon"}, "neither a number of candidates nor a time"),
    ],
)
def test_wrong_arguments_are_told(arguments, said):
    given = {"module": nn.Linear(4, 4), "example_inputs": torch.randn(2, 4), **arguments}
    with pytest.raises(UsageError, match=said):
        autotriton.optimize(given.pop("module"), given.pop("example_inputs"), **given)
