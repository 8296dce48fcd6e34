"""Modules that do more than compute: state they update, types they choose themselves, values torch would look at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from whole_file import Sample, run_all  # noqa: E402

from autotriton.propose.compiler.inductor.capture import reason  # noqa: E402

pytestmark = pytest.mark.interp

_NORMED = (
    "y = self.n(x)\nreturn y, self.n.running_mean.clone(), self.n.running_var.clone(), self.n.num_batches_tracked + 0"
)
_BATCHES = {"drawn": "torch.randn(8, 6, 5)", "more": ("torch.randn(8, 6, 5) * 3 + 1", "torch.randn(5, 6, 5) - 2")}
SAMPLES = {
    "batch_norm": Sample(_NORMED, init="self.n = nn.BatchNorm1d(6)", **_BATCHES),
    "batch_norm_momentum": Sample(_NORMED, init="self.n = nn.BatchNorm1d(6, momentum=0.7)", **_BATCHES),
    "batch_norm_average": Sample(_NORMED, init="self.n = nn.BatchNorm1d(6, momentum=None)", **_BATCHES),
    "converted": Sample(
        "return self.b(torch.relu(self.a(x)))",
        "torch.randn(4, 16).bfloat16()",
        init="self.a = nn.Linear(16, 16)\nself.b = nn.Linear(16, 16)\nself.b.weight = self.a.weight\n"
        "self.to(torch.bfloat16)",
    ),
    "half": Sample("return self.a(x) * 2", "torch.randn(4, 16).half()", init="self.a = nn.Linear(16, 16).half()"),
    "no_dimensions": Sample(
        "z = torch.cosh(F.poisson_nll_loss(x, y))\nreturn z.max(), z.amax(), z.sum(), z.reshape(1), z.expand(3) * 2",
        "torch.randn(4, 8), torch.rand(4, 8)",
        "x, y",
    ),
    "gaussian": Sample(
        "return F.gaussian_nll_loss(x, y, v), nn.GaussianNLLLoss(full=True, reduction='none')(x, y, v[:, :1]), "
        "F.gaussian_nll_loss(x, y, v[:, 0], reduction='sum')",
        "torch.randn(4, 8), torch.randn(4, 8), torch.rand(4, 8)",
        "x, y, v",
    ),
    "prelu": Sample(
        "return self.p(x), self.q(x), F.prelu(x, w)",
        "torch.randn(4, 6, 5), torch.rand(6)",
        "x, w",
        "self.p, self.q = nn.PReLU(6), nn.PReLU()",
    ),
    "added_products": Sample(
        "return torch.addmv(v, m, v, beta=0.5, alpha=2), torch.addbmm(m, b, b), torch.addbmm(m, b, b, beta=0)",
        "torch.randn(16), torch.randn(16, 16), torch.randn(3, 16, 16)",
        "v, m, b",
    ),
    "single_channel": Sample(
        "return F.hardswish(self.n(x) / 2), F.pad(w, (1, 2)) * 3 + x[0, 0, :4], torch.flip(w, (0,)) + x, "
        "F.embedding(i, t) * 2, F.embedding(i[:1], t) + 1, t[i[:1]] + x[0]",
        "torch.randn(3, 1, 7), torch.randn(1), torch.tensor([2, 0, 1]), torch.randn(4, 1)",
        "x, w, i, t",
        "self.n = nn.InstanceNorm1d(1, affine=True)",
    ),
    "attention": Sample("return F.scaled_dot_product_attention(x, x, x)", "torch.randn(2, 2, 5, 16)"),
    "recurrent": Sample("return self.r(x)[0]", "torch.randn(3, 2, 8)", init="self.r = nn.GRU(8, 8)"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(SAMPLES, tmp_path_factory.mktemp("modules"))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_file_does_what_the_module_does(results: dict[str, Any], name: str):
    found = results[name]
    assert not isinstance(found, str), found
    loose = {"rtol": 2e-2, "atol": 2e-2} if name in ("converted", "half") else {"rtol": 1e-4, "atol": 1e-5}
    for given, wanted in found:
        torch.testing.assert_close(given, wanted, **loose)


def test_active_dropout_inside_attention_is_random():
    with pytest.raises(Exception, match="forward is random: it calls native_dropout, active dropout"):
        Sample("return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)", "torch.randn(2, 2, 5, 16)").emitted()


def test_a_package_that_is_missing_is_named():
    sample = Sample("return x", "torch.randn(2)", init="import no_such_package")
    with pytest.raises(ModuleNotFoundError) as error:
        sample.emitted()
    assert reason(error.value) == "the task imports no_such_package, which is not installed here"


def test_recurrent_nets_are_not_unrolled_to_find_their_shapes(monkeypatch: pytest.MonkeyPatch):
    def unrolled(*_: Any) -> None:
        raise AssertionError("unrolled")

    monkeypatch.setattr("torch._decomp.decompositions._rnn_helper", unrolled)
    sample = Sample("return self.r(x)", "torch.randn(3, 2, 8)", init="self.r = nn.GRU(8, 8, 2)")
    assert "gru" in sample.emitted().choices
