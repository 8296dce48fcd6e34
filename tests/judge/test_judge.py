"""The judge end to end, in Triton's interpreter: small tasks and candidates, real processes, real verdicts."""

from __future__ import annotations

import re
import textwrap
from collections import Counter

import pytest

from autotriton.errors import PrerequisiteError, TaskError, UsageError
from autotriton.judge import JUDGE_VERSION, Judge, JudgeOptions
from autotriton.judge.admissions import Admissions
from autotriton.judge.processes import Processes
from autotriton.types import Mode, Outcome, Policy, Severity, Task, Tier, Verdict

pytestmark = pytest.mark.interp

TIMEOUT_S = 60.0
LATE_CALLS_S = 0.2
"""Of further calls, which each accepted candidate costs; the test about them takes as many as a user's judge."""
HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
KERNEL = """
@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    x = tl.load(x_ptr + at, mask=keep, other=0)
    tl.store(y_ptr + at, {body}, mask=keep)
"""
LAUNCH = "kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)"


def task(forward: str, inputs: str = "torch.randn(12, 50)", *, init: str = "pass", given: str = "", **more) -> Task:
    """A module whose forward takes `x` and has this body."""
    source = f"{HEAD}class Model(nn.Module):\n    def __init__(self{', ' + given.split('=')[0] if given else ''}):\n"
    source += f"        super().__init__()\n{indent(init, 8)}\n    def forward(self, x):\n{indent(forward, 8)}\n"
    source += f"\ndef get_inputs():\n    return [{inputs}]\n"
    source += f"\ndef get_init_inputs():\n    return [{given.partition('=')[2]}]\n"
    return Task(id="task", source=source, **more)


def module(
    forward: str,
    *,
    kernel: str = KERNEL,
    body: str = "x",
    init: str = "pass",
    arguments: str = "self, x",
    given: str = "",
) -> str:
    """A candidate: a kernel and a ModelNew whose forward has this body."""
    code = HEAD + kernel.replace("{body}", body)
    code += f"\n\nclass ModelNew(nn.Module):\n    def __init__(self{', ' + given if given else ''}):\n"
    return (
        code + f"        super().__init__()\n{indent(init, 8)}\n    def forward({arguments}):\n{indent(forward, 8)}\n"
    )


def elementwise(body: str, **more) -> str:
    """A candidate that applies one expression of `x` to every element."""
    return module(f"y = torch.empty_like(x)\n{LAUNCH}\nreturn y", body=body, **more)


def indent(text: str, by: int) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n"), " " * by) + "\n"


RELU = task("return torch.relu(x * 1.5 + 0.25)")
RELU_RIGHT = elementwise("tl.maximum(x * 1.5 + 0.25, 0.0)")
RELU_WRONG = elementwise("tl.maximum(x * 1.4 + 0.25, 0.0)")

MATMUL_RELU = task(
    "return torch.relu(x @ self.w)", "torch.randn(48, 64)", init="self.w = nn.Parameter(torch.randn(64, 48) / 8)"
)
MATMUL_KERNEL = """
@triton.jit
def product(x_ptr, w_ptr, y_ptr, M, N, K, RELU: tl.constexpr, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    cols = tl.program_id(1) * B + tl.arange(0, B)
    y = tl.zeros((B, B), dtype=tl.float32)
    for start in range(0, K, B):
        inner = start + tl.arange(0, B)
        x_mask, w_mask = (rows < M)[:, None] & (inner < K)[None, :], (inner < K)[:, None] & (cols < N)[None, :]
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + inner[:, None] * N + cols[None, :], mask=w_mask, other=0.0)
        y += tl.dot(x, w, input_precision="ieee")
    if RELU:
        y = tl.maximum(y, 0.0)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=(rows < M)[:, None] & (cols < N)[None, :])
"""
PRODUCT = "y = torch.empty(48, 48, device=x.device)\nproduct[(3, 3)](x, self.w, y, 48, 48, 64, RELU={relu}, B=16)\n"
WEIGHT = "self.w = nn.Parameter(torch.randn(64, 48) / 8)"
ALL_TRITON = module(PRODUCT.replace("{relu}", "True") + "return y", kernel=MATMUL_KERNEL, init=WEIGHT)
RELU_BY_TORCH = module(PRODUCT.replace("{relu}", "False") + "return torch.relu(y)", kernel=MATMUL_KERNEL, init=WEIGHT)
MATMUL_BY_TORCH = module(
    f"x = x @ self.w\ny = torch.empty_like(x)\n{LAUNCH}\nreturn y", body="tl.maximum(x, 0.0)", init=WEIGHT
)
DECOY = module("return torch.relu(x @ self.w)", init=WEIGHT)


