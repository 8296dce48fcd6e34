"""Attention as the flash kernel's operator: the same numbers as torch's own, block lists that cover the mask."""

import pytest
import torch
import torch.nn.functional as F

from autotriton.propose.compiler.inductor.attention import _BLOCK, _causal_blocks, as_flex_attention, refusal

pytestmark = pytest.mark.interp


def operands(shape=(2, 4, 40, 16), kv=None, dtype=torch.float32):
    torch.manual_seed(0)
    return (
        torch.randn(shape, dtype=dtype),
        torch.randn(kv or shape, dtype=dtype),
        torch.randn(kv or shape, dtype=dtype),
    )


CASES = {
    "plain": (operands(), {}),
    "three dimensions": (operands((6, 40, 16)), {}),
    "causal": (operands(), {"is_causal": True}),
    "causal, more columns than rows": (operands(kv=(2, 4, 60, 16)), {"is_causal": True}),
    "scale": (operands(), {"scale": 0.3}),
    "grouped": (operands(kv=(2, 2, 40, 16)), {"enable_gqa": True}),
    "boolean mask": (operands(), {"attn_mask": torch.ones(40, 40, dtype=torch.bool).tril(3)}),
    "mask for all heads": (operands(), {"attn_mask": torch.randn(2, 1, 40, 40)}),
    "mask of a row": (operands(), {"attn_mask": torch.randn(1, 40)}),
    "three dimensions and a mask": (operands((6, 40, 16)), {"attn_mask": torch.randn(6, 40, 40)}),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_torch(name):
    (q, k, v), more = CASES[name]
    expected = F.scaled_dot_product_attention(q, k, v, **more)
    with as_flex_attention(enabled=True) as seen:
        found = F.scaled_dot_product_attention(q, k, v, **more)
    assert (seen.rewritten, seen.refused) == (1, "")
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"dropout_p": 0.1}, "dropout is active"),
        ({"shape": (2, 4, 40, 8)}, "heads of 8 numbers; the kernel takes 16 and more"),
        ({"dtype": torch.float64}, "operands of type torch.float64"),
        ({"kv": (2, 2, 40, 16)}, "4 heads over 2"),
        ({"mask": torch.zeros(40, 40), "is_causal": True}, "a mask on top of causal attention"),
    ],
)
def test_what_the_kernel_cannot_do_is_said(given, why):
    tensors = operands(given.get("shape", (2, 4, 40, 16)), given.get("kv"), given.get("dtype", torch.float32))
    options = (given.get("mask"), given.get("dropout_p", 0.0), given.get("is_causal", False), False)
    assert refusal(*tensors, *options) == why


def test_a_call_that_is_refused_goes_torchs_way():
    q, k, v = operands((2, 4, 40, 8))
    expected = F.scaled_dot_product_attention(q, k, v)
    with as_flex_attention(enabled=True) as seen:
        found = F.scaled_dot_product_attention(q, k, v)
    assert seen.rewritten == 0
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("rows", "columns"), [(128, 128), (300, 300), (512, 200), (200, 700), (40, 40), (384, 256)])
def test_causal_blocks_cover_the_triangle_and_whole_ones_need_no_mask(rows, columns):
    _, _, partial, places, full, full_places, *_ = _causal_blocks(rows, columns, torch.device("cpu"))
    wanted = torch.ones(rows, columns, dtype=torch.bool).tril()
    covered = torch.zeros_like(wanted)
    for block in range(partial.shape[2]):
        lines = slice(block * _BLOCK, (block + 1) * _BLOCK)
        for number in range(int(full[0, 0, block])):
            across = int(full_places[0, 0, block, number]) * _BLOCK
            assert across + _BLOCK <= columns
            assert wanted[lines, across : across + _BLOCK].all()
            covered[lines, across : across + _BLOCK] = True
        for number in range(int(partial[0, 0, block])):
            across = int(places[0, 0, block, number]) * _BLOCK
            covered[lines, across : across + _BLOCK] |= wanted[lines, across : across + _BLOCK]
    assert torch.equal(covered, wanted)
