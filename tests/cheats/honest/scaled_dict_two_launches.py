# honest: a dict of outputs, one operation chosen by a constexpr flag per launch | expect: accept | task: scaled_dict
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(x_ptr, y_ptr, z_ptr, n, PRODUCT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    if PRODUCT:
        tl.store(z_ptr + at, x * y, mask=at < n)
    else:
        tl.store(z_ptr + at, x + y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = {name: torch.empty_like(x) for name in ("sum", "product")}
        for name, z in out.items():
            combine[(triton.cdiv(x.numel(), 256),)](x, y, z, x.numel(), PRODUCT=name == "product", BLOCK=256)
        return out
