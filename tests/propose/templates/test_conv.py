"""Convolutions: every kernel against torch in double precision, in the interpreter, with bounds checked."""

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

from autotriton.propose.compiler.templates.conv import FAMILIES, RENDERERS, path_of  # noqa: E402
from autotriton.propose.compiler.templates.conv_call import parse  # noqa: E402
from autotriton.propose.compiler.templates.piece import Piece, Site  # noqa: E402

pytestmark = pytest.mark.interp

F = torch.nn.functional
BOUNDS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float64: 1e-14}


def _x(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _through(path: str) -> Callable[[Site], Piece]:
    def render(site: Site) -> Piece:
        call = parse(site.node)
        assert call is not None
        return RENDERERS[path](call, site)

    return render


def _trial(path: str, function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = torch.float32) -> Trial:
    inputs = tuple(_x(*shape, dtype=dtype, seed=number) for number, shape in enumerate(shapes))
    other = (_x(inputs[0].shape[0] + 1, *inputs[0].shape[1:], dtype=dtype, seed=7), *inputs[1:])
    return Trial(function, inputs, _through(path), more=(other,) if path == "packed" else ())


def _with_special_values() -> Trial:
    """One image has an infinity, a NaN and a huge value: no other image, and nothing out of their reach, notices."""
    x, weight = _x(3, 20, 5, 6), _x(8, 20, 3, 3, seed=1)
    x[0, 3, 2, 2], x[1, 4, 0, 0], x[2, 1, 4, 5] = float("inf"), float("nan"), 1e30
    return Trial(lambda x, w: F.conv2d(x, w, padding=1), (x, weight), _through("packed"))


def _conv2d(**more: Any) -> Callable[..., Any]:
    return lambda *tensors: F.conv2d(*tensors, **more)


def _up2d(**more: Any) -> Callable[..., Any]:
    return lambda *tensors: F.conv_transpose2d(*tensors, **more)


HALF, BRAIN, DOUBLE = torch.float16, torch.bfloat16, torch.float64
TRIALS = {
    "packed_bias": _trial("packed", _conv2d(padding=1), (2, 20, 7, 9), (24, 20, 3, 3), (24,)),
    "packed_strided": _trial("packed", _conv2d(stride=(2, 3), dilation=(1, 2)), (2, 18, 9, 12), (5, 18, 3, 3)),
    "packed_few": _trial(
        "packed", _conv2d(stride=(2, 3), padding=(1, 2), dilation=(2, 1)), (2, 3, 9, 10), (20, 3, 3, 5)
    ),
    "packed_groups": _trial("packed", lambda x, w: F.conv1d(x, w, groups=2, stride=3), (2, 40, 20), (24, 20, 3)),
    "packed_large": _trial("packed", _conv2d(padding=1), (1, 8, 34, 33), (24, 8, 3, 3), (24,)),
    "packed_up_large": _trial("packed", _up2d(stride=2, padding=1), (1, 4, 33, 34), (4, 12, 3, 3)),
    "gather_large": _trial("gather", _conv2d(padding=(1, 0), stride=(1, 2)), (1, 2, 33, 70), (20, 2, 3, 3), (20,)),
    "gather_up_large": _trial("gather", _up2d(stride=2, padding=1), (1, 2, 34, 33), (2, 6, 3, 4)),
    "packed_3d": _trial("packed", lambda x, w: F.conv3d(x, w), (1, 8, 4, 5, 6), (12, 8, 3, 2, 1)),
    "packed_same": _trial("packed", _conv2d(padding="same", dilation=2), (1, 8, 6, 7), (12, 8, 2, 3)),
    "packed_half": _trial("packed", _conv2d(padding=1), (2, 20, 5, 6), (12, 20, 3, 3), (12,), dtype=HALF),
    "packed_brain_up": _trial("packed", _up2d(stride=2), (1, 20, 4, 3), (20, 12, 3, 3), dtype=BRAIN),
    "packed_up_flipped": _trial("packed", _up2d(padding=1), (1, 20, 5, 4), (20, 12, 3, 4)),
    "packed_up_cropped": _trial("packed", _up2d(padding=2), (1, 20, 6, 6), (20, 12, 2, 3)),
    "packed_up": _trial("packed", _up2d(stride=2, padding=1, output_padding=1), (1, 20, 4, 3), (20, 12, 3, 4), (12,)),
    "packed_up_few": _trial(
        "packed", _up2d(stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2), (1, 8, 4, 5), (8, 6, 3, 5)
    ),
    "packed_up_3d": _trial(
        "packed",
        lambda x, w: F.conv_transpose3d(x, w, stride=2, padding=1, dilation=(1, 2, 3)),
        (1, 3, 3, 2, 3),
        (3, 16, 3, 2, 3),
    ),
    "packed_special": _with_special_values(),
    "packed_tf32": Trial(_conv2d(padding=1), (_x(1, 20, 5, 6), _x(12, 20, 3, 3)), _through("packed"), tf32=True),
    "gather_bias": _trial("gather", _conv2d(padding=1), (2, 20, 5, 6), (24, 20, 3, 3), (24,)),
    "gather_inside": _trial("gather", _conv2d(stride=2, dilation=2, groups=2), (2, 6, 9, 8), (10, 3, 3, 3)),
    "gather_1d": _trial("gather", lambda x, w: F.conv1d(x, w, padding="same"), (2, 5, 11), (7, 5, 4)),
    "gather_3d": _trial("gather", lambda x, w: F.conv3d(x, w, padding=1), (1, 3, 3, 4, 4), (5, 3, 2, 3, 3)),
    "gather_up": _trial("gather", _up2d(stride=5, padding=1, dilation=2), (1, 9, 3, 3), (9, 6, 3, 3), (6,)),
    "gather_brain": _trial("gather", _conv2d(padding=1), (1, 20, 5, 6), (12, 20, 3, 3), dtype=BRAIN),
    "gather_one_image": _trial("gather", _conv2d(padding=1), (20, 5, 6), (12, 20, 3, 3)),
    "pointwise": _trial("pointwise", _conv2d(), (2, 20, 6, 7), (40, 20, 1, 1), (40,)),
    "pointwise_groups": _trial("pointwise", lambda x, w: F.conv1d(x, w, groups=2), (2, 20, 6), (40, 10, 1)),
    "chosen_operator": Trial(
        lambda x, w: torch.ops.aten.convolution.default(x, w, None, [2], [1], [1], True, [1], 1),
        (_x(2, 18, 5), _x(18, 6, 3)),
    ),
    "chosen_depthwise": Trial(lambda x, w: F.conv1d(x, w, groups=4, padding="same"), (_x(2, 4, 9), _x(4, 1, 4))),
    "direct_depthwise": _trial("direct", _conv2d(padding=1, groups=6), (1, 6, 9, 13), (6, 1, 3, 3), (6,)),
    "direct_many": _trial("direct", _conv2d(groups=3, stride=2, dilation=(1, 2)), (1, 3, 8, 9), (6, 1, 3, 3)),
    "direct_large": _trial("direct", _conv2d(padding=4, groups=2), (1, 2, 9, 10), (2, 1, 9, 9)),
    "direct_up": _trial("direct", _up2d(groups=2, stride=2, padding=1), (1, 2, 4, 3), (2, 2, 3, 3)),
    "direct_1d": _trial("direct", lambda x, w: F.conv1d(x, w, groups=3), (2, 3, 11), (3, 1, 4), dtype=HALF),
    "direct_3d": _trial(
        "direct", lambda x, w: F.conv3d(x, w, padding=1), (1, 1, 2, 3, 4), (2, 1, 2, 2, 2), dtype=DOUBLE
    ),
}


# Each path has its cases with padding, steps, groups, dimensions and types; these are further ones of them.
MORE = frozenset(
    ("packed_same", "packed_up_cropped", "packed_up_few", "packed_strided", "gather_1d", "gather_one_image",
     "pointwise_groups", "direct_many")
)  # fmt: skip


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_all(wanted(TRIALS, MORE, request), FAMILIES, tmp_path_factory.mktemp("conv"))


@pytest.mark.parametrize("name", marked((name for name in TRIALS if name != "packed_special"), MORE))
def test_convolution_is_as_exact_as_its_type(name: str, results: dict[str, Any]) -> None:
    trial = TRIALS[name]
    for found, inputs in zip(results[name], (trial.inputs, *trial.more), strict=True):
        assert not isinstance(found, str), found
        expected = exact(trial, inputs)
        assert found.shape == expected.shape
        assert found.dtype == inputs[0].dtype
        assert relative_error(found, expected) < (2e-3 if trial.tf32 else BOUNDS[found.dtype])


def test_infinite_and_huge_inputs_stay_where_they_belong(results: dict[str, Any]) -> None:
    trial = TRIALS["packed_special"]
    (found,) = results["packed_special"]
    assert not isinstance(found, str), found
    expected = exact(trial, trial.inputs)
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found.isinf(), expected.isinf())
    finite = expected[:2].isfinite()
    error = (found[:2].double() - expected[:2])[finite].abs().max()
    assert error < 1e-5
    assert relative_error(found[2], expected[2]) < 2e-6


