"""Emitted files against torch: one file serves every batch size, in every form of kernel, over special values too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from further import marked, wanted  # noqa: E402
from whole_file import Sample, run_all  # noqa: E402

pytestmark = pytest.mark.interp


def _batches(
    forward: str, drawn: str, inputs: str = "x", init: str = "pass", batches: tuple[int, ...] = (8, 3, 17)
) -> Sample:
    """Emitted for the first of the batches, which is the one drawn, and run for all of them."""
    first, *others = batches
    return Sample(forward, drawn, inputs, init, more=tuple(drawn.replace(f"({first},", f"({n},") for n in others))


SPECIAL_ROWS = """torch.tensor([[1.0, float('nan'), 3.0], [float('nan')] * 3, [-float('inf')] * 3,
 [float('inf'), -float('inf'), 0.0], [3.0, 3.0, 1.0]])""".replace("\n", "")
EXTREMA = "return x.amax(1), x.amin(), x.max(1), x.min(1), x.argmax(1), x.argmin()"
SAMPLES = {
    "layer_norm": _batches("return self.n(x)", "torch.randn(8, 5, 40)", init="self.n = nn.LayerNorm(40)"),
    "embedding": _batches(
        "return F.pad(torch.cat((self.t(x), y), 1), (1, 2))",
        "torch.randint(0, 50, (8, 12)), torch.randn(8, 3, 24)",
        "x, y",
        "self.t = nn.Embedding(50, 24)",
    ),
    "concatenated": _batches(
        "return torch.cat((x, x * 2), 0), x.repeat(2, 1), x.flip(0), torch.roll(x, 1, 0), torch.stack((x, x + 1), 1)",
        "torch.randn(8, 5)",
    ),
    "ranges": _batches(
        "i = torch.arange(x.size(0), device=x.device)\nreturn x + i[:, None], (x * i[:, None]).sum(), x / x.size(0), i",
        "torch.randn(8, 5)",
    ),
    "everything": _batches("return (x * 2).mean(), x.mean(0), x.std(), x.max()", "torch.randn(8, 3, 40)"),
    "joined": _batches(
        "f = [x]\nfor k in range(6):\n    f.append(torch.cat(f, 1).amax(1, keepdim=True) * (k + 1))\n"
        "return torch.cat(f, 1), torch.stack([x * k for k in range(20)], 1), torch.cat([y, *f[:4]], 1)",
        "torch.randn(8, 3), torch.randn(8, 2).half()",
        "x, y",
    ),
    "one_element": _batches(
        "a, b = x.max(1), x.var(1, unbiased=False)\n"
        "return x.sum(1), x.argmax(1), (x > 0).any(1), *a, b, x.std(1), y.sum(1, dtype=torch.int64), y.prod(1), "
        "torch.logsumexp(x, 1), x.mean(1).relu(), torch.count_nonzero(y, 1)",
        "torch.randn(8, 1, 6), torch.randint(0, 5, (8, 1, 1), dtype=torch.int32)",
        "x, y",
    ),
    "empty": _batches(
        "none, y = x[:, :0], x.double()\n"
        "return torch.cat((x[:, :1].repeat(1, 0, 1), x), 1), torch.cat((none, none), 1), torch.cat((y[:, :0], x), 1), "
        "torch.cat((none, x * 2, none, x), 1).sum(1)",
        "torch.randn(8, 3, 6)",
    ),
    "pairs": _batches(
        "s, m, r, p = x.cumsum(1), self.w(x), torch.softmax(x, 1), x * 2\n"
        "t = s.unsqueeze(2) - s.unsqueeze(1)\n"
        "mask = torch.ones(x.size(1), x.size(1), device=x.device, dtype=torch.bool).tril()\n"
        "return t.masked_fill(~mask, float('-inf')).exp(), m[:, :, None] * m[:, None, :], r[:, None] + r[:, :, None], "
        "p[:, None] - p[:, :, None], x.sum(1)[:, None] - x.sum(1), (p[:, None] * p[:, :, None]).sum(2), "
        "p[:, 0:1].T * p[:, 0:1]",
        "torch.randn(8, 5)",
        init="self.w = nn.Linear(5, 6)",
    ),
    "offsets": _batches(
        "i = torch.arange(x.size(1), device=x.device)\n"
        "return x @ x.mT - (i[:, None] - i[None, :]).abs() * y[:, :, None], (i[:, None] * 2 + i) % 3",
        "torch.randn(8, 5, 6), torch.randn(8, 1)",
        "x, y",
    ),
    "grid_sample": _batches(
        "return F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g, mode='nearest', padding_mode='border')",
        "torch.randn(8, 3, 6, 5), torch.rand(8, 4, 7, 2) * 2.4 - 1.2",
        "x, g",
    ),
    "fold": _batches(
        "a = F.unfold(x, 3, padding=1)\nb = F.unfold(x, (2, 3), dilation=(1, 2), stride=(2, 1))\n"
        "return F.fold(a * 2, (6, 7), 3, padding=1), F.fold(b, (6, 7), (2, 3), dilation=(1, 2), stride=(2, 1))",
        "torch.randn(8, 2, 6, 7)",
    ),
    "layouts": _batches(
        "b = x.permute(2, 0, 1).reshape(4, -1)\n"
        "return b.softmax(0).t(), b.log_softmax(0).unsqueeze(0), (b * 2).t(), "
        "x.transpose(1, 2).softmax(1).transpose(1, 2)",
        "torch.randn(8, 6, 4)",
    ),
    "keywords": _batches(
        "return x | y, x & y, ~x", "torch.randint(-8, 9, (8, 5)), torch.randint(-8, 9, (8, 5))", "x, y"
    ),
    "filled": _batches(
        "return torch.index_fill(x, 1, i, 0.0) * -1.0, x.expand(i.shape[0], -1, -1)[:, 0]",
        "torch.randn(8, 6).half(), torch.tensor([1, 4, 2])",
        "x, i",
    ),
    "variances": _batches(
        "return *torch.var_mean(x, False), *torch.var_mean(x), *torch.var_mean(x, 1, False), *torch.var_mean(x, 1), "
        "*torch.var_mean(x, 1, correction=2), x.var(False), x.std(1, unbiased=False), x.var(1, correction=0)",
        "torch.randn(8, 5)",
    ),
    "a_place_per_row_of_a_long_row": Sample(
        "return F.multi_margin_loss(x, y, reduction='none')",
        "torch.randn(2, 8200), torch.randint(0, 8200, (2,))",
        inputs="x, y",
    ),
    "one_place": Sample(
        "r = torch.arange(1.0)\n"
        "return torch.gather(x, 1, i), x + r, torch.arange(3, 4) + i, x[:, i[0]], x.index_select(1, i[0])",
        "torch.randn(1, 16), torch.tensor([[5]])",
        "x, i",
    ),
    "batch_norm": _batches("return self.n(x)", "torch.randn(8, 6, 5, 5)", init="self.n = nn.BatchNorm2d(6)"),
    "group_norm": _batches("return self.n(x)", "torch.randn(8, 6, 5, 5)", init="self.n = nn.GroupNorm(3, 6)"),
    "merged": _batches(
        "return torch.softmax(self.l(x.flatten(1)), 1), x.reshape(-1, 4).sum(1), x.reshape(-1).amax()",
        "torch.randn(8, 3, 4)",
        init="self.l = nn.Linear(12, 9)",
    ),
    "heads": _batches(
        "q = self.l(x).view(x.size(0), -1, 3, 4, 5).permute(2, 0, 3, 1, 4)\n"
        "return F.scaled_dot_product_attention(q[0], q[1], q[2]).transpose(1, 2).reshape(x.shape)",
        "torch.randn(8, 7, 20)",
        init="self.l = nn.Linear(20, 60)",
    ),
    "written_parts": _batches(
        "y = x.clone()\ny[:, 1:3] = 0\ny[2:] = y[2:] * 2\ny[:, ::2] += 1\ny[:, 0] = 5\nreturn y", "torch.randn(8, 6)"
    ),
    "upsampled": _batches(
        "return F.interpolate(x, scale_factor=2), F.pad(x, (1, 1, 1, 1), mode='reflect'), F.pixel_shuffle(x, 2), "
        "F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)",
        "torch.randn(8, 4, 5, 5)",
    ),
    "losses": _batches(
        "return F.cross_entropy(x, t), F.mse_loss(x, x * 2), F.nll_loss(x, t), F.cosine_similarity(x, x + 1)",
        "torch.randn(8, 5), torch.randint(0, 5, (8,))",
        "x, t",
    ),
    "outer": _batches("return x[:, None] * x[None, :], (x[:, None] - x[None, :]).abs().sum(1)", "torch.randn(8,)"),
    "residual": _batches(
        "y = self.a(x)\nz = F.gelu(y) + x\nw = self.n(z)\nreturn w + z, y.sum(1) + w.mean(1)",
        "torch.randn(8, 16)",
        init="self.a = nn.Linear(16, 16)\nself.n = nn.LayerNorm(16)",
    ),
    "distances": _batches("return torch.cdist(x, x), x.norm(3, dim=1), x / x.norm()", "torch.randn(8, 30)"),
    "strided": _batches(
        "return x.t() + y, x.t().sum(1), x[:, ::2] * 2, x.t().contiguous().view(-1, 4).amax(1)",
        "torch.randn(8, 12), torch.randn(12, 1)",
        "x, y",
    ),
    "looped": Sample(
        "return torch.softmax(x, 1), F.layer_norm(x, (9000,)), x.argmax(1), x.prod(1), (x > 3).any(1), (x < 3).all(1)",
        "torch.randn(3, 9000)",
    ),
    "looped_columns": Sample(
        "return torch.softmax(x, 1), x.argmax(1), x.var(1), F.normalize(x, dim=1)", "torch.randn(3, 100, 70)"
    ),
    "neighbouring_rows": _batches(
        "return torch.softmax(x, 1), x.argmax(1), x.var(1), (x * y).sum(1), x.amax(1) * z, (x * w).mean(1, True) + x",
        "torch.randn(8, 130, 70), torch.randn(8, 1, 1), torch.randn(130, 1), torch.randn(8, 1)",
        "x, y, w, z",
    ),
    "images": _batches(
        "y = F.relu(self.c(x) + x * self.s)\nz = F.max_pool2d(self.u(y).sigmoid() * 2, 3, 2, 1)\n"
        "return y, z + z.mean((2, 3), keepdim=True), F.gelu(self.d(x)) - self.p(x)",
        "torch.randn(3, 6, 5, 7)",
        init="self.c, self.s = nn.Conv2d(6, 6, 3, padding=1), nn.Parameter(torch.randn(6, 1, 1))\n"
        "self.u, self.p = nn.ConvTranspose2d(6, 5, 3, stride=2, groups=1), nn.Conv2d(6, 6, 1)\n"
        "self.d = nn.Conv2d(6, 6, 3, padding=1, groups=6)",
        batches=(3, 2, 5),  # the interpreter takes nearly a second per image
    ),
    "large_images": Sample(
        "y = F.relu(self.c(x) + x * self.s)\nreturn y, self.u(y) * w, (self.c(x) * z).permute(0, 2, 3, 1) + 1, "
        "F.gelu(self.d(x))",
        "torch.randn(2, 4, 33, 35), torch.randn(2, 5, 1, 1), torch.randn(33, 1)",
        "x, w, z",
        init="self.c, self.s = nn.Conv2d(4, 4, 3, padding=1), nn.Parameter(torch.randn(4, 1, 1))\n"
        "self.u, self.d = nn.ConvTranspose2d(4, 5, 2, stride=2), nn.Conv2d(4, 4, 3, stride=2, groups=4)",
    ),
    "parts": Sample(
        "return x.sum(1), x.std(1), x.argmax(1), x.min(1)[1], (x > 3).any(), x - x.mean(1, keepdim=True), x.prod()",
        "torch.randn(3, 20000)",
    ),
    "special": Sample(f"{EXTREMA}, x.softmax(1), x.sum(1)", SPECIAL_ROWS),
    "special_softmax": Sample(
        "return x.softmax(1), x.log_softmax(1), (x - x).softmax(1)",
        "torch.randn(5, 9000).index_fill(1, torch.tensor([0, 2048, 4096, 6144, 8192]), -float('inf'))"
        ".index_put((torch.tensor([0, 1]), torch.tensor([7000, 9])), torch.tensor([float('nan'), float('inf')]))"
        ".index_fill(0, torch.tensor([2]), -float('inf'))",
    ),
    "special_looped": Sample(EXTREMA, "torch.randn(3, 9000).index_fill(1, torch.tensor([7000]), float('nan'))"),
    "special_parts": Sample(EXTREMA, "torch.randn(3, 20000).index_fill(1, torch.tensor([9000]), float('nan'))"),
    "order": Sample("return x.sum((1, 2)), x.transpose(1, 2).flatten(1).argmax(1)", "torch.randn(3, 6, 7)"),
    "double": Sample("return x.var(1), F.layer_norm(x, (9000,)), (x * 0.1).sum(1)", "torch.randn(3, 9000).double()"),
    "integers": Sample(
        "return x.sum(1), x.amax(1), x.argmin(1), x.prod(1), x // 3, -x % 5, (x > 2).sum(1), x.sum(dtype=torch.float)",
        "torch.randint(-9, 9, (4, 30))",
    ),
    "large_integers": Sample("return x // 7, x % 1000, x.div(3, rounding_mode='trunc')", "torch.arange(5) + 2**40"),
}


MORE = frozenset(
    ("concatenated", "ranges", "merged", "upsampled", "losses", "outer", "distances", "looped_columns", "large_images",
     "special_looped", "special_parts", "large_integers")
)  # fmt: skip


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(wanted(SAMPLES, MORE, request), tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("name", marked(SAMPLES, MORE))
def test_the_file_returns_what_torch_returns(results: dict[str, Any], name: str):
    assert not isinstance(results[name], str), results[name]
    assert len(results[name]) == 1 + len(SAMPLES[name].more)
    for found, expected in results[name]:
        assert isinstance(expected, type(found))
        leaves = [torch.utils._pytree.tree_leaves(value) for value in (found, expected)]
        for one, other in zip(*leaves, strict=True):
            exact = other.dtype is torch.float64
            torch.testing.assert_close(
                one, other, rtol=1e-9 if exact else 1e-4, atol=1e-9 if exact else 2e-5, equal_nan=True
            )
            assert one.stride() == other.stride()


@pytest.mark.parametrize(
    ("rest", "once"),
    [("", False), (".sum(1)", True), (".mul(2).view(-1, 4096).mean(1)", True), (".relu().sum(1)", False)],
)
def test_products_that_are_added_up_leave_the_truncating_accumulator_at_once(rest: str, once: bool):
    sample = Sample(f"return (x @ y){rest}", "torch.empty(4096, 4096), torch.empty(4096, 4096)", "x, y")
    found = next(offered for name, offered in sample.emitted().choices.items() if name.startswith("matmul"))
    flushes = {setting["FLUSH"] for setting in found}
    assert (flushes == {1}) is once


def test_a_formula_says_which_part_of_a_tensor_it_means():
    sample = Sample(
        "a, b = x.chunk(2, 1)\nreturn torch.abs(x[:, 1:16] - x[:, :15] + y), torch.sigmoid(a) * b, x.t().exp()",
        "torch.randn(8, 16), torch.randn(8, 15)",
        "x, y",
    )
    code = sample.emitted().code
    for formula in ("abs(x[:, 1:16] - x[:, :15] + y)", "sigmoid(x.chunk(2, 1)[0]) * x.chunk(2, 1)[1]", "exp(x)"):
        assert f'"""{formula}"""' in code
