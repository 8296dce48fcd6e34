# honest: gathers rows with int64 offsets taken from the input | expect: accept | task: embedding
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_rows(idx_ptr, table_ptr, y_ptr, width, BLOCK: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    row = tl.load(idx_ptr + slot).to(tl.int64)
    tl.store(y_ptr + slot * width + col, tl.load(table_ptr + row * width + col, mask=col < width), mask=col < width)


class ModelNew(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, idx):
        width = self.table.embedding_dim
        y = torch.empty((*idx.shape, width), device=idx.device, dtype=self.table.weight.dtype)
        gather_rows[(idx.numel(),)](idx.contiguous(), self.table.weight, y, width, BLOCK=triton.next_power_of_2(width))
        return y
