"""The fused forward of adapted layers gives peft's numbers, forwards and backwards."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from autotriton.train.lora import fuse  # noqa: E402


def _adapted(dropout: float = 0.0, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.SiLU(), torch.nn.Linear(40, 8, bias=False)).to(dtype)
    config = peft.LoraConfig(r=4, lora_alpha=12, lora_dropout=dropout, target_modules=["0", "2"])
    model = peft.get_peft_model(plain, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return model


def _gradients(model: torch.nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=next(model.parameters()).dtype is torch.bfloat16):
        out = model(x)
    out.float().square().mean().backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {**found, "x": x.grad, "out": out.detach()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_numbers_as_peft(dtype: torch.dtype) -> None:
    ours = _adapted(dtype=dtype)
    theirs = copy.deepcopy(ours)
    assert fuse(ours) == 2
    x = torch.randn(3, 5, 24).to(dtype)
    mine, wanted = _gradients(ours, x), _gradients(theirs, x)
    assert mine.keys() == wanted.keys()
    assert sum("lora" in name for name in mine) == 4
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    for name, gradient in wanted.items():
        assert gradient.abs().max() > 0
        assert mine[name].dtype == gradient.dtype
        error = (mine[name].float() - gradient.float()).norm() / gradient.float().norm()
        assert error < tolerance, name


def test_what_is_not_ordinary_is_left_to_peft() -> None:
    assert fuse(_adapted(dropout=0.1)) == 0
    model = _adapted()
    x = torch.randn(2, 24)
    adapted = model(x)
    fuse(model)
    torch.testing.assert_close(model(x), adapted)
    with model.disable_adapter():
        plain = model(x)
    assert not torch.allclose(plain, adapted)
    model.merge_adapter()
    torch.testing.assert_close(model(x), adapted)