CHOICES = {
    "heavy": ("packed", _conv2d(), (8, 64, 512, 1024), (128, 64, 3, 3)),
    "three_channels": ("packed", _conv2d(stride=4, padding=2), (256, 3, 224, 224), (96, 3, 11, 11)),
    "light": ("gather", _conv2d(padding=1), (1, 16, 14, 14), (16, 16, 3, 3)),
    "one_by_one": ("pointwise", _conv2d(), (16, 64, 1024, 1024), (128, 64, 1, 1)),
    "deep_one_by_one": ("packed", _conv2d(), (64, 1024, 28, 28), (1024, 1024, 1, 1)),
    "depthwise": ("direct", _conv2d(groups=64), (16, 64, 512, 512), (64, 1, 3, 3)),
    "upsampling": ("packed", _up2d(stride=2, padding=1), (128, 64, 128, 128), (64, 64, 3, 3)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_kernel_follows_the_work(name: str) -> None:
    path, function, *shapes = CHOICES[name]
    trial = Trial(function, tuple(torch.empty(shape, device="meta") for shape in shapes))
    node, _ = node_of(trial, FAMILIES)
    call = parse(node)
    assert call is not None
    assert path_of(call) == path
    piece, _ = piece_of(trial, "conv", FAMILIES)
    assert 4 <= len(piece.settings) <= 16
    assert len({tuple(sorted(setting.items())) for setting in piece.settings}) == len(piece.settings)


def test_integer_convolution_is_not_accepted() -> None:
    trial = Trial(_conv2d(), (torch.ones(1, 2, 4, 4, dtype=torch.int32), torch.ones(2, 2, 3, 3, dtype=torch.int32)))
    node, _ = node_of(trial, FAMILIES)
    assert not FAMILIES[node.target].accepts(node)
