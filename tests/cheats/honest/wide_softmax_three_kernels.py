# honest: partial results travel through two scratch tensors between three launches | expect: accept | task: wide_softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def chunk_stats(x_ptr, top_ptr, sum_ptr, width, chunks, CHUNK: tl.constexpr):
    row, c = tl.program_id(0), tl.program_id(1)
    at = c * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=float("-inf"))
    top = tl.max(x, 0)
    tl.store(top_ptr + row * chunks + c, top)
    tl.store(sum_ptr + row * chunks + c, tl.sum(tl.exp(x - top), 0))


@triton.jit
def merge(top_ptr, sum_ptr, chunks, PARTS: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, PARTS)
    tops = tl.load(top_ptr + row * chunks + c, mask=c < chunks, other=float("-inf"))
    sums = tl.load(sum_ptr + row * chunks + c, mask=c < chunks, other=0.0)
    top = tl.max(tops, 0)
    total = tl.sum(sums * tl.exp(tops - top), 0)
    tl.store(top_ptr + row * chunks, top)
    tl.store(sum_ptr + row * chunks, total)


@triton.jit
def scale(x_ptr, y_ptr, top_ptr, sum_ptr, width, chunks, CHUNK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=float("-inf"))
    p = tl.exp(x - tl.load(top_ptr + row * chunks)) / tl.load(sum_ptr + row * chunks)
    tl.store(y_ptr + row * width + at, p, mask=at < width)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        chunks = triton.cdiv(width, 8192)
        tops = torch.empty((rows, chunks), device=x.device, dtype=torch.float32)
        sums = torch.empty_like(tops)
        y = torch.empty_like(x)
        chunk_stats[(rows, chunks)](x, tops, sums, width, chunks, CHUNK=8192)
        merge[(rows,)](tops, sums, chunks, PARTS=triton.next_power_of_2(chunks))
        scale[(rows, chunks)](x, y, tops, sums, width, chunks, CHUNK=8192)
        return y
