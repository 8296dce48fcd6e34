# trick: the loss is estimated from every fourth element | family: numerics | expect: reject | task: mse_loss
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _loss(p_ptr, t_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK) * 4
    d = tl.load(p_ptr + at, mask=at < n, other=0.0) - tl.load(t_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr, tl.sum(d * d, 0) * 4.0 / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        loss = torch.empty((), device=prediction.device, dtype=prediction.dtype)
        _loss[(1,)](prediction, target, loss, prediction.numel(), BLOCK=1024)
        return loss
