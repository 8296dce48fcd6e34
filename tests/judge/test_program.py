"""Importing, building, drawing and running a task."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from autotriton.errors import TaskError
from autotriton.judge.program import Inputs, Program, clone, flatten, randomise_state, scramble, state, structure
from autotriton.types import Mode, Task

pytestmark = pytest.mark.interp
torch.set_num_threads(1)

LINEAR = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.linear = nn.Linear(width, 3, bias=bias)
    def forward(self, x, scale=1.0):
        return self.linear(x) * scale
def get_inputs():
    return INPUTS
def get_init_inputs():
    return INIT
"""


def program(source: str, **fields: object) -> Program:
    return Program(Task(id="t", source=source, **fields))


def linear(inputs: str = "[torch.randn(2, 4)]", init: str = "[4]") -> Program:
    return program(LINEAR.replace("INPUTS", inputs).replace("INIT", init))


def test_same_seed_gives_same_parameters_and_inputs() -> None:
    task = linear()
    one, two, other = task.build(1), task.build(1), task.build(2)
    assert torch.equal(state(one)["linear.weight"], state(two)["linear.weight"])
    assert not torch.equal(state(one)["linear.weight"], state(other)["linear.weight"])
    assert torch.equal(task.draw(5).args[0], task.draw(5).args[0])
    assert not torch.equal(task.draw(5).args[0], task.draw(6).args[0])


@pytest.mark.parametrize(
    "init", ["[4, False]", "{'width': 4, 'bias': False}", "[[4], {'bias': False}]", "((4, False), {})"]
)
def test_init_inputs_as_list_dict_or_pair(init: str) -> None:
    assert set(state(linear(init=init).build(0))) == {"linear.weight"}


@pytest.mark.parametrize(
    ("inputs", "args", "kwargs"),
    [
        ("[torch.ones(2, 4)]", 1, set()),
        ("(torch.ones(2, 4), 2.0)", 2, set()),
        ("torch.ones(2, 4)", 1, set()),
        ("{'x': torch.ones(2, 4), 'scale': 2.0}", 0, {"x", "scale"}),
        ("([torch.ones(2, 4)], {'scale': 2.0})", 1, {"scale"}),
    ],
)
def test_inputs_as_list_dict_or_pair(inputs: str, args: int, kwargs: set[str]) -> None:
    drawn = linear(inputs).draw(0)
    assert (len(drawn.args), set(drawn.kwargs)) == (args, kwargs)


def test_run_has_no_grad_and_reseeds() -> None:
    source = "import torch\ndef f(x):\n    return x * torch.rand(3)\ndef get_inputs():\n    return [torch.ones(3)]"
    task = program(source, entry="f")
    model, inputs = task.build(0), task.draw(0)
    assert torch.equal(task.run(model, inputs, seed=1), task.run(model, inputs, seed=1))
    assert not torch.equal(task.run(model, inputs, seed=1), task.run(model, inputs, seed=2))
    module = linear()
    assert not module.run(module.build(0), module.draw(0)).requires_grad


def test_mode_is_applied() -> None:
    source = LINEAR.replace("INPUTS", "[torch.ones(2, 4)]").replace("INIT", "[4]")
    assert program(source).build(0).training  # type: ignore[attr-defined]
    assert not program(source, mode=Mode.EVAL).build(0).training  # type: ignore[attr-defined]


def test_inputs_are_detached() -> None:
    drawn = linear("[torch.randn(2, 4, requires_grad=True)]").draw(0)
    assert not drawn.args[0].requires_grad


def test_one_tensor_passed_twice_stays_one_tensor() -> None:
    source = "import torch\ndef f(a, b):\n    return a + b\ndef get_inputs():\n    return [torch.randn(3)] * 2"
    task = program(source, entry="f")
    copied = task.draw(0).clone()
    assert copied.args[0].data_ptr() == copied.args[1].data_ptr()


@pytest.mark.parametrize(
    ("source", "entry", "what"),
    [
        ("1/0", "f", "the source raised ZeroDivisionError"),
        ("def f(: pass", "f", "the source raised SyntaxError"),
        ("raise SystemExit(3)", "f", "the source raised SystemExit"),
        ("x = 1", "f", "no callable `f`"),
    ],
)
def test_broken_source_is_a_task_error(source: str, entry: str, what: str) -> None:
    with pytest.raises(TaskError, match=what):
        program(source, entry=entry)