class CountingProcesses(Processes):
    """Counts the processes it starts, by role."""

    def __init__(self) -> None:
        super().__init__()
        self.spawned: Counter[str] = Counter()

    def server(self, *, interpret, readable=(), compiles=False):
        return _Counting(super().server(interpret=interpret, readable=readable), self.spawned)


class _Counting:
    def __init__(self, server, spawned) -> None:
        self.server, self.spawned = server, spawned

    def spawn(self, role, limits):
        self.spawned[role] += 1
        return self.server.spawn(role, limits)


@pytest.fixture(scope="module")
def processes():
    held = CountingProcesses()
    yield held
    held.close()


@pytest.fixture
def decide(processes):
    """A verdict from a judge of its own on shared processes; by default up to the interpreter."""

    def decide(on: Task, code: str, **options) -> Verdict:
        known = {"device": "cpu", "tier": Tier.INTERPRET, "timeout_s": TIMEOUT_S, "late_calls_s": LATE_CALLS_S}
        known |= options
        return Judge(JudgeOptions(**known), processes=processes).judge(on, code)

    return decide


def accepted(verdict: Verdict) -> Verdict:
    assert verdict.accepted, f"{verdict.outcome} at {verdict.tier}: {verdict.message}"
    assert verdict.outcome is Outcome.CORRECT
    return verdict


def refused(verdict: Verdict, outcome: Outcome, words: str) -> Verdict:
    assert not verdict.accepted
    assert verdict.outcome is outcome, f"{verdict.outcome} at {verdict.tier}: {verdict.message}"
    assert re.search(words, verdict.message), verdict.message
    return verdict


# --- tiers ------------------------------------------------------------------------------------------------


def test_rules_run_nothing(processes, decide):
    before = processes.spawned.total()
    found = accepted(decide(RELU, RELU_RIGHT, tier=Tier.RULES))
    assert found.tier is Tier.RULES
    assert found.checks == ()
    assert list(found.stage_seconds) == ["rules"]
    assert processes.spawned.total() == before


def test_interpret_checks_every_case(decide):
    found = accepted(decide(RELU, RELU_RIGHT))
    assert found.tier is Tier.INTERPRET
    assert len(found.checks) == 8
    assert {check.inputs.split("#")[0] for check in found.checks} >= {"draw"}
    assert all(check.passed and check.max_error <= check.allowed_error for check in found.checks)
    assert found.deterministic is True
    assert [(kernel.name, kernel.launches, kernel.targets) for kernel in found.kernels] == [("kernel", 1, ())]
    assert (found.timing, found.speedups, found.torch_ops) == (None, {}, {})


@pytest.mark.parametrize("tier", [Tier.COMPILE, Tier.RUN, None])
def test_compile_and_run_also_compile_for_every_target(decide, tier):
    found = accepted(decide(RELU, RELU_RIGHT, tier=tier, targets=("sm_90", "gfx942")))
    assert found.tier is (tier or Tier.RUN)
    (kernel,) = found.kernels
    assert [target.arch for target in kernel.targets] == ["sm_90", "gfx942"]
    assert all(target.error is None and target.registers for target in kernel.targets)
    assert found.message.endswith("sm_90, gfx942")


def test_time_without_a_gpu_is_a_missing_prerequisite(decide):
    with pytest.raises(PrerequisiteError, match="timing needs a CUDA device"):
        decide(RELU, RELU_RIGHT, tier=Tier.TIME)


def test_rules_come_before_prerequisites(decide):
    refused(decide(RELU, "import ctypes\n" + RELU_RIGHT, tier=Tier.TIME), Outcome.REJECTED, "ctypes")


def test_what_a_program_refuses_gives_way_to_its_own_draws(decide):
    roots = task(
        'if (x < 0).any():\n    raise ValueError("no roots of negative numbers")\nreturn x.sqrt() * 2',
        "torch.rand(12, 50) + 0.1",
    )
    found = accepted(decide(roots, elementwise("tl.sqrt(x) * 2.0"), cases=8))
    names = [check.inputs for check in found.checks]
    assert len(names) == len(set(names)) == 8
    assert "sign-mixed" not in names
    assert any("no roots of negative numbers" in note for note in found.notes)
    refused(decide(roots, elementwise("tl.sqrt(x) * 2.001")), Outcome.WRONG, "wrong on case")


def test_an_unknown_target_is_a_usage_error_before_any_process_starts(processes):
    with pytest.raises(UsageError, match="unknown target 'sm_1'"):
        Judge(JudgeOptions(targets=("sm_1",)), processes=processes)


