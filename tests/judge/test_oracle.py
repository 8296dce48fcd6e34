"""The reference's answer, its fp64 oracle, and the facts a comparison needs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from autotriton.errors import TaskError
from autotriton.judge.answers import Expected
from autotriton.judge.costs import cost, op_cost
from autotriton.judge.measure import measure, slice_length, spans, unit_of
from autotriton.judge.oracle import expect
from autotriton.judge.program import Inputs, Program, state
from autotriton.judge.trace import accumulation, trace_ops
from autotriton.types import Mode, Task

pytestmark = pytest.mark.interp
torch.set_num_threads(1)


def function(body: str, inputs: str, **fields: object) -> Program:
    head = "import torch\nimport torch.nn.functional as F\n"
    source = f"{head}def f(*a, **k):\n    {body}\ndef get_inputs():\n    return {inputs}\n"
    return Program(Task(id="t", entry="f", source=source, **fields))


def module(init: str, forward: str, inputs: str, **fields: object) -> Program:
    source = f"""
import torch
from torch import nn
import torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
def get_inputs():
    return {inputs}
"""
    return Program(Task(id="t", source=source, **fields))


def expected(program: Program, seed: int = 1) -> Expected:
    return expect(program, program.build(0), program.draw(seed), 7)


def tensor(leaf: object) -> Tensor:
    assert isinstance(leaf, Tensor)
    return leaf


def test_oracle_is_the_fp64_result() -> None:
    program = function("return a[0] @ a[1]", "[torch.randn(8, 32), torch.randn(32, 4)]")
    answer = expected(program).outputs[0]
    x, y = program.draw(1).args
    assert torch.equal(tensor(answer.oracle), x.double() @ y.double())
    assert torch.equal(tensor(answer.value), x @ y)
    assert (answer.unit, answer.length) == (2.0**-24, 32)
    assert answer.error.max == float((x.double() @ y.double() - x @ y).abs().max())
    assert 0 < answer.change.rms < 4 * 2**-24 * answer.size.rms


@pytest.mark.parametrize(
    "forward",
    [
        "return (x.float() * self.table).to(torch.float32) @ self.w.half().float()",
        "return x.to(dtype=torch.float16).float() * self.table @ self.w + torch.zeros(1, dtype=torch.float32)",
        "return F.softmax(x, dim=-1, dtype=torch.float32) @ self.w * torch.tensor(0.1)",
    ],
)
def test_casts_and_plain_attributes_do_not_lower_the_oracle(forward: str) -> None:
    program = module(
        "self.w = nn.Parameter(torch.randn(6, 3)); self.table = torch.rand(6)", forward, "[torch.randn(4, 6)]"
    )
    found = expected(program)
    oracle = tensor(found.outputs[0].oracle)
    assert oracle.dtype is torch.float64
    assert not torch.equal(oracle, oracle.float().double())
    assert found.notes == ()


def test_module_level_tensor_is_promoted() -> None:
    source = "import torch\nW = torch.rand(6)\ndef f(x):\n    return x @ W\ndef get_inputs():\n    return torch.rand(6)"
    found = expected(Program(Task(id="t", entry="f", source=source)))
    assert tensor(found.outputs[0].oracle).dtype is torch.float64
    assert found.notes == ()


def test_reference_that_refuses_fp64_is_its_own_oracle() -> None:
    body = "assert a[0].dtype == torch.float32; return a[0] * 3"
    found = expected(function(body, "[torch.randn(5)]"))
    assert "own oracle" in found.notes[0]
    assert found.outputs[0].error.max == 0
    assert torch.equal(tensor(found.outputs[0].oracle), tensor(found.outputs[0].value).double())


def test_random_reference_is_its_own_oracle() -> None:
    found = expected(function("return F.dropout(a[0], 0.5, True)", "[torch.randn(50)]"))
    assert found.random
    assert "random" in found.notes[0]
    calm = expected(
        function("return F.scaled_dot_product_attention(*a)", "[torch.randn(1, 2, 8, 16) for _ in range(3)]")
    )
    assert not calm.random


def test_model_and_inputs_stay_untouched() -> None:
    program = module("self.bn = nn.BatchNorm1d(3)", "x.add_(1.0); return self.bn(x)", "[torch.randn(8, 3)]")
    model, inputs = program.build(0), program.draw(1)
    before, held = inputs.args[0].clone(), {name: value.clone() for name, value in state(model).items()}
    found = expect(program, model, inputs, 0)
    assert torch.equal(inputs.args[0], before)
    assert all(torch.equal(held[name], value) for name, value in state(model).items())
    assert set(found.state) == {"bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}
    assert torch.equal(tensor(found.inputs[0].value), before + 1)
    # momentum 0.1 of the batch mean, in fp64
    mean = 0.1 * (before.double() + 1).mean(0)
    assert torch.allclose(tensor(found.state["bn.running_mean"].oracle), mean, atol=1e-15)
    assert found.state["bn.num_batches_tracked"].oracle is None


def test_eval_mode_changes_no_buffers() -> None:
    program = module("self.bn = nn.BatchNorm1d(3)", "return self.bn(x)", "[torch.randn(8, 3)]", mode=Mode.EVAL)
    assert expected(program).state == {}


def test_aliases_name_inputs_and_state() -> None:
    program = module("self.w = nn.Parameter(torch.ones(2))", "return x, x.t(), x + 1, self.w", "[torch.randn(2, 2)]")
    outputs = expected(program).outputs
    assert [answer.aliases for answer in outputs] == [(0,), (0,), (), ()]
    assert outputs[3].state_aliases == ("w",)


def test_several_outputs_kwargs_and_scalars() -> None:
    body = "return {'sum': k['x'] + k['y'], 'n': 3, 'mean': k['x'].mean().item(), 'big': k['x'] > 0}"
    found = expected(function(body, "{'y': torch.randn(4).double(), 'x': torch.randn(4).double()}"))
    assert found.structure == {"dict": {"big": "tensor", "mean": "float", "n": "int", "sum": "tensor"}}
    big, mean, n, total = found.outputs
    assert big.oracle is None
    assert n.value == 3
    assert tensor(mean.oracle).dtype is torch.float64
    assert total.unit == 2.0**-53


@pytest.mark.parametrize(
    ("body", "inputs", "unit"),
    [
        ("return a[0].float() * 2", "[torch.randn(9).bfloat16()]", 2.0**-24),
        ("return (a[0] * 2).float()", "[torch.randn(9).bfloat16()]", 2.0**-8),
        ("return a[0] * 2", "[torch.randn(9).half()]", 2.0**-11),
        ("return a[0] * 2", "[torch.randn(9).double()]", 2.0**-53),
    ],
)
def test_unit_is_that_of_the_coarsest_computation(body: str, inputs: str, unit: float) -> None:
    assert expected(function(body, inputs)).outputs[0].unit == unit


def test_tf32_counts_only_where_there_is_a_matmul() -> None:
    assert expected(function("return a[0] @ a[0]", "[torch.randn(4, 4)]", tf32=True)).outputs[0].unit == 2.0**-11
    assert expected(function("return a[0] * a[0]", "[torch.randn(4, 4)]", tf32=True)).outputs[0].unit == 2.0**-24


@pytest.mark.parametrize(
    ("body", "inputs", "length"),
    [
        ("return a[0] + 1", "[torch.randn(4, 4)]", 1),
        ("return a[0] @ a[1]", "[torch.randn(2, 3, 40), torch.randn(2, 40, 5)]", 40),
        ("return a[0].mean(1)", "[torch.randn(6, 50)]", 50),
        ("return torch.softmax(a[0], 0)", "[torch.randn(70, 3)]", 70),
        ("return torch.cumsum(a[0], 1)", "[torch.randn(3, 33)]", 33),
        ("return F.layer_norm(a[0], (5, 6))", "[torch.randn(3, 5, 6)]", 30),
        ("return F.group_norm(a[0], 2)", "[torch.randn(3, 8, 5)]", 20),
        ("return F.conv2d(a[0], a[1], groups=2)", "[torch.randn(1, 8, 9, 9), torch.randn(6, 4, 3, 3)]", 36),
        ("return F.conv_transpose2d(a[0], a[1], groups=2)", "[torch.randn(1, 8, 9, 9), torch.randn(8, 3, 3, 3)]", 36),
        ("return F.cross_entropy(a[0], a[1])", "[torch.randn(12, 7), torch.randint(0, 7, (12,))]", 12),
        ("return F.embedding(a[1], a[0])", "[torch.randn(100, 4), torch.randint(0, 100, (3,))]", 1),
        ("return a[0].var(dim=(1, 2))", "[torch.randn(3, 4, 5)]", 20),
    ],
)
def test_length_is_the_longest_accumulation(body: str, inputs: str, length: int) -> None:
    assert expected(function(body, inputs)).outputs[0].length == length


def test_length_is_capped() -> None:
    assert expected(function("return a[0].sum()", "[torch.ones(1 << 19)]")).outputs[0].length == 1 << 18


def test_ties_are_captured_with_the_values_they_chose_among() -> None:
    raw = expected(function("return a[0].argmax(1)", "[torch.randn(4, 9)]")).outputs[0].tie
    assert raw is not None
    assert (raw.dim, raw.distinct, raw.slack) == (1, False, 0.0)
    computed = expected(function("return (a[0] @ a[0]).argmax(1).int()", "[torch.randn(9, 9)]")).outputs[0].tie
    assert computed is not None
    assert computed.slack > 0
    top = expected(function("return torch.topk(a[0], 3, dim=0)", "[torch.randn(9, 2)]")).outputs
    assert top[0].tie is None
    assert top[1].tie is not None
    assert top[1].tie.distinct
    assert expected(function("return a[0].argmax()", "[torch.randn(4, 9)]")).outputs[0].tie is not None
    assert expected(function("return a[0].max()", "[torch.randint(0, 9, (4,))]")).outputs[0].tie is None
    stable = expected(function("return torch.sort(a[0], stable=True)", "[torch.randn(9)]")).outputs[1]
    assert stable.tie is None


def test_conditioning_sees_cancellation() -> None:
    plain = expected(function("return a[0] + 1000", "[torch.rand(256)]")).outputs[0]
    cancelled = expected(function("return (a[0] + 1000) - 1000 * a[1]", "[torch.rand(256), torch.ones(256)]")).outputs[
        0
    ]
    assert cancelled.change.rms / cancelled.size.rms > 100 * plain.change.rms / plain.size.rms


def test_sparse_output_is_a_task_error() -> None:
    with pytest.raises(TaskError, match="layout"):
        expected(function("return a[0].to_sparse()", "[torch.eye(3)]"))


def test_complex_output_has_a_complex_oracle() -> None:
    answer = expected(function("return torch.fft.rfft(a[0])", "[torch.randn(16)]")).outputs[0]
    assert tensor(answer.oracle).dtype is torch.complex128
    assert answer.error.max < 1e-5


def test_lstm_module_has_an_exact_oracle() -> None:
    found = expected(module("self.r = nn.LSTM(4, 5)", "return self.r(x)", "[torch.randn(6, 2, 4)]"))
    assert len(found.outputs) == 3
    assert found.notes == ()
    assert tensor(found.outputs[0].oracle).dtype is torch.float64


def test_measure_by_hand() -> None:
    found = measure(torch.tensor([3.0, 0.0, -4.0, float("nan")]), torch.zeros(4))
    assert (found.max, found.worst) == (4.0, 2)
    assert found.rms == 2.5  # sqrt((9 + 16) / 4)
    rows = measure(torch.ones(3, 64) * torch.tensor([[1.0], [2.0], [0.0]]))
    assert rows.slices is not None
    assert rows.slices.tolist() == [8.0, 16.0, 0.0]


def test_slices_hold_at_least_64_elements() -> None:
    assert slice_length(torch.Size([10, 64])) == 64
    assert slice_length(torch.Size([10, 8, 9])) == 72
    assert slice_length(torch.Size([10, 32])) == 0
    assert slice_length(torch.Size([1, 64])) == 0
    assert slice_length(torch.Size([])) == 0


def test_chunks_cover_everything_in_whole_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotriton.judge.measure.CHUNK", 200)
    assert list(spans(300, 64)) == [(0, 192), (192, 300)]
    value = torch.arange(640.0).reshape(10, 64)
    whole = measure(value)
    assert (whole.max, whole.worst) == (639.0, 639)
    assert whole.slices is not None
    assert torch.allclose(whole.slices, value.double().norm(dim=1))


def test_trace_and_cost_by_hand() -> None:
    program = module("self.l = nn.Linear(16, 8)", "return torch.relu(self.l(x))", "[torch.randn(4, 16)]")
    model, inputs = program.build(0), program.draw(0)
    ops = trace_ops(program, model, inputs)
    assert ops["aten.addmm.default"] == 1
    assert ops["aten.relu.default"] == 1
    spent = cost(program, model, inputs)
    assert spent.ops["aten.addmm.default"].flops == 2 * 4 * 16 * 8
    assert spent.flops == 2 * 4 * 16 * 8 + 4 * 8
    # x 64, weight 128, bias 8, output 32 floats
    assert spent.bytes == 4 * (64 + 128 + 8 + 32)
    assert spent.total.bytes == 4 * (64 + 128 + 8 + 32) + 4 * (32 + 32)


def test_views_and_allocations_cost_nothing() -> None:
    x = torch.randn(3, 4)
    assert op_cost(torch.ops.aten.t.default, (x,), {}, x.t()).bytes == 0
    assert op_cost(torch.ops.aten.add.Tensor, (x, x), {}, x + x).flops == 12
    assert accumulation("mm", (x, x.t()), {}, None) == 4


def test_unit_roundoffs() -> None:
    assert unit_of(torch.bfloat16) == 2.0**-8
    assert unit_of(torch.int64) == 0.0


def test_plain_callable_has_no_state() -> None:
    program = function("return a[0] * a[1]", "[torch.randn(3), 2.0]")
    assert expect(program, program.build(0), Inputs((torch.ones(3), 4.0)), 0).state == {}
    assert not isinstance(program.build(0), nn.Module)


def test_steps_see_rounding_that_the_reference_was_spared() -> None:
    # x + 1024 - 1024 on multiples of 2^-13 is exact, whatever fp32 does; rounding the sum would cost up to 2^-14.
    body = "x = (a[0] * 8192).round() / 8192; return (x + 1024.0) - 1024.0"
    answer = expected(function(body, "[torch.rand(4096)]")).outputs[0]
    assert answer.error.max == 0
    assert 1024 * 2**-26 < answer.steps.rms < 1025 * 2**-24
    assert answer.change.rms < answer.steps.rms / 8


def test_steps_use_the_precision_of_each_operator() -> None:
    # One product in bf16, then fp32: the second alone would move the oracle by 2^-25.
    coarse = expected(function("return (a[0] * 3).float() + 1.0", "[torch.rand(4096).bfloat16()]")).outputs[0]
    fine = expected(function("return (a[0] * 3) + 1.0", "[torch.rand(4096)]")).outputs[0]
    assert 2**-11 < coarse.steps.rms / coarse.size.rms < 2**-8
    assert fine.steps.rms / fine.size.rms < 2**-23


def test_operators_without_rounding_cost_nothing() -> None:
    answer = expected(function("return torch.relu(-a[0]).amax(1)", "[torch.randn(128, 64)]")).outputs[0]
    assert answer.steps.max == 0
