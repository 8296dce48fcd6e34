# honest: the kernel writes into running_mean, running_var and num_batches_tracked | expect: accept | task: batchnorm_train
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batchnorm(x_ptr, g_ptr, b_ptr, y_ptr, mean_ptr, var_ptr, seen_ptr, rows, channels, eps, momentum, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    row = tl.arange(0, BLOCK)
    keep = row < rows
    x = tl.load(x_ptr + row * channels + c, mask=keep, other=0.0)
    mean = tl.sum(x, 0) / rows
    d = tl.where(keep, x - mean, 0.0)
    square = tl.sum(d * d, 0)
    y = d / tl.sqrt(square / rows + eps) * tl.load(g_ptr + c) + tl.load(b_ptr + c)
    tl.store(y_ptr + row * channels + c, y, mask=keep)
    tl.store(mean_ptr + c, (1 - momentum) * tl.load(mean_ptr + c) + momentum * mean)
    tl.store(var_ptr + c, (1 - momentum) * tl.load(var_ptr + c) + momentum * square / (rows - 1))
    if c == 0:
        tl.store(seen_ptr, tl.load(seen_ptr) + 1)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)

    def forward(self, x):
        bn = self.bn
        y = torch.empty_like(x)
        batchnorm[(x.shape[1],)](x, bn.weight, bn.bias, y, bn.running_mean, bn.running_var, bn.num_batches_tracked,
                                 x.shape[0], x.shape[1], bn.eps, bn.momentum, BLOCK=triton.next_power_of_2(x.shape[0]))
        return y