def test_a_kernel_no_target_compiles_is_a_compile_error(decide):
    # The interpreter runs a Python list comprehension; the compiler does not know it.
    kernel = KERNEL.replace("    keep =", "    at = [at for _ in range(1)][0]\n    keep =")
    found = decide(
        RELU, elementwise("tl.maximum(x * 1.5 + 0.25, 0.0)", kernel=kernel), tier=Tier.COMPILE, targets=("sm_90",)
    )
    refused(found, Outcome.COMPILE_ERROR, "kernel `kernel` does not compile for sm_90")
    assert found.tier is Tier.COMPILE


# --- the record -------------------------------------------------------------------------------------------


def test_a_verdict_survives_json_and_says_where_the_time_went(decide):
    found = decide(RELU, RELU_RIGHT, tier=Tier.RUN, targets=("sm_90",))
    written = found.to_json()
    assert written.pop("accepted") is True
    assert Verdict.model_validate(written) == found
    assert Verdict.model_validate_json(found.model_dump_json()) == found
    assert set(found.stage_seconds) == {"rules", "reference", "load", "cases", "work", "compile"}
    assert all(seconds > 0 for seconds in found.stage_seconds.values())
    assert found.judge_version == JUDGE_VERSION
    assert found.machine is not None
    assert found.machine.torch


def test_a_judge_opens_a_tasks_reference_once(processes):
    options = JudgeOptions(device="cpu", tier=Tier.INTERPRET, timeout_s=TIMEOUT_S, late_calls_s=LATE_CALLS_S)
    judge = Judge(options, processes=processes)
    before = Counter(processes.spawned)
    accepted(judge.judge(RELU, RELU_RIGHT))
    refused(judge.judge(RELU, RELU_WRONG), Outcome.WRONG, "wrong on case")
    spent = processes.spawned - before
    assert spent == {"reference": 1, "candidate": 2}


def test_a_fixed_seed_reproduces_the_verdict(processes, decide):
    found = []
    for _ in range(2):
        processes.references.forget(RELU)
        found.append(decide(RELU, RELU_WRONG, seed=7).model_copy(update={"stage_seconds": {}}))
    assert found[0] == found[1]
    other = decide(RELU, RELU_WRONG, seed=8)
    assert [check.max_error for check in other.checks] != [check.max_error for check in found[0].checks]


def test_the_stages_are_reported_as_they_begin(processes):
    seen: list[str] = []
    options = JudgeOptions(device="cpu", tier=Tier.INTERPRET, late_calls_s=LATE_CALLS_S)
    Judge(options, processes=processes).judge(RELU, RELU_RIGHT, seen.append)
    assert seen == ["rules", "reference", "load", "cases", "work"]


