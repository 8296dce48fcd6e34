"""Optimized modules whose kernels really run, in Triton's interpreter, which a process has to be started with.

Run by `test_interpreted.py`, or directly: TRITON_INTERPRET=1 pytest tests/live/interpreted_cases.py
"""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
import warnings
from collections import namedtuple

import pytest
import torch
from torch import nn
from triton import knobs

import autotriton
from autotriton.judge import JudgeOptions
from autotriton.live import FallbackWarning

assert knobs.runtime.interpret, "set TRITON_INTERPRET=1"
pytestmark = [pytest.mark.interp, pytest.mark.slow]
Pair = namedtuple("Pair", ["y", "largest"])
FIRST = {
    "proposers": ("compiler:templates",),
    "budget": 1,
    "judge": JudgeOptions(targets=("sm_90",), late_calls_s=0.0),
}
"""The first kernel and one target will do: which kernel is best is not what is asked here, and each costs seconds."""


class Block(nn.Module):
    """Two layers with one weight, a pair of results, one of them without gradients, and an option."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(12, 20)
        self.norm = nn.LayerNorm(20, eps=1e-3)
        self.down = nn.Linear(12, 20)
        self.down.weight = self.up.weight

    def forward(self, x, scale=2.0):
        y = self.norm(torch.relu(self.up(x))) * scale + self.down(x)
        return Pair(y, y.detach().amax(-1))


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(0)
    return autotriton.optimize(Block(), torch.randn(5, 12), **FIRST)


@pytest.fixture(scope="module")
def made_norm():
    torch.manual_seed(0)
    return autotriton.optimize(nn.BatchNorm1d(6), torch.randn(8, 6), **FIRST)


@pytest.fixture
def block(made):
    return copy.deepcopy(made)


@pytest.fixture
def norm(made_norm):
    return copy.deepcopy(made_norm)


def by_kernel(module, *args, **kwargs):
    """The result, and a failure should the original have computed it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        original, module.original.forward = module.original.forward, None
        try:
            return module(*args, **kwargs)
        finally:
            del module.original.forward
            assert module.original.forward == original


def close(got, expected):
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_result_is_the_originals_for_any_batch(block):
    with torch.no_grad():
        for size in (5, 1, 2, 8, 33):
            x = torch.randn(size, 12)
            got = by_kernel(block, x)
            assert type(got) is Pair
            close(got, block.original(x))


def test_calls_may_be_spelled_in_any_way(block):
    x = torch.randn(5, 12)
    with torch.no_grad():
        for got in (
            by_kernel(block, x),
            by_kernel(block, x=x),
            by_kernel(block, x, 2.0),
            by_kernel(block, x, scale=2.0),
        ):
            close(got, block.original(x))


def test_weights_stay_live(block):
    x = torch.randn(5, 12)
    with torch.no_grad():
        by_kernel(block, x)
        block.original.up.weight.mul_(-3)
        close(by_kernel(block, x), block.original(x))
        block.load_state_dict({name: torch.randn_like(value) for name, value in block.state_dict().items()})
        close(by_kernel(block, x), block.original(x))
        block.up.weight = block.down.weight = nn.Parameter(torch.randn(20, 12))
        close(by_kernel(block, x), block.original(x))


def test_copies_run_their_own_weights(block):
    x = torch.randn(5, 12)
    other = pickle.loads(pickle.dumps(block))
    with torch.no_grad():
        other.up.weight.zero_()
        close(by_kernel(other, x), other.original(x))
        close(by_kernel(block, x), block.original(x))
        assert not torch.equal(block(x).y, other(x).y)


