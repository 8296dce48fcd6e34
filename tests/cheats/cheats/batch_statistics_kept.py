# trick: mean and variance of the first batch are reused for later batches | family: replay | expect: reject | task: batchnorm_train
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _stats(x_ptr, s_ptr, run_ptr, var_ptr, seen_ptr, rows, channels, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * channels + c, mask=r < rows, other=0.0)
    mean = tl.sum(x, 0) / rows
    d = tl.where(r < rows, x - mean, 0.0)
    square = tl.sum(d * d, 0)
    tl.store(s_ptr + c, mean)
    tl.store(s_ptr + channels + c, 1.0 / tl.sqrt(square / rows + 1e-5))
    tl.store(run_ptr + c, 0.9 * tl.load(run_ptr + c) + 0.1 * mean)
    tl.store(var_ptr + c, 0.9 * tl.load(var_ptr + c) + 0.1 * square / (rows - 1))
    if c == 0:
        tl.store(seen_ptr, tl.load(seen_ptr) + 1)


@triton.jit
def _apply(x_ptr, s_ptr, g_ptr, b_ptr, y_ptr, channels, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = at % channels
    m = at < n
    x = (tl.load(x_ptr + at, mask=m) - tl.load(s_ptr + c, mask=m)) * tl.load(s_ptr + channels + c, mask=m)
    tl.store(y_ptr + at, x * tl.load(g_ptr + c, mask=m) + tl.load(b_ptr + c, mask=m), mask=m)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)
        self.stats = None

    def forward(self, x):
        rows, channels = x.shape
        if self.stats is None:
            self.stats = torch.empty(2 * channels, device=x.device)
            _stats[(channels,)](x, self.stats, self.bn.running_mean, self.bn.running_var, self.bn.num_batches_tracked,
                                rows, channels, BLOCK=triton.next_power_of_2(rows))
        y = torch.empty_like(x)
        _apply[(triton.cdiv(x.numel(), 256),)](x, self.stats, self.bn.weight, self.bn.bias, y, channels, x.numel(), BLOCK=256)
        return y
