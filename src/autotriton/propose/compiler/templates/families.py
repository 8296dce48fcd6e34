"""Operator -> the kernel family that writes it. One import per family's module."""

from __future__ import annotations

import importlib
from functools import cache

import torch.fx

from autotriton.propose.compiler.templates.expressions import name_of
from autotriton.propose.compiler.templates.piece import Family

_MODULES = ("matmul", "attention", "conv", "pool", "scan", "rnn", "sort", "scatter")


@cache
def _all() -> dict[str, Family]:
    found: dict[str, Family] = {}
    for name in _MODULES:
        module = importlib.import_module(f"{__package__}.{name}")
        found |= {str(operator): family for operator, family in module.FAMILIES.items()}
    return found


def family_of(node: torch.fx.Node) -> Family | None:
    families = _all()
    return families.get(str(node.target)) or families.get(name_of(node))
