"""Noise for the fp64 run: how it is spread, and that rounding treats equal numbers alike."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from autotriton.judge.promote import Noise, Rounding  # noqa: E402

UNIT = 2.0**-24


@pytest.mark.parametrize("kind", [Noise, Rounding])
def test_noise_is_centred_and_has_one_unit_of_spread(kind):
    x = torch.randn(200_000, dtype=torch.float64) + 3.0
    relative = (kind(UNIT, 1, False)(x.clone()) - x) / x / UNIT
    assert abs(relative.mean()) < 0.02
    assert relative.std().item() == pytest.approx(1.0, abs=0.02)
    assert relative.abs().max() < 2.0


def test_equal_numbers_round_alike_and_different_ones_do_not():
    values = torch.randn(50, dtype=torch.float64)
    x = values.repeat(40, 1)
    rounded = Rounding(UNIT, 1, False)(x.clone())
    assert (rounded == rounded[0]).all()
    assert (rounded != x).any(0).sum() > 45
    assert ((rounded - x)[0] / values).unique().numel() > 30


def test_every_step_rounds_anew():
    x = torch.full((8,), 0.7, dtype=torch.float64)
    rounding = Rounding(UNIT, 1, False)
    assert len({rounding(x.clone())[0].item() for _ in range(20)}) > 10


def test_neighbours_do_not_round_alike():
    x = torch.arange(1.0, 4097.0, dtype=torch.float64)
    lost = (Rounding(UNIT, 5, False)(x.clone()) - x) / x / UNIT
    assert abs(torch.corrcoef(torch.stack((lost[1:], lost[:-1])))[0, 1]) < 0.05


def test_strided_tensors_are_rounded_in_place():
    x = torch.randn(6, 4, dtype=torch.float64).t()
    before = x.clone()
    assert Rounding(UNIT, 2, False)(x) is x
    assert (x != before).any()
