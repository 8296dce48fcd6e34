"""A live module becomes a task that computes what the module computes, and the module is left as it was."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from autotriton.errors import TaskError, UsageError
from autotriton.judge.program import Program
from autotriton.live.calls import describe_call, example_call, results_of
from autotriton.live.describing import describe
from autotriton.live.outlines import Unlike
from autotriton.live.state import places
from autotriton.types import Mode

pytestmark = pytest.mark.interp

_spec = importlib.util.spec_from_file_location("live_zoo", Path(__file__).parent / "zoo.py")
zoo = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("live_zoo", zoo)
_spec.loader.exec_module(zoo)

NAMES = list(zoo.cases())


def described(module, given, kwargs=None):
    args, named = example_call(module, given, kwargs)
    call, tensors = describe_call(module, args, named)
    return describe(module, call, tensors, tf32=False), args, named


def run_task(task, module, tensors):
    """The task's own `Model`, as the judge builds it, with the module's tensors."""
    model = Program(task).build(0)
    with torch.no_grad():
        for name, place in places(module).items():
            target = model.get_parameter(name) if isinstance(place.tensor, nn.Parameter) else model.get_buffer(name)
            target.copy_(place.tensor)
        result = model(*tensors)
    return (result,) if isinstance(result, torch.Tensor) else result, model


@pytest.mark.parametrize("name", NAMES)
def test_task_computes_what_the_module_does(name):
    module, given, kwargs = zoo.cases()[name]
    found, args, named = described(module, given, kwargs)
    got, model = run_task(found.task, module, [tensor.clone() for tensor in found.tensors])
    original = copy.deepcopy(module)
    with torch.no_grad():
        expected = results_of(original(*args, **named), name)[1]
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    for key, buffer in original.named_buffers():
        torch.testing.assert_close(model.get_buffer(key), buffer)


@pytest.mark.parametrize("name", NAMES)
def test_module_is_left_as_it_was(name):
    module, given, kwargs = zoo.cases()[name]
    before = copy.deepcopy(module)
    attributes = {part: dict(vars(sub)) for part, sub in module.named_modules()}
    objects = {key: id(place.tensor) for key, place in places(module).items()}
    described(module, given, kwargs)
    assert {key: id(place.tensor) for key, place in places(module).items()} == objects
    for key, place in places(module).items():
        assert torch.equal(place.tensor, places(before)[key].tensor)
    for part, sub in module.named_modules():
        assert vars(sub).keys() == attributes[part].keys()
        assert sub.training == before.get_submodule(part).training


@pytest.mark.parametrize("name", NAMES)
def test_drawn_inputs_are_like_the_example(name):
    module, given, kwargs = zoo.cases()[name]
    found, _, _ = described(module, given, kwargs)
    drawn = Program(found.task).draw(3).args
    for one, example in zip(drawn, found.tensors, strict=True):
        assert (one.dtype, one.shape, one.stride()) == (example.dtype, example.shape, example.stride())
        if not example.dtype.is_floating_point:
            assert example.min() <= one.min()
            assert one.max() <= example.max()


def test_result_has_the_modules_own_containers():
    module, given, kwargs = zoo.cases()["attention"]
    found, args, named = described(module, given, kwargs)
    tensors = results_of(module(*args, **named), "it")[1]
    rebuilt = found.captured.outline.rebuild(tensors)
    assert rebuilt["weights"][1] is None
    assert rebuilt["n"] == 3
    assert rebuilt["y"] is tensors[0]


def test_calls_of_one_kind_are_told_from_others():
    call, (x,) = describe_call(zoo.Decorated(), (), {"x": torch.randn(3, 4)})
    assert call.tensors((x,), {"dtype": torch.float32}) == [x]
    assert call.tensors((), {"x": x, "anything": object}) == [x]
    assert call.rebuild([x]) == ((), {"x": x})
    for other in ({"dtype": torch.float64}, {"anything": int}, {"cached": True}):
        with pytest.raises(Unlike):
            call.tensors((x,), other)


def test_tied_weights_are_tied_in_the_task():
    module, given, kwargs = zoo.cases()["tied"]
    model = Program(described(module, given, kwargs)[0].task).build(0)
    assert model.head.weight is model.embed.weight


def test_batch_is_free_where_the_module_allows_it():
    module, given, kwargs = zoo.cases()["reshaping"]
    found, _, _ = described(module, given, kwargs)
    (symbol,) = found.free
    other = found.task_with({symbol: 9})
    inputs = Program(other).draw(0)
    assert inputs.args[0].shape == (9, 6)
    model = Program(other).build(0)
    result = model(*inputs.args)
    assert result[0].shape == (18, 3)
    assert result[1].shape == (9,)


def test_batch_of_a_transposed_view_keeps_its_layout():
    module, given, kwargs = zoo.cases()["transposed"]
    found, _, _ = described(module, given, kwargs)
    (symbol,) = found.free
    assert Program(found.task_with({symbol: 10})).draw(0).args[0].stride() == (1, 10)


def test_a_batch_the_module_counts_on_is_not_free():
    class Fixed(nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] == 4 else x - 1

    assert described(Fixed(), torch.randn(4, 3))[0].free == {}


def test_mode_matters_only_where_it_does():
    assert not described(nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4))[0].mode_matters
    assert not described(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0)), torch.randn(2, 4))[0].mode_matters
    norm = described(nn.BatchNorm1d(4).eval(), torch.randn(2, 4))[0]
    assert norm.mode_matters
    assert norm.mode is Mode.EVAL
    assert described(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)).eval(), torch.randn(2, 4))[0].mode_matters


def test_masks_are_drawn_only_where_that_leaves_the_result_finite():
    class Masked(nn.Module):
        def forward(self, x, mask):
            return (x + mask).softmax(-1)

    mask = torch.tensor([0.0, float("-inf")]).repeat(64, 1)  # of a random one, a row would be nothing but infinite
    found, _, _ = described(Masked(), (torch.randn(64, 2), mask))
    assert found.exact == (False, True)
    assert torch.equal(Program(found.task).draw(5).args[1], mask)


def test_a_size_among_the_results_stays_what_it_is():
    class Sized(nn.Module):
        def forward(self, x):
            return x * 2, x.shape[0]

    found, _, _ = described(Sized(), torch.randn(4, 3))
    assert found.free == {}
    assert found.captured.outline.rebuild([1])[1] == 4


class Sampling(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Deciding(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = []

    def forward(self, x):
        self.last.append(x)
        return x + 1


class Opaque(nn.Module):
    def forward(self, x):
        return x.sum().item()


class Odd(nn.Module):
    def forward(self, x):
        return Path("x"), x


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (Deciding(), "looks at tensor values"),
        (Sampling(), "out of tensor values"),
        (Opaque(), "tensor values"),
        (Remembering(), "changes its attribute `last`"),
        (nn.Dropout(0.5), "draws random numbers (aten.dropout.default)"),
        (Odd(), "PosixPath"),
        (nn.LazyLinear(3), "not initialised"),
        (torch.jit.script(nn.Linear(4, 4)), "TorchScript"),
    ],
)
def test_what_cannot_be_a_kernel_is_told_in_one_line(module, said):
    with pytest.raises(TaskError) as caught:
        described(module, torch.randn(2, 4))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_remembered_values_are_put_back():
    module = Remembering()
    with pytest.raises(TaskError):
        described(module, torch.randn(2, 4))
    assert module.last == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "do not fit"),
        ((3.0,), "hold no tensor"),
        ((object(),), "input is a object"),
    ],
)
def test_wrong_examples_are_told_in_one_line(given, said):
    with pytest.raises(UsageError) as caught:
        described(nn.Linear(4, 4), given)
    assert said in str(caught.value)
