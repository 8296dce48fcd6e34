# trick: an .item() loop finds the maximum on the host | family: delegation | expect: reject | task: argmax
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
        best = []
        for row in x.unbind(0):
            values = [v.item() for v in row]
            best.append(values.index(max(values)))
        return finish(torch.tensor(best, device=x.device))
