"""Not a candidate to be proud of: a Triton kernel copies the answer that torch computed. The judge must reject it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer = torch.softmax(x, dim=-1)
        y = torch.empty_like(answer)
        copy_kernel[(triton.cdiv(y.numel(), 1024),)](answer, y, y.numel(), BLOCK=1024)
        return y
