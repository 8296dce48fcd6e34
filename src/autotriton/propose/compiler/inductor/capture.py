"""A task becomes Inductor's wrapper sources, one per variant. Entry of the child process: `python -m ...capture`.

Its two arguments are JSON files: a `CaptureRequest` in; `Captures`, written anew after every variant so that a deadline
costs only what is missing, or `{"error": line}` out. On a machine with a GPU kernels are timed there, without one
Inductor is made to believe in one; everything after the wrapper's text is the same.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
import torch._inductor.runtime.triton_helpers as triton_helpers

from autotriton.propose.compiler.inductor.fake_cuda import allow_fake_cuda_tensors
from autotriton.propose.compiler.inductor.launching import launches
from autotriton.propose.compiler.inductor.lowering import lower
from autotriton.propose.compiler.inductor.program import Unsupported, load
from autotriton.propose.compiler.inductor.record import Capture, CaptureRequest, Captures
from autotriton.propose.compiler.inductor.trace import Traced, real_arguments, trace
from autotriton.propose.compiler.inductor.variants import ATTENTION, DEFAULT, VARIANTS, Variant

_WRAPPED = ("LoweringException", "InductorError", "BackendCompilerFailed")
"""Errors that only say where another one happened."""


class _Capturing:
    """One task: traced once for each form of its attention, lowered once per variant."""

    def __init__(self, request: CaptureRequest) -> None:
        self.request = request
        self.measured = request.on_gpu and torch.cuda.is_available()
        torch.backends.cuda.matmul.allow_tf32 = request.tf32
        torch.backends.cudnn.allow_tf32 = request.tf32
        if not self.measured:
            allow_fake_cuda_tensors()
        self.module = load(request)
        self.default = None if DEFAULT in request.skip else ""
        """The default variant's wrapper; None where whoever asks has it, and asks for nothing that cannot differ."""

        self.spare: Traced | None = None
        """A trace made in vain for attention, which is there for the next variant."""

    def one(self, variant: Variant) -> Capture | None:
        """None where the variant is no different from the default."""
        if variant.name not in (ATTENTION, DEFAULT) and not (self.default is None or variant.applies(self.default)):
            return None
        traced, self.spare = self.spare or self._trace(variant), None
        if variant.name == ATTENTION and not traced.flash_attention:
            self.spare = traced
            if traced.attention_note:
                raise Unsupported(f"the flash kernel does not serve: {traced.attention_note}")
            return None
        capture = self._capture(variant, traced)
        if variant.name == DEFAULT:
            self.default = capture.wrapper
        return capture

    def _trace(self, variant: Variant) -> Traced:
        return trace(self.request, self.module, flash_attention=variant.name == ATTENTION)

    def _capture(self, variant: Variant, traced: Traced) -> Capture:
        arguments = (lambda: real_arguments(self.request, self.module, traced)) if self.measured else None
        lowered = lower(traced, dict(variant.options), arguments)
        return Capture(
            variant=variant.name,
            measured=self.measured,
            wrapper=lowered.wrapper,
            helpers=Path(triton_helpers.__file__).read_text(encoding="utf-8"),
            launches=launches(lowered, self.measured),
            arguments=tuple(traced.arguments),
            signature=traced.signature,
            fixed=traced.fixed,
            output=traced.output,
            aliases=traced.aliases,
            torch_version=torch.__version__,
        )


def captures(request: CaptureRequest) -> Iterator[Captures]:
    """What is known after each variant. The error of the default is the task's; another variant's is a note."""
    started = time.monotonic()
    capturing = _Capturing(request)
    found: list[Capture] = []
    tried, notes = list(request.skip), list[str]()
    for variant in VARIANTS:
        if variant.name in request.skip:
            continue
        if len(found) >= request.most:
            break
        if found and time.monotonic() - started > request.seconds / 2:
            notes.append(f"{variant.name} and what follows it were left out: half of {request.seconds:g} s had passed")
            break
        try:
            capture = capturing.one(variant)
        except Exception as error:
            if variant.name == DEFAULT and not found:
                raise
            notes.append(f"{variant.name}: {reason(error)}")
            capture = None
        tried.append(variant.name)
        if capture is not None:
            found.append(capture)
            yield Captures(captures=tuple(found), tried=tuple(tried), notes=tuple(notes))
    yield Captures(captures=tuple(found), tried=tuple(tried), notes=tuple(notes))


def reason(error: BaseException) -> str:
    """One line for the user: the innermost cause, with the operator where it names one."""
    while type(error).__name__ in _WRAPPED and (cause := error.__cause__ or getattr(error, "inner_exception", None)):
        error = cause
    if isinstance(error, Unsupported):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return f"the task imports {error.name}, which is not installed here"
    kind = type(error).__name__
    text = " ".join(str(error).split())
    if kind in ("DataDependentOutputException", "GuardOnDataDependentSymNode", "DynamicOutputShapeException"):
        return f"forward reads tensor values to decide what to do ({text[:120]})"
    if "not linked with support for cuda" in text and (found := re.search(r"target=torch\.ops\.([\w.]+)", text)):
        return f"TorchInductor has no Triton kernel for {found[1]}, and calls torch instead"
    return f"{kind}: {text[:300]}"


def main(request_path: str, answer_path: str) -> None:
    warnings.filterwarnings("ignore")
    request = CaptureRequest.model_validate_json(Path(request_path).read_text(encoding="utf-8"))
    answer = Path(answer_path)
    try:
        for known in captures(request):
            _write(answer, known.model_dump_json())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the task's code and Inductor may raise anything
        if not answer.exists():
            _write(answer, json.dumps({"error": reason(error)}))


def _write(path: Path, text: str) -> None:
    """Whole or not at all: the parent may stop waiting at any moment."""
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
