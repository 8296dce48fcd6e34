"""Products: every operator, path, layout and type against torch in double precision."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from further import marked, wanted  # noqa: E402
from one_kernel import Trial, exact, node_of, piece_of, relative_error, run_all  # noqa: E402

from autotriton.propose.compiler.templates.matmul import FAMILIES, render_product  # noqa: E402
from autotriton.propose.compiler.templates.matmul_contraction import Unwritable, contraction_of  # noqa: E402
from autotriton.propose.compiler.templates.matmul_settings import Path as Way  # noqa: E402
from autotriton.propose.compiler.templates.matmul_settings import path_for  # noqa: E402
from autotriton.propose.compiler.templates.piece import Piece, Site  # noqa: E402

pytestmark = pytest.mark.interp
F = torch.nn.functional


def _x(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def _by(way: Way) -> Callable[[Site], Piece]:
    return lambda site: render_product(contraction_of(site.node), site, way)


MM, EIN = torch.matmul, torch.einsum
HALF, BRAIN, DOUBLE = torch.float16, torch.bfloat16, torch.float64
TRIALS = {
    "linear": Trial(F.linear, (_x(37, 50), _x(29, 50), _x(29)), more=((_x(70, 50), _x(29, 50), _x(29)),)),
    "linear_3d": Trial(F.linear, (_x(3, 7, 20), _x(11, 20), _x(11)), more=((_x(5, 7, 20), _x(11, 20), _x(11)),)),
    "linear_1d": Trial(F.linear, (_x(40), _x(29, 40), _x(29))),
    "linear_one_output": Trial(F.linear, (_x(3, 9, 40), _x(1, 40), _x(1))),
    "linear_permuted": Trial(F.linear, (_x(20, 4, 6).permute(2, 1, 0), _x(11, 20))),
    "mm": Trial(torch.mm, (_x(40, 33), _x(33, 18))),
    "mm_transposed": Trial(torch.mm, (_x(33, 40).t(), _x(18, 33).t())),
    "mm_half": Trial(torch.mm, (_x(40, 33, dtype=HALF), _x(33, 18, dtype=HALF))),
    "mm_brain": Trial(torch.mm, (_x(40, 33, dtype=BRAIN), _x(33, 18, dtype=BRAIN))),
    "mm_double": Trial(torch.mm, (_x(40, 33, dtype=DOUBLE), _x(33, 18, dtype=DOUBLE))),
    "mm_outer": Trial(torch.mm, (_x(40, 1), _x(1, 18))),
    "bmm": Trial(torch.bmm, (_x(3, 20, 33), _x(3, 33, 18)), more=((_x(5, 20, 33), _x(5, 33, 18)),)),
    "matmul_heads": Trial(MM, (_x(2, 3, 20, 8), _x(2, 3, 24, 8).transpose(-1, -2))),
    "matmul_broadcast": Trial(MM, (_x(2, 1, 20, 8), _x(3, 8, 24))),
    "matmul_broadcast_both": Trial(MM, (_x(1, 5, 20, 8), _x(4, 1, 8, 24))),
    "matmul_matrix_first": Trial(MM, (_x(20, 8), _x(3, 8, 24))),
    "matmul_folded": Trial(MM, (_x(2, 5, 7, 8), _x(8, 24))),
    "matmul_not_folded": Trial(MM, (_x(3, 8, 20).transpose(1, 2), _x(8, 24))),
    "matmul_vector": Trial(MM, (_x(35, 90), _x(90))),
    "matmul_vector_first": Trial(MM, (_x(90), _x(90, 35))),
    "matmul_batch_vector": Trial(MM, (_x(2, 3, 35, 90), _x(90))),
    "matmul_vector_batch": Trial(MM, (_x(90), _x(3, 90, 35))),
    "matmul_column": Trial(MM, (_x(35, 300), _x(300, 1))),
    "matmul_strided_vector": Trial(MM, (_x(60, 35).t(), _x(60, 3)[:, 1])),
    "addmm": Trial(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=0.5), (_x(20, 18), _x(20, 33), _x(33, 18))),
    "addmm_bias": Trial(torch.addmm, (_x(18), _x(20, 33), _x(33, 18))),
    "addmm_column": Trial(torch.addmm, (_x(20, 1), _x(20, 33), _x(33, 18))),
    "addmm_no_beta": Trial(lambda c, a, b: torch.addmm(c, a, b, beta=0), (_x(18) / 0, _x(20, 33), _x(33, 18))),
    "baddbmm": Trial(lambda c, a, b: torch.baddbmm(c, a, b, alpha=-2), (_x(3, 1, 18), _x(3, 20, 33), _x(3, 33, 18))),
    "einsum_linear": Trial(lambda a, b: EIN("bijl,lk->bijk", a, b), (_x(2, 3, 5, 20), _x(20, 18))),
    "einsum_heads": Trial(lambda a, b: EIN("bqhd,bkhd->bhqk", a, b), (_x(2, 10, 3, 8), _x(2, 12, 3, 8))),
    "einsum_two_sums": Trial(lambda a, b: EIN("iab,jba->ji", a, b), (_x(9, 4, 5), _x(11, 5, 4))),
    "einsum_groups": Trial(lambda a, b: EIN("bhzc,bchpn->bzhpn", a, b), (_x(2, 3, 4, 5), _x(2, 5, 3, 4, 6))),
    "einsum_implicit": Trial(lambda a, b: EIN("ij,kj", a, b), (_x(9, 17), _x(21, 17))),
    "einsum_outer": Trial(lambda a, b: EIN("i,j->ij", a, b), (_x(9), _x(21))),
    "einsum_batch_dot": Trial(lambda a, b: EIN("bi,bi->b", a, b), (_x(9, 33), _x(9, 33))),
    "split_k": Trial(F.linear, (_x(20, 700), _x(18, 700), _x(18)), _by(Way.TILED_SPLIT)),
    "split_k_batch": Trial(MM, (_x(2, 3, 20, 300), _x(2, 1, 300, 18)), _by(Way.TILED_SPLIT)),
    "split_k_half": Trial(torch.mm, (_x(20, 700, dtype=HALF), _x(700, 18, dtype=HALF)), _by(Way.TILED_SPLIT)),
    "vector_split": Trial(MM, (_x(20, 5000), _x(5000)), _by(Way.VECTOR_SPLIT)),
    "vector_split_batch": Trial(MM, (_x(3, 1, 5000), _x(3, 5000, 7)), _by(Way.VECTOR_SPLIT)),
    "presplit": Trial(F.linear, (_x(150, 200), _x(140, 200), _x(140)), _by(Way.PRESPLIT)),
    "presplit_3d": Trial(F.linear, (_x(3, 9, 70), _x(40, 70)), _by(Way.PRESPLIT), more=((_x(5, 9, 70), _x(40, 70)),)),
    "presplit_transposed": Trial(torch.mm, (_x(100, 70).t(), _x(100, 90)), _by(Way.PRESPLIT), setting=2),
    "presplit_batch": Trial(MM, (_x(2, 3, 40, 70), _x(2, 3, 70, 50)), _by(Way.PRESPLIT)),
    "presplit_one_right": Trial(MM, (_x(3, 70, 40).transpose(1, 2), _x(70, 50)), _by(Way.PRESPLIT)),
    "stream": Trial(
        F.linear, (_x(20, 200), _x(150, 200), _x(150)), _by(Way.STREAM), more=((_x(70, 200), _x(150, 200), _x(150)),)
    ),
    "stream_3d": Trial(F.linear, (_x(2, 9, 70), _x(150, 70)), _by(Way.STREAM)),
    "stream_left": Trial(torch.mm, (_x(150, 70), _x(70, 20)), _by(Way.STREAM)),
    "stream_left_3d": Trial(MM, (_x(5, 30, 70), _x(70, 20)), _by(Way.STREAM)),
    "stream_transposed": Trial(torch.mm, (_x(70, 150).t(), _x(20, 70).t()), _by(Way.STREAM), setting=3),
    "stream_addmm": Trial(torch.addmm, (_x(20, 1), _x(20, 70), _x(70, 150)), _by(Way.STREAM)),
    "presplit_scales": Trial(
        torch.mm, (_x(40, 70) * torch.logspace(-30, 25, 40)[:, None], _x(70, 50) * 1e-6), _by(Way.PRESPLIT)
    ),
}
# Every operator, path and type has a case without these; they are further layouts of them.
MORE = frozenset(
    ("linear_permuted", "mm_outer", "matmul_broadcast_both", "matmul_matrix_first", "matmul_folded",
     "matmul_vector_first", "matmul_batch_vector", "matmul_strided_vector", "addmm_column", "einsum_linear",
     "einsum_groups", "split_k_half", "vector_split_batch", "presplit_one_right", "stream_3d", "stream_left_3d",
     "stream_addmm")
)  # fmt: skip
LIMITS = {HALF: 2e-3, BRAIN: 1.6e-2, DOUBLE: 1e-14}


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(wanted(TRIALS, MORE, request), FAMILIES, tmp_path_factory.mktemp("matmul"))


@pytest.mark.parametrize("name", marked(TRIALS, MORE))
def test_product_agrees_with_torch(name: str, results: dict[str, Any]) -> None:
    trial = TRIALS[name]
    for inputs, found in zip((trial.inputs, *trial.more), results[name], strict=True):
        assert isinstance(found, torch.Tensor), found
        expected = exact(trial, inputs)
        assert found.shape == expected.shape
        assert found.dtype is inputs[0].dtype
        assert relative_error(found, expected) < LIMITS.get(found.dtype, 1e-6)


def test_every_row_is_precise_at_its_own_scale(results: dict[str, Any]) -> None:
    found, expected = (
        results["presplit_scales"][0].double(),
        exact(TRIALS["presplit_scales"], TRIALS["presplit_scales"].inputs),
    )
    assert float(((found - expected).norm(dim=1) / expected.norm(dim=1)).max()) < 1e-6


REJECTED = {
    "diagonal": (lambda a, b: EIN("ii,ij->ij", a, b), (_x(4, 4), _x(4, 5))),
    "lonely sum": (lambda a, b: EIN("ij,k->jk", a, b), (_x(4, 4), _x(5))),
    "three": (lambda a, b: EIN("ij,jk,kl->il", a, b, a), (_x(4, 5), _x(5, 4))),
    "integers": (torch.mm, (torch.ones(4, 4, dtype=torch.int64), torch.ones(4, 4, dtype=torch.int64))),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_is_no_product_of_two_tensors_is_not_accepted(name: str) -> None:
    node, _ = node_of(Trial(*REJECTED[name]), FAMILIES)
    assert not FAMILIES[node.target].accepts(node)
    with pytest.raises(Unwritable):
        contraction_of(node)


# (left, right) -> the kernel for it. Shapes as in KernelBench; no memory is touched.
SHAPES = [
    ((4096, 4096), (4096, 4096), Way.PRESPLIT),
    ((128, 512, 1024), (128, 1024, 2048), Way.PRESPLIT),
    ((2048, 1048576), (1048576, 1), Way.VECTOR),
    ((2, 4000000), (4000000, 3), Way.TILED_SPLIT),
    ((1, 4000000), (4000000, 1), Way.VECTOR_SPLIT),
    ((256, 524288), (524288, 256), Way.TILED_SPLIT),
    ((32768, 64), (64, 32768), Way.PRESPLIT),
    ((8205, 2949), (2949, 5921), Way.PRESPLIT),
    ((8, 256, 512, 256), (256, 768), Way.PRESPLIT),
    ((128, 16384), (16384, 16384), Way.STREAM),
    ((16, 16384), (16384, 16384), Way.TILED),
    ((64, 64), (64, 64), Way.TILED),
]


@pytest.mark.parametrize(("left", "right", "way"), SHAPES)
def test_the_shape_chooses_the_kernel(left: tuple[int, ...], right: tuple[int, ...], way: Way) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    graph = torch.fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    with FakeTensorMode():
        a.meta["val"], b.meta["val"] = torch.empty(left), torch.empty(right)
        node = graph.call_function(torch.ops.aten.matmul.default, (a, b))
        node.meta["val"] = torch.matmul(a.meta["val"], b.meta["val"])
    assert path_for(contraction_of(node), tf32=False) is way


def test_tf32_only_where_permitted() -> None:
    trial = TRIALS["mm"]
    strict, _ = piece_of(trial, "mm", FAMILIES)
    loose, _ = piece_of(Trial(trial.function, trial.inputs, tf32=True), "mm", FAMILIES)
    assert {setting["PRECISION"] for setting in strict.settings} == {"bf16x6", "ieee"}
    assert loose.settings[0]["PRECISION"] == "tf32"
