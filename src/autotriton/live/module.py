"""`OptimizedModule`: stands in for the user's module, with a verified kernel where it applies.

Must stay true: it owns nothing. Parameters, buffers and children are the original's own dictionaries, so weights are
shared in both directions, `state_dict` has the same keys, and whatever the kernel was not verified for is done by the
original, which is said once for each reason.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from autotriton.errors import UsageError
from autotriton.live.describing import owned
from autotriton.live.guards import Reason
from autotriton.live.record import Optimized
from autotriton.live.runtime import Runtime
from autotriton.live.watching import Changed
from autotriton.types import Verdict

_SHARED = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class FallbackWarning(UserWarning):
    """An optimized module has run the original instead of its kernel."""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _say_compiled(name: str) -> bool:
    """Said while torch.compile traces, which happens once."""
    text = "torch.compile compiles the original; `export` makes an operator that keeps the kernel in compiled graphs"
    warnings.warn(f"{name} runs without its kernel: {text}", FallbackWarning, stacklevel=2)
    return True


class OptimizedModule(nn.Module):
    """Made by `autotriton.optimize`."""

    original: nn.Module
    optimized: Optimized | None
    """None where no kernel was found and the original was asked for instead."""

    def __init__(self, original: nn.Module, optimized: Optimized | None) -> None:
        super().__init__()
        self.__setstate__({"original": original, "optimized": optimized})

    @property
    def training(self) -> bool:
        original: nn.Module | None = self.__dict__.get("original")
        return original.training if original is not None else True

    @training.setter
    def training(self, mode: bool) -> None:
        original = self.__dict__.get("original")
        if original is not None:
            original.training = mode

    @property
    def verdict(self) -> Verdict | None:
        return self.optimized.verdict if self.optimized is not None else None

    @property
    def kernel_source(self) -> str | None:
        """The standalone kernel file that runs."""
        return self.optimized.candidate.code if self.optimized is not None else None

    def save(self, path: str | Path) -> Path:
        """Writes the kernel file, with its verdict and its task beside it."""
        if self.optimized is None:
            raise UsageError(f"{type(self.original).__name__} has no kernel to save")
        path = Path(path).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.optimized.candidate.code, encoding="utf-8")
        path.with_suffix(".task.py").write_text(self.optimized.task.source, encoding="utf-8")
        path.with_suffix(".verdict.json").write_text(self.optimized.verdict.model_dump_json(indent=1), encoding="utf-8")
        if values := self._unsaved():
            torch.save(values, path.with_suffix(".values.pt"))
        return path

    def export(self, out_dir: str | Path, name: str) -> Path:
        """Writes the kernel as a package with a custom operator; see docs/live.md."""
        from autotriton.export import export_package

        if self.optimized is None:
            raise UsageError(f"{type(self.original).__name__} has no kernel to export")
        made = self.optimized
        return export_package(made.task, made.candidate, made.verdict, Path(out_dir), name, values=self._unsaved())

    def _unsaved(self) -> dict[str, Tensor]:
        """Tensors the kernel needs that are in no `state_dict`: attributes, constants, buffers that do not persist."""
        assert self.optimized is not None
        held = owned(self.original, dict(self.optimized.constants))
        saved = self.original.state_dict()
        return {name: place.tensor.detach().cpu() for name, place in held.items() if name not in saved}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.optimized is None:
            return self.original(*args, **kwargs)
        if torch.compiler.is_compiling():  # torch.compile sees the original whole: its guards know nothing of kernels
            _say_compiled(type(self.original).__name__)
            return self.original(*args, **kwargs)
        runtime = self._runtime()
        result = runtime if isinstance(runtime, Reason) else runtime(args, kwargs)
        if not isinstance(result, Reason):
            return result
        self._say_once(result)
        return self.original(*args, **kwargs)

    def _runtime(self) -> Runtime | Reason:
        found: Runtime | Reason | None = self.__dict__.get("_loaded")
        if found is None:
            assert self.optimized is not None
            try:
                found = Runtime(self.original, self.optimized)
            except Changed as error:
                found = Reason("structure", str(error))
            self.__dict__["_loaded"] = found
        return found

    def _say_once(self, reason: Reason) -> None:
        if reason.kind not in self._told:
            self._told.add(reason.kind)
            name = type(self.original).__name__
            warnings.warn(f"{name} runs without its kernel: {reason.text}", FallbackWarning, stacklevel=5)

    # What a layer of torch or of the user overrides for itself must also happen when its stand-in is asked for it.

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.original.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.original._load_from_state_dict(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self.original._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return self

    def train(self, mode: bool = True) -> Self:
        self.original.train(mode)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ or name in vars(OptimizedModule) or "original" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self.original, name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "original" not in self.__dict__:
                raise
            return getattr(self.__dict__["original"], name)

    def __getstate__(self) -> dict[str, Any]:
        return {"original": self.original, "optimized": self.optimized}

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__init__(self) if "_parameters" not in self.__dict__ else None
        original = state["original"]
        self.__dict__.update(state, _told=set(), _loaded=None)
        self.__dict__.update({key: original.__dict__[key] for key in _SHARED})

    def extra_repr(self) -> str:
        name = type(self.original).__name__
        if self.optimized is None:
            return f"{name}, no kernel: the original runs"
        verdict = self.optimized.verdict
        speed = "".join(f", {s.ratio:.2f}x {baseline}" for baseline, s in verdict.speedups.items())
        kernels = ", ".join(kernel.name for kernel in verdict.kernels)
        return (
            f"{name}, {verdict.outcome} ({verdict.policy}, up to {verdict.tier}){speed}\n"
            f"for {self.optimized.shapes}{self.optimized.mode}\nkernels: {kernels}"
        )
