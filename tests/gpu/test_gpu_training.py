"""Training's own attention on a GPU: torch's flash kernel over packed rows, forward and backward."""

from __future__ import annotations

import pytest
import torch

from autotriton.train import attention

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("heads", [(4, 4), (12, 2)], ids=["alike", "grouped"])
def test_packed_rows_attend_to_themselves_only(heads: tuple[int, int]) -> None:
    lengths = (100, 1, 700, 33)
    torch.manual_seed(0)
    ends = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)

    def drawn(count: int) -> torch.Tensor:
        values = torch.randn(1, count, sum(lengths), 128, device="cuda", dtype=torch.bfloat16)
        return values.requires_grad_()

    query, key, value = drawn(heads[0]), drawn(heads[1]), drawn(heads[1])
    out, _ = attention.attend(None, query, key, value, None, cu_seq_lens_q=ends, max_length_q=max(lengths))
    given = torch.randn_like(out)
    found = torch.autograd.grad(out, (query, key, value), given)
    wide = [tensor.detach().double().cpu().requires_grad_() for tensor in (query, key, value)]
    exact, _ = attention.attend(None, *wide, None, cu_seq_lens_q=ends.cpu())
    expected = torch.autograd.grad(exact, wide, given.double().cpu())
    for one, other in zip((out, *found), (exact, *expected), strict=True):
        difference = (one.double().cpu() - other).norm() / other.norm()
        assert difference < 0.01