def test_gradients_are_the_originals(block):
    reference = copy.deepcopy(block.original)
    x, same = (torch.linspace(-1, 1, 84).reshape(7, 12).requires_grad_() for _ in range(2))
    got, expected = block(x), reference(same)
    assert got.y.requires_grad
    assert not got.largest.requires_grad
    (got.y**2).sum().backward()
    (expected.y**2).sum().backward()
    torch.testing.assert_close(x.grad, same.grad, rtol=1e-4, atol=1e-4)
    for one, other in zip(block.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_gradients_have_gradients(block):
    reference, found = copy.deepcopy(block.original), []
    for module in (block, reference):
        x = torch.linspace(-1, 1, 60).reshape(5, 12).requires_grad_()
        (first,) = torch.autograd.grad((module(x).y ** 3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        found.append(second)
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-3)


def test_a_training_step_goes_the_same_way(block):
    reference = copy.deepcopy(block.original)
    x = torch.randn(5, 12)
    for module in (block, reference):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            module(x).y.pow(2).mean().backward()
            optimizer.step()
    for one, other in zip(block.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_buffers_are_updated_in_place(norm):
    reference, running = copy.deepcopy(norm.original), norm.running_mean
    for wants_gradients in (False, True):
        x = torch.randn(8, 6) * 3 + 1
        with torch.set_grad_enabled(wants_gradients):
            result = by_kernel(norm, x)
            torch.testing.assert_close(result, reference(x), rtol=1e-4, atol=1e-5)
        if wants_gradients:
            result.sum().backward()
    assert norm.running_mean is running
    assert norm.original.num_batches_tracked == 2
    close(norm.state_dict().values(), reference.state_dict().values())


def train_mode_off(module, x):
    return module.eval(), x


def setting(module, x):
    module.original.norm.eps = 1.0
    return module, x


def layer(module, x):
    module(x)
    module.original.norm = nn.LayerNorm(20, eps=1e-3)
    return module, x


def other_kind(module, x):
    module.original.norm = nn.RMSNorm(20)
    return module, x


def untied(module, x):
    module.original.up.weight = nn.Parameter(torch.randn(20, 12))
    return module, x


def no_bias(module, x):
    module.original.up.bias = None
    return module, x


def hook(module, x):
    module.original.up.register_forward_hook(lambda *_: None)
    return module, x


def weights(module, x):
    return module.double(), x.double()


OTHERS = {
    "shape": (lambda m, x: (m, torch.randn(2, 5, 12)), r"x is \(2, 5, 12\), and the kernel is for \(\*, 12\)"),
    "dtype": (weights, "x is torch.float64"),
    "strides": (lambda m, x: (m, torch.randn(12, 5).t()), "x has strides"),
    "setting": (setting, "`eps` of norm has changed"),
    "layer": (layer, "layer `norm` has been replaced"),
    "other kind": (other_kind, "layer `norm` is a RMSNorm"),
    "untied": (untied, "up.weight and down.weight are no longer one tensor"),
    "no bias": (no_bias, "`up.bias` is no longer a tensor"),
    "hook": (hook, "the hooks of up have changed"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_it_was_not_verified_for_is_left_to_the_original_and_told_once(block, kind):
    change, said = OTHERS[kind]
    module, x = change(block, torch.randn(5, 12))
    with torch.no_grad():
        with pytest.warns(FallbackWarning, match=said):
            first = module(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            close(module(x), first)
        close(module.original(x), first)


def test_other_arguments_are_left_to_the_original(block):
    x = torch.randn(5, 12)
    with pytest.warns(FallbackWarning, match="scale is 3.0 where 2.0 was"):
        got = block(x, scale=3.0)
    close(got, block.original(x, scale=3.0))


def test_surroundings_that_change_the_result_are_left_to_the_original(block):
    x = torch.randn(5, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.warns(FallbackWarning, match="autocast"):
        assert block(x).y.dtype is block.original(x).y.dtype
    with pytest.warns(FallbackWarning, match="vmap"):
        close(torch.vmap(block)(x[None]), torch.vmap(block.original)(x[None]))


def test_mode_is_watched_where_it_matters(norm, block):
    x = torch.randn(8, 6)
    with pytest.warns(FallbackWarning, match="is in eval mode"):
        torch.testing.assert_close(norm.eval()(x), norm.original(x))
    with torch.no_grad():
        by_kernel(block.eval(), torch.randn(5, 12))


def test_a_single_row_is_left_to_the_original_where_it_refuses_one(norm):
    with pytest.warns(FallbackWarning, match="leading size"), pytest.raises(ValueError, match="more than 1 value"):
        norm(torch.randn(1, 6))


def test_a_kernel_that_fails_is_not_tried_again(block):
    broken = copy.deepcopy(block)
    record = broken.optimized
    code = record.candidate.code.replace("def forward(self", "def forward(self, missing", 1)
    candidate = record.candidate.model_copy(update={"code": code})
    broken.__setstate__(
        {"original": broken.original, "optimized": record.__class__(**{**vars(record), "candidate": candidate})}
    )
    x = torch.randn(5, 12)
    with torch.no_grad():
        with pytest.warns(FallbackWarning, match="the kernel failed with TypeError"):
            first = broken(x)
        close(broken(x), first)
        close(broken.original(x), first)


class Tabled(nn.Module):
    """Its tables are in no state_dict: a plain attribute, a buffer that does not persist, a constant of forward."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(24))
        self.table = torch.randn(24)
        self.register_buffer("shift", torch.randn(24), persistent=False)
        self.numbers = list(range(24))

    def forward(self, x):
        return torch.relu(x * self.scale + self.table) * self.shift + torch.tensor([n / 7 for n in self.numbers])


def test_tensors_in_no_state_dict_are_live_and_exported(tmp_path):
    torch.manual_seed(1)
    module = autotriton.optimize(Tabled(), torch.randn(4, 24), **FIRST)
    x = torch.randn(3, 24)
    with torch.no_grad():
        close(by_kernel(module, x), module.original(x))
        module.original.table = torch.randn(24)
        close(by_kernel(module, x), module.original(x))
    module.export(tmp_path / "package", "tabled_op")
    sys.path.insert(0, str(tmp_path / "package"))
    package = importlib.import_module("tabled_op")
    copied = package.Model(*package.reference.get_init_inputs())
    copied.load_state_dict(module.state_dict())
    with torch.no_grad():
        close(copied(x), module.original(x))
    assert set(torch.load(module.save(tmp_path / "k").with_suffix(".values.pt"))) == {"table", "shift", "constant_0"}
