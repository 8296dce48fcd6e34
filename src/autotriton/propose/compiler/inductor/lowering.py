"""A traced graph becomes Inductor's wrapper source, for a GPU that is there or for one that is not.

Runs in the capturing child process only. Matrix products and convolutions are given to Inductor's Triton templates;
what has none stays a call outside Triton, and the reader of the wrapper refuses it by name. Without a GPU the template
is chosen by rule and generation stops before anything is compiled. With one, templates are timed, the compiled module
runs once on the task's own inputs, and every kernel's fastest setting is read off it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch import Tensor
from torch._inductor import select_algorithm
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.graph import GraphLowering

from autotriton.propose.compiler.inductor.fake_cuda import fake_cuda
from autotriton.propose.compiler.inductor.program import Unsupported
from autotriton.propose.compiler.inductor.trace import Traced

_TILE = (64, 64, 32)
"""BLOCK_M, BLOCK_N, BLOCK_K the static choice among templates stays closest to."""
_AVOIDED = re.compile("tma|persistent|blackwell|tlx|decompose|contiguous_subgraph")
_OPTIONS: dict[str, Any] = {
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON,ATEN",  # where nothing but ATen is left, the refusal names the operator
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
    "triton.multi_kernel": 0,  # its two kernels are variants of their own
    "triton.cooperative_reductions": False,  # they wait for each other, which an interpreter cannot do
    "triton.num_decompose_k_splits": 0,  # its parts are calls outside Triton, and its mere presence hides the templates
    "triton.cudagraphs": False,
    "cpp_wrapper": False,
    "graph_partition": False,
}
_MEASURED: dict[str, Any] = {
    "max_autotune": True,
    "max_autotune_pointwise": True,
    "autotune_in_subproc": False,
    "compile_threads": min(8, os.cpu_count() or 1),
}


@dataclass
class Lowered:
    """The wrapper's text and, where kernels ran, the setting each of them was fastest with."""

    wrapper: str
    fastest: dict[str, Any] = field(default_factory=dict)
    """By kernel, a `triton.Config`."""


class _Stop(BaseException):
    """The wrapper has been written; nothing after it is wanted."""


def lower(traced: Traced, options: dict[str, Any], arguments: Callable[[], list[Tensor]] | None) -> Lowered:
    """Kernels are timed on what `arguments` makes; without it they are chosen by rule and nothing is compiled."""
    written: list[tuple[str, Any]] = []
    original = GraphLowering._compile_to_module_lines

    def keep(self: GraphLowering, wrapper_code: Any) -> Any:
        if self.constants:
            raise Unsupported(f"Inductor folded tensors into constants: {', '.join(self.constants)}")
        written.append((wrapper_code.value, None))
        if arguments is None:
            raise _Stop
        written[-1] = (wrapper_code.value, original(self, wrapper_code))
        return written[-1][1]

    compiled: Any = None
    with (
        _prepared(options, measured=arguments is not None),
        mock.patch.object(GraphLowering, "_compile_to_module_lines", keep),
    ):
        try:
            compiled = compile_fx(traced.graph, list(traced.examples))
        except _Stop:
            pass
        except Exception:  # Inductor wraps what passes through it
            if not written or arguments is not None:
                raise
    if not written:
        raise Unsupported("nothing to compute: the outputs are the inputs or views of them")
    wrapper, module = written[0]
    if compiled is None or arguments is None:
        return Lowered(wrapper)
    with torch.no_grad():
        compiled(*arguments())
    torch.cuda.synchronize()
    return Lowered(wrapper, _fastest(module))


@contextmanager
def _prepared(options: dict[str, Any], measured: bool) -> Iterator[None]:
    wanted = {**_OPTIONS, **(_MEASURED if measured else {}), **options}
    chooser = select_algorithm.AlgorithmSelectorCache
    with (
        cuda(measured),
        torch.no_grad(),
        inductor_config.patch({name: value for name, value in wanted.items() if known_option(name)}),
        # Without the pattern tables attention stays matmul, softmax, matmul, which is wanted: the fused pattern would
        # be a call outside Triton. (They are also built by tracing real CUDA tensors.)
        mock.patch.object(joint_graph, "lazy_init", return_value=None),
        mock.patch.object(post_grad, "lazy_init", return_value=None),
        mock.patch.object(chooser, "__call__", _choosing(chooser.__call__, measured)),
    ):
        yield


def cuda(real: bool) -> AbstractContextManager[None]:
    """The GPU that is there, or one Inductor believes in."""
    return nullcontext() if real else fake_cuda()


def known_option(name: str) -> bool:
    """Whether this torch has the option: `triton.max_tiles` is one of the class `triton` in Inductor's config."""
    owner: Any = inductor_config
    for part in name.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


def _choosing(original: Callable[..., Any], measured: bool) -> Callable[..., Any]:
    """Only Triton's plain templates are left to choose from: all of them to be timed, or the one a rule prefers."""

    def choose(self: Any, name: str, choices: list[Any], *args: Any, **kwargs: Any) -> Any:
        templates = [choice for choice in choices if _is_plain_template(choice)]
        if templates and not measured:
            templates = [min(templates, key=_distance)]
        return original(self, name, templates or choices[:1], *args, **kwargs)

    return choose


def _is_plain_template(choice: Any) -> bool:
    is_template = isinstance(choice, select_algorithm.TritonTemplateCaller)
    return is_template and not _AVOIDED.search(f"{choice.name} {choice.description}".lower())


def _distance(choice: Any) -> tuple[int, int]:
    sizes = dict(re.findall(r"(\w+)=(\d+)", choice.description))
    blocks = (int(sizes.get(f"BLOCK_{axis}", 0)) for axis in "MNK")
    apart = sum(abs(block - wanted) for block, wanted in zip(blocks, _TILE, strict=True))
    return apart, int(choice.log_info.get("num_stages", 0))


def _fastest(module: Any) -> dict[str, Any]:
    """The setting of each kernel that has settled on one."""
    found = {}
    for name, kernel in vars(module).items():
        launchers = getattr(kernel, "launchers", None)
        if launchers and len(launchers) == 1 and hasattr(launchers[0], "config"):
            found[name] = launchers[0].config
    return found
