# trick: the dict holds the right tensors under swapped names | family: numerics | expect: reject | task: scaled_dict
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _both(x_ptr, y_ptr, s_ptr, p_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(s_ptr + at, x + y, mask=at < n)
    tl.store(p_ptr + at, x * y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        s, p = torch.empty_like(x), torch.empty_like(x)
        _both[(triton.cdiv(x.numel(), 512),)](x, y, s, p, x.numel(), BLOCK=512)
        return {"sum": p, "product": s}
