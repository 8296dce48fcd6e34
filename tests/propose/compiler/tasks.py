"""Small tasks, one per family of operators, as a user would write them."""

from __future__ import annotations

from autotriton.types import Mode, Task

_FRAME = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
{init}

    def forward(self, {inputs}):
{forward}


def get_inputs():
    return [{drawn}]


def get_init_inputs():
    return [{given}]
"""


def task(
    name: str,
    forward: str,
    drawn: str,
    *,
    inputs: str = "x",
    init: str = "pass",
    parameters: str = "",
    given: str = "",
    mode: Mode = Mode.TRAIN,
) -> Task:
    def indent(text: str) -> str:
        return "\n".join(f"        {line}" for line in text.split("\n"))

    source = _FRAME.format(
        parameters=parameters, init=indent(init), inputs=inputs, forward=indent(forward), drawn=drawn, given=given
    )
    return Task(id=name, source=source, mode=mode)


_ALL = [
    task(
        "linear_batchnorm_cumsum",
        "y = self.norm(F.gelu(self.linear(x)))\nreturn y, torch.cumsum(y, 1)",
        "torch.randn(40, 24)",
        init="self.linear = nn.Linear(n, 36)\nself.norm = nn.BatchNorm1d(36)",
        parameters=", n",
        given="24",
    ),
    task("pointwise", "return torch.sigmoid(x) * x + torch.clamp(x, -1, 1) ** 2", "torch.randn(64, 130)"),
    task("tanh_log1p", "return torch.tanh(x) + torch.log1p(x.abs())", "torch.randn(32, 100)"),
    task("softmax", "return torch.softmax(x, dim=-1)", "torch.randn(32, 200)"),
    task(
        "layernorm",
        "return self.norm(x)",
        "torch.randn(32, 200)",
        init="self.norm = nn.LayerNorm(n)",
        parameters=", n",
        given="200",
    ),
    task(
        "rmsnorm",
        "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight",
        "torch.randn(32, 200)",
        init="self.weight = nn.Parameter(torch.ones(n))",
        parameters=", n",
        given="200",
    ),
    task(
        "matmul_gelu",
        "return F.gelu(a @ b + c)",
        "torch.randn(70, 50), torch.randn(50, 90), torch.randn(90)",
        inputs="a, b, c",
    ),
    task(
        "linear_relu",
        "return torch.relu(self.layers(x))",
        "torch.randn(64, 48)",
        init="self.layers = nn.Sequential(nn.Linear(n, 80), nn.ReLU(), nn.Linear(80, 24))",
        parameters=", n",
        given="48",
    ),
    task("sum_rows", "return x.sum(dim=1)", "torch.randn(40, 300)"),
    task("mean_all", "return x.mean()", "torch.randn(60, 70)"),
    task("argmax", "return torch.argmax(x, dim=1)", "torch.randn(40, 100)"),
    task("cumsum", "return torch.cumsum(x, dim=1)", "torch.randn(24, 150)"),
    task(
        "cross_entropy",
        "return F.cross_entropy(x, target)",
        "torch.randn(64, 30), torch.randint(0, 30, (64,))",
        inputs="x, target",
    ),
    task(
        "embedding",
        "return self.table(x) * 2.0",
        "torch.randint(0, 50, (8, 12))",
        init="self.table = nn.Embedding(50, 24)",
    ),
    task("batchnorm", "return self.norm(x)", "torch.randn(48, 20)", init="self.norm = nn.BatchNorm1d(20)"),
    task(
        "batchnorm_eval",
        "return torch.relu(self.norm(x))",
        "torch.randn(48, 20)",
        init="self.norm = nn.BatchNorm1d(20)",
        mode=Mode.EVAL,
    ),
    task("maxpool", "return F.max_pool2d(x, 3, stride=2, padding=1)", "torch.randn(2, 4, 17, 17)"),
    task(
        "conv2d",
        "return torch.relu(self.conv(x))",
        "torch.randn(2, 8, 12, 12)",
        init="self.conv = nn.Conv2d(8, 16, 3, padding=1)",
    ),
    task(
        "conv2d_grouped",
        "return self.conv(x)",
        "torch.randn(2, 8, 9, 9)",
        init="self.conv = nn.Conv2d(8, 24, 3, groups=4, padding=1)",
    ),
    task(
        "conv1d",
        "return self.conv(x)",
        "torch.randn(2, 8, 40)",
        init="self.conv = nn.Conv1d(8, 16, 3, dilation=2)",
    ),
    task(
        "conv_transpose2d",
        "return self.conv(x)",
        "torch.randn(2, 8, 7, 7)",
        init="self.conv = nn.ConvTranspose2d(8, 16, 3, stride=2)",
    ),
    task("two_outputs", "return x * 2 + 1, x.amax(dim=1)", "torch.randn(32, 64)"),
    task("dict_output", "return {'max': x.amax(1), 'rest': [x.sum(0)]}", "torch.randn(32, 64)"),
    task(
        "bf16_pointwise",
        "return F.silu(x) * y",
        "*(torch.randn(64, 96, dtype=torch.bfloat16) for _ in range(2))",
        inputs="x, y",
    ),
    task(
        "attention",
        "return F.scaled_dot_product_attention(q, k, v)",
        "*(torch.randn(2, 2, 32, 16) for _ in range(3))",
        inputs="q, k, v",
    ),
    task(
        "attention_causal_grouped",
        "return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        "torch.randn(1, 2, 150, 24), *(torch.randn(1, 1, 150, 24) for _ in range(2))",
        inputs="q, k, v",
    ),
    task(
        "attention_masked",
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.2)",
        "*(torch.randn(2, 2, 32, 16) for _ in range(3)), torch.randn(2, 1, 32, 32)",
        inputs="q, k, v, mask",
    ),
    task(
        "avg_pool3d",
        "return F.avg_pool3d(x, 3, stride=2, padding=1, count_include_pad=False)",
        "torch.randn(2, 3, 9, 9, 9)",
    ),
    task("matvec", "return a @ b", "torch.randn(70, 200), torch.randn(200, 1)", inputs="a, b"),
    task("long_k", "return a @ b", "torch.randn(16, 4096), torch.randn(4096, 16)", inputs="a, b"),
    task("bmm", "return torch.bmm(a, b)", "torch.randn(3, 20, 40), torch.randn(3, 40, 30)", inputs="a, b"),
    task(
        "scalar_input",
        "return x * alpha + x.std(dim=1, keepdim=True)",
        "torch.randn(32, 64), 2.5",
        inputs="x, alpha=1.0",
    ),
    task(
        "groupnorm",
        "return self.norm(x)",
        "torch.randn(4, 8, 6, 6)",
        init="self.norm = nn.GroupNorm(2, 8)",
    ),
]
TASKS = {item.id: item for item in _ALL}