def test_what_is_said_holds_no_value_of_the_reference(decide):
    from autotriton.judge.reference import Reference

    on = task("return x.sum(-1) * 3", "torch.randn(6, 40)")
    seed = 4242
    reference = Reference(
        {"task": on.model_dump(mode="json"), "device": "cpu", "seed": seed, "cases": 8, "admit": False}
    )
    values = [
        v
        for index in range(len(reference.specs))
        for v in reference._case(index)[1].outputs[0].value.flatten().tolist()
    ]
    assert len(values) >= 36
    shown = {format(v, spec) for v in values if v for spec in (".2e", ".3g", ".4g", ".3f", ".6g")}
    rows = """
    @triton.jit
    def rows(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n, other=0.0)
        tl.store(y_ptr + tl.program_id(0), tl.sum(x) * {body})
    """
    forward = "y = torch.empty(x.shape[0])\nrows[(x.shape[0],)](x, y, x.shape[1], BLOCK=64)\nreturn y"
    for factor in ("3.01", "2.0", "3.0 + 1.0", "3.0 / 0.0"):
        found = decide(on, module(forward, kernel=textwrap.dedent(rows), body=factor), seed=seed)
        texts = [found.message, *found.notes, *(check.detail for check in found.checks)]
        assert not found.accepted
        told = {number for text in texts for number in re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?", text)}
        assert told & shown == set(), texts


# --- policies ---------------------------------------------------------------------------------------------


def test_strict_accepts_triton_alone(decide):
    accepted(decide(MATMUL_RELU, ALL_TRITON))


def test_strict_rejects_a_product_left_to_torch(decide):
    found = refused(
        decide(MATMUL_RELU, MATMUL_BY_TORCH), Outcome.REJECTED, r"line \d+: `aten::m(at)?m(ul)?` is left to torch"
    )
    assert [(f.rule, f.severity) for f in found.findings if f.rule == "torch-compute"] == [
        ("torch-compute", Severity.ERROR)
    ]


def test_strict_rejects_even_a_small_part_left_to_torch(decide):
    refused(decide(MATMUL_RELU, RELU_BY_TORCH), Outcome.REJECTED, "`aten::relu` is left to torch")


def test_strict_rejects_an_operator_whose_refusal_is_caught(decide):
    forward = f"try:\n    torch.relu(x)\nexcept Exception:\n    pass\ny = torch.empty_like(x)\n{LAUNCH}\nreturn y"
    refused(decide(RELU, module(forward, body="tl.maximum(x * 1.5 + 0.25, 0.0)")), Outcome.REJECTED, "left to torch")


def test_mixed_accepts_when_triton_does_most_of_the_work_and_reports_the_share(decide):
    found = accepted(decide(MATMUL_RELU, RELU_BY_TORCH, policy=Policy.MIXED))
    assert found.triton_share is not None
    assert 0.5 < found.triton_share < 1.0
    assert found.torch_ops == {"aten::relu": 1}
    assert found.policy is Policy.MIXED


def test_mixed_reports_a_full_share_when_torch_does_nothing(decide):
    found = accepted(decide(MATMUL_RELU, ALL_TRITON, policy=Policy.MIXED))
    assert (found.triton_share, found.torch_ops) == (1.0, {})


def test_mixed_rejects_when_torch_does_the_heavy_part(decide):
    found = refused(
        decide(MATMUL_RELU, MATMUL_BY_TORCH, policy=Policy.MIXED), Outcome.NO_WORK, r"Triton does \d+% of the work"
    )
    assert found.triton_share is not None
    assert found.triton_share < 0.5
    assert any("mm" in name for name in found.torch_ops)


def test_mixed_rejects_a_launch_that_does_not_matter(decide):
    forward = f"y = torch.empty_like(x)\n{LAUNCH}\nreturn torch.relu(x * 1.5 + 0.25)"
    refused(
        decide(RELU, module(forward), policy=Policy.MIXED),
        Outcome.NO_WORK,
        "Triton does 0%|stays right when no kernel runs",
    )


def test_paper_accepts_a_decoy_kernel_that_is_never_launched(decide):
    found = accepted(decide(MATMUL_RELU, DECOY, policy=Policy.PAPER))
    assert found.policy is Policy.PAPER
    assert found.torch_ops
    assert found.kernels == ()


@pytest.mark.parametrize("policy", [Policy.STRICT, Policy.MIXED])
def test_other_policies_reject_the_decoy(decide, policy):
    refused(decide(MATMUL_RELU, DECOY, policy=policy), Outcome.REJECTED, "never refers to a @triton.jit function")


def test_paper_still_compares_values(decide):
    wrong = DECOY.replace("torch.relu(x @ self.w)", "torch.relu(x @ self.w) + 0.1")
    refused(decide(MATMUL_RELU, wrong, policy=Policy.PAPER), Outcome.WRONG, "wrong on case")


# --- kinds of tasks ---------------------------------------------------------------------------------------


def function_task(definition: str, inputs: str) -> Task:
    source = f"{HEAD}{textwrap.dedent(definition)}\n\ndef get_inputs():\n    return {inputs}\n"
    return Task(id="task:scaled", source=source, entry="scaled")


SCALED = function_task(
    "def scaled(x, alpha=1.0):\n    return torch.tanh(x) * 0 + x * alpha", '[torch.randn(9, 40)], {"alpha": 0.75}'
)
SCALED_KERNEL = KERNEL.replace("n, BLOCK", "n, alpha, BLOCK").replace("{body}", "x * alpha")


def scaled(name: str, alpha: str = "alpha") -> str:
    launch = f"kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), {alpha}, BLOCK=256)"
    return (
        f"{HEAD}{SCALED_KERNEL}\n\ndef {name}(x, alpha=1.0):\n    y = torch.empty_like(x)\n    {launch}\n    return y\n"
    )


@pytest.mark.parametrize("name", ["scaled", "scaled_new", "scaledNew", "ModelNew"])
def test_a_function_is_replaced_by_a_function(decide, name):
    accepted(decide(SCALED, scaled(name)))


def test_a_function_may_be_replaced_by_a_module(decide):
    launch = "kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), alpha, BLOCK=256)"
    code = module(f"y = torch.empty_like(x)\n{launch}\nreturn y", kernel=SCALED_KERNEL, arguments="self, x, alpha=1.0")
    accepted(decide(SCALED, code))


def test_a_scalar_written_into_the_source_is_wrong(decide):
    refused(decide(SCALED, scaled("scaled", "0.75")), Outcome.WRONG, "wrong on case")


def test_a_keyword_that_is_ignored_is_wrong(decide):
    refused(decide(SCALED, scaled("scaled", "1.0")), Outcome.WRONG, "wrong on case")


PAIR = task('return {"low": torch.clamp(x, max=0.5), "both": (x * 2, x - 1)}')
PAIR_KERNEL = KERNEL.replace("y_ptr, n", "y_ptr, z_ptr, w_ptr, n").replace("{body}", "tl.minimum(x, 0.5)")
PAIR_KERNEL += "    tl.store(z_ptr + at, x * 2, mask=keep)\n    tl.store(w_ptr + at, x - 1, mask=keep)\n"
PAIR_FORWARD = """
y, z, w = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, w, x.numel(), BLOCK=256)
return {answer}
"""


def pair(answer: str) -> str:
    return module(PAIR_FORWARD.replace("{answer}", answer), kernel=PAIR_KERNEL)


@pytest.mark.parametrize("answer", ['{"low": y, "both": (z, w)}', '{"both": (z, w), "low": y}'])
def test_dict_and_tuple_results_are_compared_by_name_and_place(decide, answer):
    accepted(decide(PAIR, pair(answer)))


@pytest.mark.parametrize(
    "answer", ['{"low": y, "both": (z,)}', "(y, z, w)", '{"low": y, "both": z}', '{"lo": y, "both": (z, w)}', "y"]
)
def test_other_containers_are_wrong(decide, answer):
    refused(decide(PAIR, pair(answer)), Outcome.WRONG, "returned .* expected")


def test_swapped_outputs_are_wrong(decide):
    refused(decide(PAIR, pair('{"low": y, "both": (w, z)}')), Outcome.WRONG, "wrong on case")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floating_dtypes_are_judged_by_their_own_precision(decide, dtype):
    on = task("return x * x + x", f"torch.randn(12, 50, dtype=torch.{dtype})")
    accepted(decide(on, elementwise("x * x + x")))
    refused(decide(on, elementwise("x * x + x * 0.9")), Outcome.WRONG, "wrong on case")


def test_fp64_computed_in_fp32_is_wrong(decide):
    on = task("return x * x + x", "torch.randn(12, 50, dtype=torch.float64)")
    narrow = elementwise("(x.to(tl.float32) * x.to(tl.float32) + x.to(tl.float32)).to(tl.float64)")
    refused(decide(on, narrow), Outcome.WRONG, "error")


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_integers_are_exact(decide, dtype):
    on = task("return x * 3 + 1", f"torch.randint(-1000, 1000, (12, 50), dtype=torch.{dtype})")
    accepted(decide(on, elementwise("x * 3 + 1")))
    refused(decide(on, elementwise("x * 3 + (x < 900).to(tl.int32)")), Outcome.WRONG, "of the elements differ")


def test_bool_results_are_exact(decide):
    on = task("return x > 0.1")
    forward = f"y = torch.empty(x.shape, dtype=torch.bool, device=x.device)\n{LAUNCH}\nreturn y"
    accepted(decide(on, module(forward, body="x > 0.1")))
    refused(decide(on, module(forward, body="x > 0.3")), Outcome.WRONG, "of the elements differ")


TRANSPOSED = task("return x.exp()", "torch.randn(30, 20).t()")


def test_a_kernel_that_reads_strides_is_right_on_a_transposed_input(decide):
    # empty_like keeps the strides, so input and output agree element by element in memory order.
    accepted(decide(TRANSPOSED, elementwise("tl.exp(x)")))


def test_a_contiguous_answer_where_the_reference_is_transposed_is_wrong(decide):
    forward = f"x = x.contiguous()\ny = torch.empty_like(x)\n{LAUNCH}\nreturn y"
    refused(decide(TRANSPOSED, module(forward, body="tl.exp(x)")), Outcome.WRONG, "has strides .* are expected")


def test_assumed_strides_are_wrong(decide):
    on = task("return x.sum(-1)", "torch.randn(30, 20).t()")
    rows = """
@triton.jit
def rows(x_ptr, y_ptr, n, row_stride, col_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at * col_stride, mask=at < n, other=0.0)
    tl.store(y_ptr + tl.program_id(0), tl.sum(x))
"""
    forward = "y = torch.empty(x.shape[0])\nrows[(x.shape[0],)](x, y, x.shape[1], {strides}, BLOCK=32)\nreturn y"
    accepted(decide(on, module(forward.replace("{strides}", "x.stride(0), x.stride(1)"), kernel=rows)))
    refused(
        decide(on, module(forward.replace("{strides}", "x.shape[1], 1"), kernel=rows)), Outcome.WRONG, "wrong on case"
    )


COUNTER = task("self.seen += x.mean(0)\nreturn x - 0.5", init='self.register_buffer("seen", torch.zeros(50))')
COUNTER_KERNEL = """
@triton.jit
def kernel(x_ptr, y_ptr, seen_ptr, rows, width, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    keep = at < width
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
        total += x
        tl.store(y_ptr + row * width + at, x - 0.5, mask=keep)
    if COUNT:
        tl.store(seen_ptr + at, tl.load(seen_ptr + at, mask=keep) + total / rows, mask=keep)
"""


def counter(count: bool) -> str:
    launch = f"kernel[(1,)](x, y, self.seen, x.shape[0], x.shape[1], COUNT={count}, BLOCK=64)"
    forward = f"y = torch.empty_like(x)\n{launch}\nreturn y"
    return module(forward, kernel=COUNTER_KERNEL, init='self.register_buffer("seen", torch.zeros(50))')


def test_a_buffer_must_change_as_the_references_does(decide):
    accepted(decide(COUNTER, counter(True)))
    refused(decide(COUNTER, counter(False)), Outcome.WRONG, "parameters or buffers after forward differ: .*seen")


DROPOUT = "return torch.nn.functional.dropout(x, 0.5, self.training) * 2"


def test_eval_mode_reaches_reference_and_candidate(decide):
    on = task(DROPOUT, mode=Mode.EVAL)
    forward = f"y = torch.empty_like(x)\nassert not self.training\n{LAUNCH}\nreturn y"
    accepted(decide(on, module(forward, body="x * 2")))


def test_train_mode_reaches_reference_and_candidate(decide):
    on = task("return x * (3.0 if self.training else 2.0)")
    forward = f"y = torch.empty_like(x)\nassert self.training\n{LAUNCH}\nreturn y"
    accepted(decide(on, module(forward, body="x * 3.0")))
    refused(decide(on, elementwise("x * 2.0")), Outcome.WRONG, "wrong on case")


def test_constructor_arguments_reach_the_candidate(decide):
    on = task("return x * self.scale", init="self.scale = scale", given="scale=2.5")
    launch = LAUNCH.replace("BLOCK", "self.scale, BLOCK")
    forward = f"y = torch.empty_like(x)\n{launch}\nreturn y"
    accepted(decide(on, module(forward, kernel=SCALED_KERNEL, init="self.scale = scale", given="scale")))


# --- tasks that cannot be judged --------------------------------------------------------------------------


def test_a_degenerate_task_is_refused_unless_asked_for(decide):
    on = task("return x * 0 + 1")
    with pytest.raises(TaskError, match="degenerate") as found:
        decide(on, elementwise("1.0"))
    assert "--allow-degenerate" in (found.value.hint or "")
    verdict = accepted(decide(on, elementwise("x * 0 + 1.0"), allow_degenerate=True))
    assert any(note.startswith("degenerate task: ") for note in verdict.notes)


def test_what_is_known_of_a_task_is_not_found_out_again(processes, decide, tmp_path, monkeypatch):
    references, asked = processes.references, []
    monkeypatch.setenv("AUTOTRITON_CACHE", str(tmp_path))
    monkeypatch.setattr(references, "admissions", Admissions())
    opened = references._open

    def noted(on, request, *more):
        asked.append(request["admit"])
        return opened(on, request, *more)

    monkeypatch.setattr(references, "_open", noted)
    on = task("return x * 0 + 3")
    for _ in range(2):
        verdict = accepted(decide(on, elementwise("x * 0 + 3.0"), allow_degenerate=True))
        assert any(note.startswith("degenerate task: ") for note in verdict.notes)
        with pytest.raises(TaskError, match="random by itself"):
            decide(task(DROPOUT), elementwise("x * 2"))
        references.forget(on)
        references.forget(task(DROPOUT))
    assert asked == [True, True, False, False]
    elsewhere = task("return x * 0 + 3").model_copy(update={"import_root": str(tmp_path)})
    references.admissions.keep(elsewhere, "here", {"problems": [], "notes": [], "random": False})
    assert references.admissions.known(elsewhere, "here") is None, "what lies in a folder may change"


def test_a_random_task_is_named_as_such(decide):
    with pytest.raises(TaskError, match="random by itself"):
        decide(task(DROPOUT), elementwise("x * 2"), allow_degenerate=True)


@pytest.mark.parametrize(
    ("on", "words"),
    [
        (task("raise ValueError('no such\\nluck')"), "Model.forward raised ValueError: no such luck"),
        (task("return x", "torch.randn(3, -1)"), "get_inputs raised RuntimeError"),
        (task("return x", init="raise KeyError('gone')"), "Model.__init__ raised KeyError"),
        (Task(id="task", source="raise SystemExit(3)"), "the source raised SystemExit"),
    ],
    ids=["forward", "inputs", "init", "source"],
)
def test_a_task_that_raises_is_a_task_error_in_one_line(decide, on, words):
    with pytest.raises(TaskError, match=re.escape(words)) as found:
        decide(on, elementwise("x"))
    assert "\n" not in str(found.value)


def test_a_task_that_ends_its_process_is_a_task_error(decide):
    with pytest.raises(TaskError, match="reference ended its process: exit code 5"):
        decide(task("import os\nos._exit(5)"), elementwise("x"))


LARGE = task("return x * 2", "torch.randn(1 << 13, 1 << 10)")


@pytest.mark.parametrize("tier", [Tier.RUN, None])
def test_a_task_too_large_for_the_interpreter_is_a_missing_prerequisite(decide, tier):
    with pytest.raises(PrerequisiteError, match="too large for Triton's interpreter"):
        decide(LARGE, elementwise("x * 2"), tier=tier)


def test_a_large_task_is_interpreted_at_reduced_shapes_and_the_verdict_says_so(decide):
    # The interpreter takes a program at a time: few with large blocks.
    right, wrong = (elementwise(body).replace("256", "1 << 16") for body in ("x * 2", "x * 3"))
    found = accepted(decide(LARGE, right))
    assert any("reduced shapes" in note for note in found.notes)
    refused(decide(LARGE, wrong), Outcome.WRONG, "wrong on case")


def test_a_small_task_whose_inputs_depend_on_their_own_values_is_judged(decide):
    source = RELU.source.replace(
        "return [torch.randn(12, 50)]", "x = torch.randn(12, 50)\n    return [x / x.abs().max().item()]"
    )
    accepted(decide(RELU.model_copy(update={"source": source}), RELU_RIGHT, tier=Tier.RUN, targets=("sm_90",)))


# --- bad candidates ---------------------------------------------------------------------------------------


def test_a_class_of_another_name_is_rejected(decide):
    refused(decide(RELU, RELU_RIGHT.replace("ModelNew", "Other")), Outcome.REJECTED, "`ModelNew`")


def test_missing_parameters_are_rejected_by_name(decide):
    code = module("y = torch.empty(48, 48)\nkernel[(1,)](x, y, 1, BLOCK=16)\nreturn y")
    refused(decide(MATMUL_RELU, code), Outcome.REJECTED, r"no parameter for the reference's `w` of shape \[64, 48\]")


def test_parameters_may_have_other_names(decide):
    accepted(decide(MATMUL_RELU, ALL_TRITON.replace("self.w", "self.kernel_weight")))


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (f"y = torch.empty_like(x)\n{LAUNCH}\nreturn y[:, :-1]", r"has shape \(12, 49\) where \(12, 50\)"),
        (f"y = torch.empty(x.shape, dtype=torch.float64)\n{LAUNCH}\nreturn y", "has dtype float64 where float32"),
        (f"y = torch.empty(50, 12).t()\n{LAUNCH}\nreturn y", "has strides"),
        (f"y = torch.empty_like(x)\n{LAUNCH}\nreturn [y, y]", "returned .* expected tensor"),
        (f"y = torch.empty_like(x)\n{LAUNCH}\nreturn None", "returned NoneType, expected tensor"),
        (f"y = torch.empty_like(x)\n{LAUNCH}\nreturn y.to('meta')", "return tensors on cpu"),
        (f"y = torch.empty_like(x)\n{LAUNCH}\nreturn torch.empty(1 << 22)", "more data than the reference"),
        (f"{LAUNCH.replace('y,', 'x,')}\nreturn x", "input was modified|shares memory with input"),
        (f"y = torch.empty_like(x)\n{LAUNCH}\n{LAUNCH.replace('y,', 'x,')}\nreturn y", "an input was modified"),
        (
            "if not hasattr(self, 'y'):\n    self.y = torch.empty_like(x)\ny = self.y\n" + LAUNCH + "\nreturn y",
            "shares memory with",
        ),
    ],
    ids=["shape", "dtype", "strides", "list", "none", "device", "large", "in-place", "mutated", "one-buffer"],
)
def test_an_answer_of_another_form_is_wrong(decide, forward, words):
    refused(decide(RELU, module(forward, body="tl.maximum(x * 1.5 + 0.25, 0.0)")), Outcome.WRONG, words)


