"""The module a kernel was made for, and how to notice that it is no longer that one.

Covers layers, hooks, train and eval mode, and plain attributes such as `eps` or `p`; tensors are looked at elsewhere.
Does not cover globals and closures of `forward`, nor attributes of other kinds, that change later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from autotriton.live.guards import Reason
from autotriton.live.outlines import PLAIN

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_GONE = object()


@dataclass(frozen=True)
class Layer:
    """What the trace took as given about one part of a module."""

    kind: str
    """Its class, by name."""
    training: bool | None
    """None where the mode makes no difference."""
    hooks: tuple[int, ...]
    plain: dict[str, Any]

    @staticmethod
    def of(part: nn.Module, *, mode_matters: bool) -> Layer:
        plain = {key: value for key, value in vars(part).items() if key != "training" and _is_plain(value)}
        return Layer(_kind(part), part.training if mode_matters else None, _hooks(part), plain)


def structure(module: nn.Module, *, mode_matters: bool) -> dict[str, Layer]:
    return {name: Layer.of(part, mode_matters=mode_matters) for name, part in module.named_modules()}


class Changed(Exception):
    """A module has other layers than the one a kernel was made for; the text says which."""


class Watch:
    """Looks at a module before every call. Raises `Changed` where it is another one from the beginning."""

    def __init__(self, module: nn.Module, expected: dict[str, Layer]) -> None:
        for name, part in module.named_modules():
            if name not in expected or expected[name].kind != _kind(part):
                raise Changed(f"layer `{name}` is a {type(part).__name__}, which it was not when it was optimized")
        self.parts = [(name or "the module", part, expected[name]) for name, part in module.named_modules()]
        self.children = [
            (part._modules, key, child) for _, part, _ in self.parts for key, child in part._modules.items()
        ]

    def refuse(self) -> Reason | None:
        for held, key, child in self.children:
            if held.get(key) is not child:
                return Reason("layers", f"layer `{key}` has been replaced since the module was optimized")
        for name, part, layer in self.parts:
            own = vars(part)
            if layer.training is not None and own["training"] is not layer.training:
                mode = "train" if own["training"] else "eval"
                return Reason("mode", f"{name} is in {mode} mode, and the kernel is for the other one")
            if _hooks(part) != layer.hooks:
                return Reason("hooks", f"the hooks of {name} have changed since the module was optimized")
            for key, value in layer.plain.items():
                if own.get(key, _GONE) != value:
                    return Reason("settings", f"`{key}` of {name} has changed since the module was optimized")
        return None


def _kind(part: nn.Module) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def _hooks(part: nn.Module) -> tuple[int, ...]:
    return tuple(len(vars(part)[hooks]) for hooks in _HOOKS)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN)