def test_errors_name_the_function() -> None:
    task = program("def f(x):\n    raise ValueError('two\\nlines')\ndef get_inputs():\n    return {}['a']", entry="f")
    with pytest.raises(TaskError, match="get_inputs raised KeyError"):
        task.draw(0)
    with pytest.raises(TaskError, match="f raised ValueError: two lines") as caught:
        task.run(task.build(0), Inputs((1,)))
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    with pytest.raises(TaskError, match=r"Model.__init__ raised TypeError"):
        linear(init="[4, True, 7]").build(0)
    bad = linear("[torch.randn(2, 5)]")
    model, inputs = bad.build(0), bad.draw(0)
    with pytest.raises(TaskError, match=r"Model.forward raised RuntimeError"):
        bad.run(model, inputs)


def test_import_root_serves_siblings(tmp_path: Path) -> None:
    (tmp_path / "sibling_of_task.py").write_text("W = 6\n")
    source = (
        "import torch, sibling_of_task as s\ndef f(x):\n    return x\ndef get_inputs():\n    return torch.ones(s.W)"
    )
    task = program(source, entry="f", import_root=str(tmp_path))
    assert task.draw(0).args[0].shape == (6,)


def test_structure_equates_lists_with_tuples_and_ignores_key_order() -> None:
    one, two = torch.ones(1), torch.zeros(2)
    assert structure([one, (two, 1)]) == structure((one, [two, 2]))
    assert structure({"a": one, "b": two}) == structure({"b": two, "a": one})
    assert structure([one]) != structure(one)
    assert structure({"a": one}) != structure({"b": one})
    assert structure((one, 1)) != structure((one, 1.0))
    assert structure(torch.max(torch.ones(2, 2), dim=0)) == ["tensor", "tensor"]
    leaves, _ = flatten({"b": two, "a": one, "c": None})
    assert leaves[0] is one
    assert leaves[1] is two
    assert leaves[2] is None


def test_incomparable_leaf_is_a_task_error() -> None:
    with pytest.raises(TaskError, match="type object"):
        flatten([object()])


def test_clone_keeps_strides() -> None:
    for tensor in (torch.randn(4, 6).t(), torch.randn(4, 6)[:, ::2], torch.randn(1, 3).expand(5, 3), torch.randn(0, 3)):
        copied = clone(tensor)
        assert copied.stride() == tensor.stride()
        assert torch.equal(copied, tensor)
        assert copied.numel() == 0 or copied.data_ptr() != tensor.data_ptr()


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.zeros = nn.Parameter(torch.zeros(4000))
        self.ones = nn.Parameter(torch.ones(4000))
        self.small = nn.Parameter(torch.randn(64).half())
        self.frozen = nn.Parameter(torch.arange(4.0), requires_grad=False)
        self.inf = nn.Parameter(torch.tensor([1.0, float("-inf")]))
        self.norm = nn.BatchNorm1d(500)
        self.register_buffer("mask", torch.tril(torch.ones(3, 3)))
        self.register_buffer("hidden", torch.ones(2), persistent=False)


def test_state_keeps_both_names_of_a_shared_parameter_and_hidden_buffers() -> None:
    names = state(Holder())
    assert {"first.weight", "second.weight", "hidden", "norm.num_batches_tracked"} <= set(names)
    assert names["first.weight"].data_ptr() == names["second.weight"].data_ptr()
    assert state(len) == {}


def test_randomised_state_keeps_scale_sign_and_tables() -> None:
    torch.manual_seed(0)
    model = Holder()
    before = {name: tensor.clone() for name, tensor in state(model).items()}
    randomise_state(model, 3)
    after = state(model)
    for name in ("mask", "hidden", "frozen", "inf", "norm.num_batches_tracked"):
        assert torch.equal(before[name], after[name]), name
    for name in ("first.weight", "first.bias", "zeros", "ones", "small", "norm.running_mean", "norm.running_var"):
        assert not torch.equal(before[name], after[name]), name
    assert torch.equal(after["first.weight"], after["second.weight"])
    assert abs(float(after["zeros"].std()) - 0.3) < 0.02
    # U(0.5, 1.5) has mean 1 and std 0.289; with 0.1 * N(0, 1) on top: 0.305
    assert abs(float(after["ones"].mean()) - 1) < 0.02
    assert abs(float(after["ones"].std()) - 0.305) < 0.02
    assert bool((after["norm.running_var"] > 0).all())


def test_randomising_is_deterministic() -> None:
    one, two, three = torch.ones(5), torch.ones(5), torch.ones(5)
    for tensor, seed in ((one, 1), (two, 1), (three, 2)):
        scramble(tensor, seed)
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