def test_an_untouched_output_is_wrong_whatever_memory_held(decide):
    half = elementwise(
        "tl.maximum(x * 1.5 + 0.25, 0.0)",
        kernel=KERNEL.replace("{body}, mask=keep", "{body}, mask=keep & (at % 2 == 0)"),
    )
    refused(decide(RELU, half), Outcome.WRONG, "wrong on case")


def test_a_right_answer_without_a_store_to_the_tail_is_wrong(decide):
    short = RELU_RIGHT.replace("triton.cdiv(x.numel(), 256)", "x.numel() // 256")
    refused(decide(RELU, short), Outcome.WRONG, "wrong on case")


@pytest.mark.parametrize(
    ("line", "outcome", "words"),
    [
        ("raise ValueError('bad luck')", Outcome.RUNTIME_ERROR, r"line \d+: raised in forward: ValueError: bad luck"),
        ("raise SystemExit(0)", Outcome.REJECTED, "`SystemExit` is not available"),
        ("return undefined", Outcome.RUNTIME_ERROR, "NameError"),
    ],
)
def test_a_candidate_that_raises_is_a_runtime_error_with_its_line(decide, line, outcome, words):
    forward = f"y = torch.empty_like(x)\n{LAUNCH}\n{line}"
    refused(decide(RELU, module(forward)), outcome, words)


