# honest: a scalar loss accumulated by atomics, returned as a zero-dimensional view | expect: accept | task: cross_entropy
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_loss(x_ptr, t_ptr, loss_ptr, rows, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * classes + col, mask=col < classes, other=float("-inf"))
    top = tl.max(x, 0)
    target = tl.load(t_ptr + row)
    picked = tl.load(x_ptr + row * classes + target)
    tl.atomic_add(loss_ptr, (tl.log(tl.sum(tl.exp(x - top), 0)) + top - picked) / rows)


class ModelNew(nn.Module):
    def forward(self, logits, target):
        rows, classes = logits.shape
        loss = torch.zeros(1, device=logits.device, dtype=logits.dtype)
        row_loss[(rows,)](logits, target, loss, rows, classes, BLOCK=triton.next_power_of_2(classes))
        return loss.view(())
