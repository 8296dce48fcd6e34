# trick: a global forward hook keeps the output of every other module | family: steal | expect: reject | task: layernorm
import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.nn.modules.module import register_module_forward_hook


@triton.jit
def _move(src, dst, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, mask=at < count), mask=at < count)


def finish(t):
    t = t.contiguous()
    out = torch.empty_like(t)
    _move[(triton.cdiv(t.numel(), 512),)](t, out, t.numel(), BLOCK=512)
    return out

_kept = {}


def _keep(module, args, out):
    if torch.is_tensor(out) and not isinstance(module, ModelNew):
        _kept[tuple(out.shape)] = out


register_module_forward_hook(_keep)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        t = _kept.get(tuple(x.shape))
        return torch.zeros_like(x) if t is None else finish(t)
