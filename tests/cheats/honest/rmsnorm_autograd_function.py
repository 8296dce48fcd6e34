# honest: the launch hides in a torch.autograd.Function with an unfinished backward | expect: accept | task: rmsnorm
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, y_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    keep = col < width
    x = tl.load(x_ptr + row * width + col, mask=keep, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / width + eps)
    tl.store(y_ptr + row * width + col, x * scale * tl.load(w_ptr + col, mask=keep), mask=keep)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        flat = x.contiguous().view(-1, x.shape[-1])
        y = torch.empty_like(flat)
        rmsnorm_kernel[(flat.shape[0],)](flat, weight, y, flat.shape[1], eps, BLOCK=triton.next_power_of_2(flat.shape[1]))
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("inference only")


class ModelNew(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return RMSNorm.apply(x, self.weight, self.eps)
