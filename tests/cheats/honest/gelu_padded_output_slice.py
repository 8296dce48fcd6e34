# honest: writes a padded buffer and returns a reshaped slice of it | expect: accept | task: gelu
import torch
import torch.nn as nn
import triton
import triton.language as tl

try:
    from triton.language.extra import libdevice
except ImportError:
    libdevice = None


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865475)))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        blocks = triton.cdiv(n, 256)
        padded = torch.empty(blocks * 256, device=x.device, dtype=x.dtype)
        gelu_kernel[(blocks,)](x.reshape(-1), padded, n, BLOCK=256)
        return padded[:n].reshape(x.shape)
