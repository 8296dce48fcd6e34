"""Operator families, read from source."""

from __future__ import annotations

import pytest

from autotriton.tasks.families import FAMILIES, families

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
TAIL = "\ndef get_inputs():\n    return [torch.softmax(torch.rand(4, 4) @ torch.rand(4, 4), -1)]\n"


MODEL = """
class Model(nn.Module):
    def __init__(self):
        {layers}

    def forward(self, x, y):
        {forward}
"""


def of(forward: str, layers: str = "pass") -> tuple[str, ...]:
    return families(HEAD + MODEL.format(layers=layers, forward=forward) + TAIL)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return x @ y", ("matmul",)),
        ("return torch.einsum('ij,jk->ik', x, y)", ("matmul",)),
        ("return F.softmax(x, dim=-1)", ("softmax",)),
        ("return torch.cumsum(x, dim=1)", ("scan",)),
        ("return x.sum(dim=1)", ("reduction",)),
        ("return torch.argmax(x, dim=1)", ("reduction",)),
        ("return F.cross_entropy(x, y)", ("loss",)),
        ("return torch.relu(x) * 2", ("pointwise",)),
        ("return x.transpose(0, 1).contiguous()", ("movement",)),
        ("return F.conv_transpose2d(x, y)", ("transposed convolution",)),
        ("return F.scaled_dot_product_attention(x, y, y)", ("attention",)),
        ("return x", ("other",)),
    ],
)
def test_one_operator_has_one_family(forward, expected):
    assert of(forward) == expected


def test_the_family_that_decides_about_the_kernel_leads():
    found = of(
        "return torch.relu(self.norm(self.conv(x)))",
        layers="self.conv, self.norm = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)",
    )
    assert found == ("convolution", "norm", "pointwise")


def test_a_softmax_between_two_products_is_attention():
    assert of("return torch.softmax(x @ y.transpose(-2, -1), -1) @ y")[0] == "attention"
    assert of("return torch.softmax(x @ y, -1)")[0] == "matmul"


def test_inputs_are_not_the_work():
    assert of("return torch.exp(x)") == ("pointwise",)


def test_source_that_does_not_parse_is_other():
    assert families("def broken(") == ("other",)


def test_every_family_that_can_be_found_has_a_place():
    assert len(set(FAMILIES)) == len(FAMILIES)
    assert {"convolution", "matmul", "norm", "pooling", "rnn", "other"} <= set(FAMILIES)
