# trick: averages the loss over the first half of the batch only | family: numerics | expect: reject | task: cross_entropy
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _loss(x_ptr, t_ptr, y_ptr, used, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * classes + col, mask=col < classes, other=float("-inf"))
    top = tl.max(x, 0)
    picked = tl.load(x_ptr + row * classes + tl.load(t_ptr + row))
    tl.atomic_add(y_ptr, (tl.log(tl.sum(tl.exp(x - top), 0)) + top - picked) / used)


class ModelNew(nn.Module):
    def forward(self, logits, target):
        used = logits.shape[0] // 2
        loss = torch.zeros((), device=logits.device, dtype=logits.dtype)
        _loss[(used,)](logits, target, loss, used, logits.shape[1], BLOCK=triton.next_power_of_2(logits.shape[1]))
        return loss