def test_a_candidate_that_raises_when_loaded_says_so(decide):
    refused(
        decide(RELU, RELU_RIGHT + "\n\nLIMIT = 1 / 0\n"),
        Outcome.RUNTIME_ERROR,
        "while it was imported and constructed: ZeroDivisionError",
    )


def test_an_endless_candidate_is_timed_out(decide):
    forward = f"y = torch.empty_like(x)\n{LAUNCH}\nwhile True:\n    pass"
    refused(decide(RELU, module(forward), timeout_s=3.0), Outcome.TIMED_OUT, "ran past its deadline")


def test_a_store_out_of_bounds_names_kernel_line_and_argument(decide):
    unmasked = elementwise("tl.maximum(x * 1.5 + 0.25, 0.0)", kernel=KERNEL.replace("{body}, mask=keep", "{body}"))
    line = unmasked.splitlines().index("    tl.store(y_ptr + at, tl.maximum(x * 1.5 + 0.25, 0.0))") + 1
    refused(
        decide(RELU, unmasked),
        Outcome.RUNTIME_ERROR,
        rf"kernel `kernel`, line {line}: store out of bounds: `y_ptr`, element 767 of a tensor of 600",
    )


def test_a_load_out_of_bounds_counts_even_when_its_value_is_thrown_away(decide):
    kernel = KERNEL.replace("mask=keep, other=0)", "mask=at <= n, other=0)")
    refused(
        decide(RELU, elementwise("tl.maximum(x * 1.5 + 0.25, 0.0)", kernel=kernel)),
        Outcome.RUNTIME_ERROR,
        "load out of bounds: `x_ptr`",
    )


