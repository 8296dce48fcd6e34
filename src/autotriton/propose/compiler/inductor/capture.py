"""A task becomes Inductor's wrapper source. Entry of the child process: `python -m ...capture REQUEST ANSWER`.

Both files are JSON: a `Request` in, a `Capture` or `{"error": line}` out. Generation stops before anything is compiled.
Matrix products and convolutions are given to Inductor's Triton templates; what has none stays a call outside Triton,
and the reader of the wrapper refuses it by name.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
import torch._inductor.runtime.triton_helpers as triton_helpers
import torch._inductor.runtime.triton_heuristics as heuristics
from torch._inductor import select_algorithm
from torch._inductor.compile_fx import compile_fx
from torch._inductor.graph import GraphLowering

from autotriton.propose.compiler.inductor.fake_cuda import allow_fake_cuda_tensors, fake_cuda
from autotriton.propose.compiler.inductor.kernels import kernel_sources
from autotriton.propose.compiler.inductor.program import Unsupported
from autotriton.propose.compiler.inductor.record import Capture, Launch, Request
from autotriton.propose.compiler.inductor.trace import Traced, trace

_TILE = (64, 64, 32)
"""BLOCK_M, BLOCK_N, BLOCK_K the static choice among templates stays closest to."""
_AVOIDED = re.compile("tma|persistent|blackwell|tlx|decompose")
_OPTIONS: dict[str, Any] = {
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON,ATEN",
    "max_autotune_conv_backends": "TRITON,ATEN",
    "force_disable_caches": True,
    "layout_optimization": False,
    "joint_graph_constant_folding": False,
    "shape_padding": False,
    "prologue_fusion": False,  # a fused constant operand has no dimensions, which tl.dot cannot take
    "compile_threads": 1,
    "benchmark_harness": False,
    "allow_buffer_reuse": False,
    "size_asserts": False,
    "alignment_asserts": False,
    "assert_indirect_indexing": False,
}


class _Stop(BaseException):
    """The wrapper has been written; nothing after it is wanted."""


def capture(request: Request) -> Capture:
    torch.backends.cuda.matmul.allow_tf32 = request.tf32
    torch.backends.cudnn.allow_tf32 = request.tf32
    allow_fake_cuda_tensors()
    traced = trace(request)
    wrapper = _lower(traced)
    return Capture(
        wrapper=wrapper,
        helpers=Path(triton_helpers.__file__).read_text(encoding="utf-8"),
        launches={name: _launch(source) for name, source in kernel_sources(wrapper).items()},
        arguments=tuple(traced.arguments),
        signature=traced.signature,
        fixed=traced.fixed,
        output=traced.output,
        aliases=traced.aliases,
        torch_version=torch.__version__,
    )


def _lower(traced: Traced) -> str:
    written: list[str] = []

    def stop(self: GraphLowering) -> None:
        code, _ = self.codegen()
        if self.constants:
            raise Unsupported(f"Inductor folded tensors into constants: {', '.join(self.constants)}")
        written.append(code.value)
        raise _Stop

    options = {name: value for name, value in _OPTIONS.items() if hasattr(inductor_config, name)}
    chooser = select_algorithm.AlgorithmSelectorCache
    with (
        fake_cuda(),
        torch.no_grad(),
        inductor_config.patch(options),
        mock.patch.object(GraphLowering, "_compile_to_module", stop),
        mock.patch.object(chooser, "__call__", _choosing(chooser.__call__)),
    ):
        try:
            compile_fx(traced.graph, list(traced.examples))
        except _Stop:
            pass
        except Exception:  # Inductor wraps what passes through it
            if not written:
                raise
    if not written:
        raise Unsupported("nothing to compute: the outputs are the inputs or views of them")
    return written[0]


def _choosing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Autotuning replaced by a static choice among the Triton templates: there is no device to time them on."""

    def choose(self: Any, name: str, choices: list[Any], *args: Any, **kwargs: Any) -> Any:
        templates = [choice for choice in choices if _is_plain_template(choice)]
        return original(self, name, [min(templates, key=_distance)] if templates else choices[:1], *args, **kwargs)

    return choose


def _is_plain_template(choice: Any) -> bool:
    is_template = isinstance(choice, select_algorithm.TritonTemplateCaller)
    return is_template and not _AVOIDED.search(f"{choice.name} {choice.description}".lower())


def _distance(choice: Any) -> tuple[int, int]:
    sizes = dict(re.findall(r"(\w+)=(\d+)", choice.description))
    blocks = (int(sizes.get(f"BLOCK_{axis}", 0)) for axis in "MNK")
    apart = sum(abs(block - wanted) for block, wanted in zip(blocks, _TILE, strict=True))
    return apart, int(choice.log_info.get("num_stages", 0))


def _launch(source: str) -> Launch:
    """Runs the kernel's heuristics decorator, only to learn what it would launch with."""
    seen: dict[str, Any] = {}

    def learn(size_hints: Any, configs: Any, triton_meta: Any, heuristic_type: Any, **kwargs: Any) -> Any:
        def decorate(function: Any) -> Any:
            seen.update(config=configs[0], meta=kwargs.get("inductor_meta") or {}, signature=triton_meta["signature"])
            return function

        return decorate

    with (
        tempfile.TemporaryDirectory() as folder,
        fake_cuda(),
        mock.patch.object(heuristics, "cached_autotune", learn),
        mock.patch.object(triton_helpers, "set_driver_to_gpu", return_value=None),
    ):
        path = Path(folder, "kernel.py")
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("kernel", path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    config, meta = seen["config"], seen["meta"]
    grid = heuristics.GridExpr.from_meta(meta, config)
    return Launch(
        config={name: value for name, value in config.kwargs.items() if name in seen["signature"]},
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        grid=(str(grid.x_grid), str(grid.y_grid), str(grid.z_grid)),
        prefix=tuple(grid.prefix),
        extra_arguments=tuple(meta.get("extra_launcher_args", ())),
    )


def reason(error: BaseException) -> str:
    """One line for the user: the innermost cause, with the operator where it names one."""
    if isinstance(error, Unsupported):
        return str(error)
    kind = type(error).__name__
    text = " ".join(str(error).split())
    if kind in ("DataDependentOutputException", "GuardOnDataDependentSymNode", "DynamicOutputShapeException"):
        return f"forward reads tensor values to decide what to do ({text[:120]})"
    return f"{kind}: {text[:300]}"


def main(request_path: str, answer_path: str) -> None:
    warnings.filterwarnings("ignore")
    request = Request.model_validate_json(Path(request_path).read_text(encoding="utf-8"))
    try:
        answer = capture(request).model_dump_json()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the task's code and Inductor may raise anything
        answer = json.dumps({"error": reason(error)})
    Path(answer_path).write_text(answer, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
