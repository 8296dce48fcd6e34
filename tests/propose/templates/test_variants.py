"""Other ways to write a task than the engine's first choice: each differs from it, and each is right."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from whole_file import Sample, run_all  # noqa: E402

from autotriton.data.quality.sizes import sizes_are_fixed  # noqa: E402
from autotriton.propose.compiler import CompilerProposer  # noqa: E402
from autotriton.propose.compiler.templates.engine import alternatives, emitted  # noqa: E402
from autotriton.propose.compiler.templates.traceable import traceable  # noqa: E402
from autotriton.types import Task  # noqa: E402

pytestmark = pytest.mark.interp

NORM = Sample("return self.n(x)", "torch.randn(3, 600)", init="self.n = nn.LayerNorm(600)")
WIDE = Sample("return (x * 2).sum(1), x.amax(1)", "torch.randn(2, 16400)")
DEEP = Sample("return torch.relu(self.l(x))", "torch.randn(4, 2048)", init="self.l = nn.Linear(2048, 8)")
LINEAR = Sample("return F.gelu(self.l(x)) + x", "torch.randn(20, 32)", init="self.l = nn.Linear(32, 32)")
CONV = Sample("return torch.relu(self.c(x))", "torch.randn(2, 16, 6, 6)", init="self.c = nn.Conv2d(16, 16, 3)")
POOL = Sample("return torch.relu(F.max_pool2d(x, 3, 1, 1))", "torch.randn(1, 2, 33, 64)")
CASES = {
    "strips_fused": POOL,
    "pooling_windows": replace(POOL, variant="windows"),
    "looped_norm": replace(NORM, variant="looped"),
    "looped_variance": Sample("return x.var(1), x.mean(1)", "torch.randn(3, 700).double() + 50", variant="looped"),
    "unsplit_sum": replace(WIDE, variant="unsplit"),
    "unsplit_product": replace(DEEP, variant="unsplit"),
    "presplit_product": replace(LINEAR, variant="presplit"),
    "separate_product": replace(LINEAR, variant="separate_epilogue"),
    "presplit_convolution": replace(CONV, variant="presplit"),
    "separate_convolution": replace(CONV, variant="separate_epilogue"),
}
_TAUGHT = {
    "convolution": CONV,
    "sum": WIDE,
    "grouped": Sample(
        "return F.silu(self.c(x)) * 2",
        "torch.randn(2, 12, 19)",
        init="self.c = nn.Conv1d(12, 18, 3, stride=2, padding=2, dilation=2, groups=2, bias=False)",
    ),
    "depthwise": replace(
        CONV, drawn="torch.randn(2, 4, 7, 5)", init="self.c = nn.Conv2d(4, 8, 3, padding=1, groups=4)"
    ),
    "transposed": Sample(
        "return torch.relu(self.c(x)) + x.sum()",
        "torch.randn(2, 16, 4, 5)",
        init="self.c = nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1, dilation=2)",
    ),
    "thin": replace(CONV, drawn="torch.randn(3, 2, 3, 4)", init="self.c = nn.ConvTranspose2d(2, 2, 4, stride=3)"),
    "volume": Sample("return self.c(x).mean((2, 3))", "torch.randn(1, 8, 3, 4, 5)", init="self.c = nn.Conv3d(8, 4, 2)"),
    "one_position": replace(CONV, drawn="torch.randn(3, 8, 2, 2)", init="self.c = nn.Conv2d(8, 5, 2)"),
    "unbatched": replace(CONV, drawn="torch.randn(8, 6, 6)", init="self.c = nn.Conv2d(8, 5, 3)"),
    "normed": Sample(
        "return self.n(F.silu(self.c(x)) + 1)",
        "torch.randn(2, 6, 7, 7) + 3",
        init="self.c = nn.Conv2d(6, 8, 3)\nself.n = nn.GroupNorm(4, 8)",
    ),
    "same": Sample(
        "return self.c[0](x)",
        "torch.randn(2, 8, 5, 6)",
        init='self.c = nn.ModuleList([nn.Conv2d(8, 4, (3, 4), padding="same", bias=False)])',
    ),
    "given_weight": Sample(
        "return F.conv1d(x, self.w, stride=2)",
        "torch.randn(2, 8, 9)",
        init="self.w = nn.Parameter(torch.randn(4, 8, 3))",
    ),
    "images": Sample(
        "return F.mish(self.a(x) * 8), F.instance_norm(x[0])",
        "torch.randn(3, 5, 4, 6) + 3",
        init="self.a = nn.InstanceNorm2d(5, affine=True, eps=1e-3)",
    ),
    "tracked": Sample(
        "return self.a(x)", "torch.randn(3, 5, 9) + 3", init="self.a = nn.InstanceNorm1d(5, track_running_stats=True)"
    ),
    "pools": Sample(
        "return self.b(self.a(x)), self.c(x).relu(), F.max_pool2d(x, 4), F.avg_pool2d(x, 3, padding=1)",
        "torch.randn(2, 3, 13, 10)",
        init="self.a = nn.MaxPool2d(2)"
        "\nself.b = nn.MaxPool2d((3, 2), stride=2, padding=(1, 0), dilation=(1, 2), ceil_mode=True)"
        "\nself.c = nn.AvgPool2d(3, stride=2, ceil_mode=True, count_include_pad=False)",
    ),
    "pools_of_other_dimensions": Sample(
        "return self.a(x), self.b(x[0]), self.c(x.unsqueeze(1))[0]",
        "torch.randn(2, 3, 9, 8)",
        init="self.a = nn.AvgPool3d(2, stride=(1, 2, 3))\nself.b = nn.MaxPool1d(3, padding=1)"
        "\nself.c = nn.MaxPool3d(2, return_indices=True)",
    ),
    "groups_of_channels": Sample(
        "return self.n(self.c(x)).mean((1, 2)), self.m(x[:, :, 0, 0]).sum(1)",
        "torch.randn(2, 6, 7, 9) + 3",
        init="self.c = nn.Conv2d(6, 8, 3)\nself.n = nn.GroupNorm(4, 8)\nself.m = nn.GroupNorm(3, 6, affine=False)",
    ),
    "one_number_of_each_image": Sample(
        "return torch.maximum(self.c(x).relu(), x[:, :1, :1, :1])",
        "torch.randn(4, 8, 7, 7)",
        init="self.c = nn.Conv2d(8, 1, 7)",
    ),
    "product_of_many": Sample(
        "return self.l(x) * self.w, self.l(x) + x[:, :1, :, :4], x @ x.transpose(-1, -2)",
        "torch.randn(2, 3, 5, 6)",
        init="self.l = nn.Linear(6, 4)\nself.w = nn.Parameter(torch.randn(3, 1, 4))",
    ),
    "statistics": Sample(
        "return self.n(x).softmax(1), x.logsumexp((0, 2))",
        "torch.randn(3, 5, 9) + 3",
        init="self.n = nn.BatchNorm1d(5)",
    ),
}
CASES |= {f"plain_{name}": replace(sample, way="plain") for name, sample in _TAUGHT.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(CASES, tmp_path_factory.mktemp("variants"))


@pytest.mark.parametrize("name", CASES)
def test_every_variant_is_right(results: dict[str, Any], name: str):
    found = results[name]
    assert not isinstance(found, str), found
    for given, wanted in found:
        torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-4)


def test_statistics_in_double_precision_are_that_exact(results: dict[str, Any]):
    for given, wanted in results["looped_variance"]:
        torch.testing.assert_close(given, wanted, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_instances_of_half_precision_are_normed_in_single(dtype: torch.dtype):
    x = (torch.randn(2, 3, 4, 5) + 3).to(dtype)
    norm = torch.nn.InstanceNorm2d(3, affine=True).to(dtype)
    with traceable():
        found = norm(x)
    wanted = norm.float()(x.float())
    torch.testing.assert_close(found, wanted.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_what_is_taught_is_short_and_nothing_a_tuner_tries():
    taught, own = (replace(CONV, way=way).emitted().code for way in ("plain", ""))
    assert len(taught) < 2 / 3 * len(own)
    assert "plain" not in alternatives(CONV.request, "sample")


def test_one_text_serves_convolutions_of_any_settings_with_a_bias_or_without():
    layers = "self.a = nn.Conv2d(8, 8, 3, stride=2)\nself.b = nn.Conv2d(8, 4, 3, padding=1, groups=2, bias=False)"
    code = Sample("return self.b(self.a(x))", "torch.randn(2, 8, 9, 9)", init=layers, way="plain").emitted().code
    assert code.count("@triton.jit") == 1
    told = ["weight", "bias", "stride", "padding", "dilation", "groups"]
    for layer in "ab":
        assert ", ".join(f"self.{layer}.{name}" for name in told) in " ".join(code.split())
    # A layer that was changed behind its constructor is read as it is written: from the call.
    changed = replace(CONV, init="self.c = nn.Conv2d(16, 16, 3)", forward="return F.conv2d(x, self.c.weight, stride=2)")
    assert "[2, 2], [0, 0], [1, 1], 1" in replace(changed, way="plain").emitted().code


def test_one_text_serves_poolings_of_any_settings():
    layers = "self.a = nn.MaxPool2d(2)\nself.b = nn.MaxPool2d((3, 2), stride=2, padding=1, dilation=2, ceil_mode=True)"
    sample = Sample("return self.b(self.a(x)), F.max_pool2d(x, 5, 1)", "torch.randn(2, 8, 20, 20)", init=layers)
    code = replace(sample, way="plain").emitted().code
    assert code.count("@triton.jit") == 1
    for layer in "ab":
        settings = [f"self.{layer}.{name}" for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
        assert ", ".join(settings) in " ".join(code.split())
    # A pooling that no layer has the settings of is written as it is called.
    assert "[5, 5], [1, 1], [0, 0], [1, 1], False" in code
    changed = replace(sample, forward="return F.max_pool2d(x, self.a.kernel_size, 1)")
    assert "[2, 2], [1, 1], [0, 0], [1, 1], False" in replace(changed, way="plain").emitted().code


def test_rows_of_a_product_are_not_taken_apart_where_nothing_needs_them_apart():
    code = Sample("return self.l(x).relu()", "torch.randn(2, 3, 5, 6)", init="self.l = nn.Linear(6, 4)").emitted().code
    assert "rows[:, None] * N" in code
    assert "rows[:, None] //" not in code
    bias = Sample(
        "return self.l(x) + self.w",
        "torch.randn(2, 5, 6)",
        init="self.l = nn.Linear(6, 4)\nself.w = nn.Parameter(torch.randn(5, 4))",
    )
    assert "rows[:, None] %" in bias.emitted().code


def test_sizes_of_one_keep_their_names():
    layers = "self.c = nn.Conv2d(4, 5, 3)\nself.p = nn.MaxPool2d(3)\nself.l = nn.Linear(6, 1)"
    forward = "return self.c(x).relu(), self.p(x), self.l(torch.flatten(x, 0, 1)[:, 0].repeat(1, 2))"
    code = Sample(forward, "torch.randn(1, 4, 3, 3)", init=layers, way="plain").emitted().code
    assert code.count("torch.empty((N, OC, OH, OW)") == 1
    assert code.count("torch.empty((N, C, OH, OW)") == 1
    assert code.count("torch.empty((M, N)") == 1
    assert not sizes_are_fixed(code)


def test_what_follows_a_group_norm_knows_no_groups():
    layers = "self.n = nn.GroupNorm(4, 8)"
    code = (
        Sample("return self.n(x).mean((1, 2, 3))", "torch.randn(2, 8, 7, 7)", init=layers, way="plain").emitted().code
    )
    mean = code[code.index("def mean(") : code.index("class ModelNew")]
    assert "n_cols = add.shape[1] * add.shape[2] * add.shape[3]" in mean


@pytest.mark.parametrize(
    ("sample", "small", "large"),
    [
        (NORM, "torch.randn(3, 600)", "torch.randn(30000, 600)"),
        (Sample("return x.softmax(-1), x.var(1)", ""), "torch.randn(3, 9)", "torch.randn(64, 100000)"),
        (Sample("return x.sum(1), x.amax(1)", ""), "torch.randn(2, 3, 5)", "torch.randn(64, 4096, 2048)"),
        (Sample("return torch.relu(x @ x)", ""), "torch.randn(8, 8)", "torch.randn(4096, 4096)"),
        (CONV, "torch.randn(2, 16, 6, 6)", "torch.randn(64, 16, 256, 256)"),
        (Sample("return F.max_pool2d(x, 2)", ""), "torch.randn(2, 2, 6, 6)", "torch.randn(16, 64, 512, 512)"),
        (Sample("return x.cumsum(1)", ""), "torch.randn(2, 6)", "torch.randn(4096, 30000)"),
    ],
    ids=["norm", "rows", "columns", "product", "convolution", "pooling", "scan"],
)
def test_what_is_taught_is_the_same_at_every_size(sample: Sample, small: str, large: str):
    texts = [replace(sample, way="plain", drawn=drawn).emitted().code for drawn in (small, large)]
    assert texts[0] == texts[1]


def test_a_norm_behind_a_convolution_leaves_its_channels_whole():
    code = replace(CASES["plain_normed"], way="plain").emitted().code
    convolution = code[: code.index("def group_norm")]
    assert "oc[:, None] %" not in convolution
    norm = code[code.index("def group_norm(") :]
    assert "out = torch.empty_like(" in norm  # the result has the convolution's own shape, no groups
    assert ".reshape(" not in norm


def test_variants_that_change_nothing_are_left_out():
    found = alternatives(NORM.request, "sample")
    assert set(found) == {"looped"}
    assert found["looped"].code != emitted(NORM.request, "sample").code


def test_the_proposer_offers_variants_after_its_first_choice():
    proposer = CompilerProposer(timeout_s=170, engines=("templates",))
    found = list(proposer.propose(Task(id="norm", source=NORM.source), []))
    assert [candidate.proposer for candidate in found] == ["compiler:templates", "compiler:templates:looped"]
