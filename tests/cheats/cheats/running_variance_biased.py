# trick: output is right, but running_var gets the biased variance and the batch count stays | family: numerics | expect: reject | task: batchnorm_train
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _bn(x_ptr, g_ptr, b_ptr, y_ptr, mean_ptr, var_ptr, rows, channels, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    r = tl.arange(0, BLOCK)
    keep = r < rows
    x = tl.load(x_ptr + r * channels + c, mask=keep, other=0.0)
    mean = tl.sum(x, 0) / rows
    d = tl.where(keep, x - mean, 0.0)
    var = tl.sum(d * d, 0) / rows
    tl.store(y_ptr + r * channels + c, d / tl.sqrt(var + 1e-5) * tl.load(g_ptr + c) + tl.load(b_ptr + c), mask=keep)
    tl.store(mean_ptr + c, 0.9 * tl.load(mean_ptr + c) + 0.1 * mean)
    tl.store(var_ptr + c, 0.9 * tl.load(var_ptr + c) + 0.1 * var)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)

    def forward(self, x):
        y = torch.empty_like(x)
        _bn[(x.shape[1],)](x, self.bn.weight, self.bn.bias, y, self.bn.running_mean, self.bn.running_var,
                           x.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[0]))
        return y
