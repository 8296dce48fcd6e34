"""Proposers by name: what `--proposer` takes. Nothing heavy is imported before a proposer is asked for a candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotriton.errors import UsageError
from autotriton.propose.auto import AUTO
from autotriton.propose.base import Proposer
from autotriton.propose.settings import EndpointSettings, ModelSettings

FORMS = (
    AUTO,
    "compiler",
    "compiler:inductor",
    "compiler:templates",
    "model[:PATH]",
    "endpoint:URL#MODEL",
    "files:DIR",
)
ENGINES = ("templates", "inductor")
"""Of the compiler proposer, in the order they are tried."""
_ON_GPU = "on_gpu"
"""Of the compiler proposer: whether it may time its choices on the GPU. Not where others are timing there."""
_KNOWN = frozenset((_ON_GPU, *EndpointSettings.model_fields, *ModelSettings.model_fields))


def parse(spec: str, **settings: Any) -> Proposer:
    """The proposer a spec names. Settings a proposer has no use for are left out; those nobody knows are an error."""
    if unknown := sorted(set(settings) - _KNOWN):
        raise UsageError(f"unknown proposer setting {unknown[0]}", hint=f"known: {', '.join(sorted(_KNOWN))}")
    kind, _, rest = spec.strip().partition(":")
    if kind == AUTO:
        raise UsageError("auto stands for several proposers, and one is asked for", hint="name it, e.g. compiler")
    if kind not in _MAKERS:
        raise UsageError(f"unknown proposer {spec!r}", hint=f"known forms: {', '.join(FORMS)}")
    return _MAKERS[kind](rest, settings)


def _compiler(rest: str, settings: dict[str, Any]) -> Proposer:
    from autotriton.propose.compiler import CompilerProposer

    if rest and rest not in ENGINES:
        raise UsageError(f"the compiler has no engine {rest!r}", hint=f"known engines: {', '.join(ENGINES)}")
    return CompilerProposer(engines=(rest,) if rest else ENGINES, on_gpu=settings.get(_ON_GPU, True))


def _model(rest: str, settings: dict[str, Any]) -> Proposer:
    from autotriton.propose.model import ModelProposer

    return ModelProposer(rest or None, **_for(ModelSettings, settings))


def _endpoint(rest: str, settings: dict[str, Any]) -> Proposer:
    from autotriton.propose.endpoint import FORM, EndpointProposer

    url, _, model = rest.partition("#")
    if not url or not model:
        what = "a URL" if not url else "the model's name after a `#`"
        raise UsageError(f"the proposer endpoint:{rest} lacks {what}", hint=f"write {FORM}")
    return EndpointProposer(url, model, **_for(EndpointSettings, settings))


def _files(rest: str, settings: dict[str, Any]) -> Proposer:
    from autotriton.propose.files import FORM, FilesProposer

    if not rest:
        raise UsageError("the proposer files: lacks a folder", hint=f"write {FORM}")
    return FilesProposer(rest)


def _for(kind: type[EndpointSettings] | type[ModelSettings], settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in kind.model_fields}


_MAKERS: dict[str, Callable[[str, dict[str, Any]], Proposer]] = {
    "compiler": _compiler,
    "model": _model,
    "endpoint": _endpoint,
    "files": _files,
}