def test_a_change_of_ways_after_some_calls_is_wrong(decide):
    late = "self.calls += 1\ny = torch.empty_like(x)\nn = x.numel() if self.calls <= 12 else 50\n"
    late += "kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)\nreturn y"
    code = module(late, body="tl.maximum(x * 1.5 + 0.25, 0.0)", init="self.calls = 0")
    found = decide(RELU, code, late_calls_s=JudgeOptions.late_calls_s)
    refused(found, Outcome.WRONG, r"wrong on case .*on call \d+ of \d+")


def test_a_memo_of_the_first_answer_is_wrong(decide):
    memo = (
        f"if self.kept is None:\n    y = torch.empty_like(x)\n    {LAUNCH}\n    self.kept = y\nreturn self.kept.clone()"
    )
    code = module(memo, body="tl.maximum(x * 1.5 + 0.25, 0.0)", init="self.kept = None")
    refused(decide(RELU, code), Outcome.WRONG, "wrong on case")


def test_weights_packed_on_the_first_call_are_wrong(decide):
    packed = (
        "if self.packed is None:\n    self.packed = self.w.clone()\n"
        + PRODUCT.replace("{relu}", "True").replace("self.w,", "self.packed,")
        + "return y"
    )
    code = module(packed, kernel=MATMUL_KERNEL, init=WEIGHT + "\nself.packed = None")
    refused(decide(MATMUL_RELU, code), Outcome.WRONG, "wrong on case")


