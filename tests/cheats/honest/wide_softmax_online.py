# honest: two sweeps over the row with a running maximum, so the output is written in chunks | expect: accept | task: wide_softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def online_softmax(x_ptr, y_ptr, width, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    lane = tl.arange(0, CHUNK)
    top = float("-inf")
    total = 0.0
    for start in range(0, width, CHUNK):
        x = tl.load(x_ptr + row + start + lane, mask=start + lane < width, other=float("-inf"))
        new_top = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), 0)
        top = new_top
    for start in range(0, width, CHUNK):
        inside = start + lane < width
        x = tl.load(x_ptr + row + start + lane, mask=inside, other=float("-inf"))
        tl.store(y_ptr + row + start + lane, tl.exp(x - top) / total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        online_softmax[(x.shape[0],)](x, y, x.shape[1], CHUNK=4096)
        return y
