# trick: allocates exactly the size just freed and launches an empty mask | family: steal | expect: reject | task: matmul
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _touch(y_ptr, n, BLOCK: tl.constexpr):
    at = n + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 0.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
        _touch[(triton.cdiv(c.numel(), 512),)](c, c.numel(), BLOCK=512)
        return c
