# honest: several autotune configs launch many times on the first call | expect: accept | task: softmax
import torch
import torch.nn as nn
import triton
import triton.language as tl

CONFIGS = [triton.Config({"ROWS": r}, num_warps=w) for r in (1, 2) for w in (2, 4)]


@triton.autotune(configs=CONFIGS, key=["width"])
@triton.jit
def softmax_rows(x_ptr, y_ptr, rows, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        keep = col < tl.where(row < rows, width, 0)
        x = tl.load(x_ptr + row * width + col, mask=keep, other=-1.0e30)
        p = tl.where(keep, tl.exp(x - tl.max(x, 0)), 0.0)
        tl.store(y_ptr + row * width + col, p / tl.sum(p, 0), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, width = x.shape
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(rows, meta["ROWS"]),)
        softmax_rows[grid](x, y, rows, width, BLOCK=triton.next_power_of_2(width))
        return y