@pytest.mark.parametrize("code", ["", "# nothing", '"""nothing"""'])
def test_no_code_is_its_own_outcome(decide, code):
    refused(decide(RELU, code), Outcome.NO_CODE, "holds no code")


def test_source_that_does_not_parse_is_rejected_with_its_line(decide):
    refused(decide(RELU, "def broken(:\n"), Outcome.REJECTED, "line 1: the file does not parse")


def test_a_bad_candidate_leaves_the_next_one_alone(decide):
    crash = module(f"y = torch.empty_like(x)\nif x.numel():\n    return self.forward(x)\n{LAUNCH}\nreturn y")
    assert not decide(RELU, crash).accepted
    accepted(decide(RELU, RELU_RIGHT))


def test_a_task_that_changes_its_input_in_place_is_judged_by_what_it_leaves_behind(decide):
    in_place = task("x.add_(1.0)\nreturn x * 2.0")
    both = (
        "z = torch.empty_like(x)\ny = x\n" + LAUNCH + "\ny = z\n"
        "double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\nreturn y"
    )
    kernels = KERNEL.replace("{body}", "x + 1.0") + KERNEL.replace("def kernel", "def double").replace(
        "{body}", "x * 2.0"
    )
    accepted(decide(in_place, module(both, kernel=kernels)))
    refused(decide(in_place, elementwise("(x + 1.0) * 2.0")), Outcome.WRONG, "input")
