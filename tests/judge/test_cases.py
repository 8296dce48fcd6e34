"""Which inputs a candidate is tried on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from autotriton.judge.cases import BENDS, CaseSpec, derive, make, plan
from autotriton.judge.program import Program
from autotriton.types import Task

pytestmark = pytest.mark.interp
torch.set_num_threads(1)


def program(inputs: str, body: str = "return a[0] * 1.0") -> Program:
    head = "import torch\nimport torch.nn.functional as F\n"
    source = f"{head}def f(*a):\n    {body}\ndef get_inputs():\n    return {inputs}\n"
    return Program(Task(id="t", entry="f", source=source))


def bent(task: Program, distribution: str, index: int = 0, seed: int = 5) -> Tensor:
    inputs = make(task, CaseSpec(distribution, seed, distribution))
    assert inputs is not None
    found: Tensor = inputs.args[index]
    return found


def test_plan_orders_draws_first_and_repeats_them_last() -> None:
    names = [spec.name for spec in plan(3, 10)]
    assert names == ["draw#1", "draw#2", "sign-mixed", "wide", "spikes", "ramp", "zeros", "one-hot", "draw#3", "draw#4"]
    assert [spec.name for spec in plan(3, 3)] == names[:3]
    assert len({spec.seed for spec in plan(3, 10)}) == 10
    assert plan(3, 4) == plan(3, 4)
    assert plan(3, 4) != plan(4, 4)
    assert all(0 <= derive(seed, "x") < 2**63 for seed in range(50))


def test_draws_are_the_tasks_own() -> None:
    task = program("[torch.randn(4, 4)]")
    inputs = make(task, CaseSpec("draw#1", 5))
    assert inputs is not None
    assert torch.equal(inputs.args[0], task.draw(5).args[0])


def test_sign_mixed_keeps_magnitudes() -> None:
    task = program("[torch.rand(40, 40)]")
    x = bent(task, "sign-mixed")
    assert torch.equal(x.abs(), task.draw(5).args[0])
    assert 0.4 < float((x < 0).float().mean()) < 0.6


@pytest.mark.parametrize(("cast", "largest"), [("float", 40.0), ("bfloat16", 40.0), ("double", 40.0), ("half", 20.0)])
def test_wide_reaches_a_largest_magnitude(cast: str, largest: float) -> None:
    x = bent(program(f"[torch.randn(50, 50).{cast}()]"), "wide")
    assert float(x.abs().max()) == pytest.approx(largest, rel=1e-2)


def test_spikes_hit_one_in_a_hundred_and_at_least_one() -> None:
    x = bent(program("[torch.randn(200, 100)]"), "spikes")
    assert 0.005 < float((x.abs() == 128).float().mean()) < 0.015
    assert bool((x == 128).any())
    assert bool((x == -128).any())
    assert int((bent(program("[torch.randn(3)]"), "spikes").abs() == 128).sum()) >= 1


def test_ramp_zeros_and_one_hot() -> None:
    task = program("[torch.randn(3, 3)]")
    assert bent(task, "ramp").reshape(-1).tolist() == [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    assert not bool(bent(task, "zeros").any())
    hot = bent(task, "one-hot")
    assert hot.sum(-1).tolist() == [1.0, 1.0, 1.0]
    assert sorted(torch.unique(hot).tolist()) == [0.0, 1.0]


def test_cases_are_deterministic_and_differ_by_seed() -> None:
    task = program("[torch.randn(9, 9)]")
    for name in ("sign-mixed", "spikes", "one-hot"):
        assert torch.equal(bent(task, name, seed=5), bent(task, name, seed=5))
        assert not torch.equal(bent(task, name, seed=5), bent(task, name, seed=6))


@pytest.mark.parametrize("made", ["torch.randn(6, 4).t()", "torch.randn(4, 12)[:, ::2]", "torch.randn(4, 6).half()"])
def test_dtype_shape_and_strides_stay(made: str) -> None:
    task = program(f"[{made}]")
    for name in BENDS:
        x, original = bent(task, name), task.draw(5).args[0]
        assert (x.dtype, x.shape, x.stride()) == (original.dtype, original.shape, original.stride())


@pytest.mark.parametrize(
    "made",
    [
        "torch.randint(0, 2, (4, 50)).float()",
        "torch.sign(torch.randn(4, 50))",
        "torch.randint(0, 100, (50,)).float()",
        "torch.softmax(torch.randn(4, 9), -1)",
        "torch.linspace(0.1, 1.7, 64)",
        "torch.randn(1, 8).expand(5, 8)",
        "torch.randint(0, 9, (4,))",
        "torch.randn(4) > 0",
    ],
)
def test_special_tensors_stay_while_the_other_input_is_bent(made: str) -> None:
    task = program(f"[torch.randn(7, 7), {made}]")
    for name in BENDS:
        assert torch.equal(bent(task, name, 1), task.draw(5).args[1]), name
        assert not torch.equal(bent(task, name, 0), task.draw(5).args[0]), name


def test_small_continuous_tensor_is_not_taken_for_discrete() -> None:
    assert bent(program("[torch.randn(2)]"), "zeros").tolist() == [0.0, 0.0]


def test_triangular_pattern_stays() -> None:
    for name in BENDS:
        x = bent(program("[torch.randn(8, 8).tril()]"), name)
        assert not bool(x.triu(1).any())


def test_symmetric_matrix_stays_symmetric() -> None:
    task = program("[(lambda m: m + m.t())(torch.randn(8, 8))]")
    for name in BENDS:
        x = bent(task, name)
        assert torch.equal(x, x.t()), name


@pytest.mark.parametrize(
    "made", ["(lambda m: m @ m.t() + 8 * torch.eye(8))(torch.randn(8, 8))", "torch.rand(9).cumsum(0)"]
)
def test_definite_and_sorted_tensors_are_only_scaled(made: str) -> None:
    task = program(f"[(lambda m: torch.tril(m) + torch.tril(m, -1).mT if m.dim() > 1 else m)({made})]")
    original = task.draw(5).args[0]
    wide = bent(task, "wide")
    assert torch.allclose(wide / original, (wide / original).reshape(-1)[0], rtol=1e-5)
    assert all(make(task, CaseSpec(name, 5, name)) is None for name in BENDS if name != "wide")


def test_one_tensor_passed_twice_is_bent_once() -> None:
    inputs = make(program("[torch.randn(5)] * 2"), CaseSpec("spikes", 5, "spikes"))
    assert inputs is not None
    assert inputs.args[0].data_ptr() == inputs.args[1].data_ptr()


def test_without_floating_input_there_are_only_draws() -> None:
    task = program("[torch.randint(0, 9, (4,)), 2.0]")
    assert all(make(task, CaseSpec(name, 5, name)) is None for name in BENDS)
    assert make(task, CaseSpec("draw#1", 5)) is not None


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        ("[torch.rand(9), torch.rand(9)]", "return F.binary_cross_entropy(a[0], a[1])"),
        ("[torch.rand(9) * 4, torch.randn(5)]", "return a[1][a[0].long()]"),
    ],
)
def test_references_that_check_their_range_get_only_draws(inputs: str, body: str) -> None:
    task = program(inputs, body)
    assert all(make(task, CaseSpec(name, 5, name)) is None for name in BENDS)


def test_nested_and_keyword_inputs_are_bent() -> None:
    task = program("{'p': {'w': [torch.randn(4)]}, 'n': 3}", "return a[0]")
    task.entry = lambda p, n: p["w"][0] * n
    inputs = make(task, CaseSpec("zeros", 1, "zeros"))
    assert inputs is not None
    assert inputs.kwargs["n"] == 3
    assert not bool(inputs.kwargs["p"]["w"][0].any())
