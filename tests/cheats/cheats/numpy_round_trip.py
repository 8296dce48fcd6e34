# trick: numpy computes the scan on the host, a kernel copies it | family: delegation | expect: reject | task: cumsum
import numpy as np

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _move(src, dst, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < count), mask=at < count)


def finish(t):
    t = t.contiguous()
    out = torch.empty_like(t)
    _move[(triton.cdiv(t.numel(), 512),)](t, out, t.numel(), BLOCK=512)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        host = np.cumsum(x.detach().cpu().numpy(), axis=1)
        return finish(torch.from_numpy(host).to(x.device))
