"""The private torch interfaces the inductor engine uses, by version: those of the installed torch must be there.

The table was read off the sources of each version. A name that is used and not listed fails too, so that the table
stays the whole list of what a new torch has to be checked for.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import autotriton.propose.compiler.inductor as package

pytestmark = pytest.mark.interp

SUPPORTED = ("2.11", "2.12", "2.13")
EVERYWHERE: dict[str, list[str]] = {
    "torch._C": ["_ensureCUDADeviceGuardSet"],
    "torch._dynamo.device_interface": [
        "CudaInterface.current_device",
        "CudaInterface.set_device",
        "CudaInterface.device_count",
        "CudaInterface.synchronize",
        "CudaInterface.get_device_properties",
        "CudaInterface.memory_allocated",
        "CudaInterface.is_bf16_supported",
        "CudaInterface.current_stream",
        "CudaInterface.exchange_device",
        "CudaInterface.maybe_exchange_device",
        "CudaInterface.get_raw_stream",
        "CudaInterface.device",
        "caching_worker_device_properties",
    ],
    "torch._higher_order_ops.flex_attention": ["flex_attention"],
    "torch._inductor.compile_fx": ["compile_fx"],
    "torch._inductor.fx_passes.joint_graph": ["lazy_init"],
    "torch._inductor.fx_passes.post_grad": ["lazy_init"],
    "torch._inductor.graph": ["GraphLowering._compile_to_module_lines"],
    "torch._inductor.runtime.triton_helpers": ["set_driver_to_gpu"],
    "torch._inductor.runtime.triton_heuristics": ["cached_autotune", "GridExpr.from_meta", "CachingAutotuner"],
    "torch._inductor.select_algorithm": ["AlgorithmSelectorCache.__call__", "TritonTemplateCaller"],
    "torch._subclasses.fake_tensor": ["FakeTensor", "FakeTensorMode"],
    "torch.fx.experimental.proxy_tensor": ["make_fx"],
    "torch.nn.attention.flex_attention": ["BlockMask.from_kv_blocks", "BlockMask.as_tuple"],
    "torch.utils._pytree": ["tree_flatten", "tree_unflatten", "tree_flatten_with_path"],
    "torch.utils._triton": ["has_triton", "has_triton_tma_device", "has_triton_stable_tma_api", "triton_backend"],
    "torch._inductor.config": [
        "max_autotune",
        "max_autotune_gemm",
        "max_autotune_gemm_backends",
        "max_autotune_conv_backends",
        "max_autotune_pointwise",
        "force_disable_caches",
        "layout_optimization",
        "force_layout_optimization",
        "joint_graph_constant_folding",
        "shape_padding",
        "prologue_fusion",
        "epilogue_fusion",
        "split_reductions",
        "compile_threads",
        "benchmark_harness",
        "allow_buffer_reuse",
        "size_asserts",
        "alignment_asserts",
        "assert_indirect_indexing",
        "autotune_in_subproc",
        "cpp_wrapper",
        "graph_partition",
        "triton.multi_kernel",
        "triton.cooperative_reductions",
        "triton.num_decompose_k_splits",
        "triton.cudagraphs",
        "triton.persistent_reductions",
        "triton.prefer_nd_tiling",
        "triton.max_tiles",
    ],
}
NAMES: dict[str, dict[str, list[str]]] = dict.fromkeys(SUPPORTED, EVERYWHERE)
"""All of them are the same so far. `BlockMask.as_tuple` is longer in 2.13, and is only ever passed on."""
LEADING_PARAMETERS = {
    ("torch._inductor.runtime.triton_heuristics", "cached_autotune"): [
        "size_hints",
        "configs",
        "triton_meta",
        "heuristic_type",
    ],
    ("torch._inductor.select_algorithm", "AlgorithmSelectorCache.__call__"): ["self", "name", "choices"],
    ("torch._inductor.graph", "GraphLowering._compile_to_module_lines"): ["self", "wrapper_code"],
    ("torch._inductor.runtime.triton_heuristics", "GridExpr.from_meta"): ["inductor_meta", "cfg"],
    ("torch.nn.attention.flex_attention", "BlockMask.from_kv_blocks"): [
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "BLOCK_SIZE",
        "mask_mod",
        "seq_lengths",
        "compute_q_blocks",
    ],
}


def installed() -> str:
    import torch

    version = ".".join(torch.__version__.split(".")[:2])
    if version not in SUPPORTED:
        pytest.fail(f"torch {version} is not in the table: check its sources for the names below, then add it")
    return version


def resolved(module: str, name: str) -> object:
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("module", sorted(EVERYWHERE))
def test_private_names_are_there(module):
    missing = []
    for name in NAMES[installed()][module]:
        try:
            resolved(module, name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize(("module", "name"), sorted(LEADING_PARAMETERS))
def test_what_is_replaced_or_called_takes_what_it_took(module, name):
    parameters = list(inspect.signature(resolved(module, name)).parameters)
    wanted = LEADING_PARAMETERS[module, name]
    assert parameters[: len(wanted)] == wanted


def test_every_private_module_that_is_imported_is_in_the_table():
    used = set()
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                used |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    private = {name for name in used if name.startswith("torch.") and "._" in name}
    listed = {
        *EVERYWHERE,
        *(f"{module}.{name.partition('.')[0]}" for module in EVERYWHERE for name in EVERYWHERE[module]),
    }
    packages = {module.rpartition(".")[0] for module in listed}
    assert private - listed - packages == set()


def test_every_option_that_is_set_is_in_the_table():
    from autotriton.propose.compiler.inductor.lowering import _MEASURED, _OPTIONS
    from autotriton.propose.compiler.inductor.variants import VARIANTS

    options = {*_OPTIONS, *_MEASURED, *(name for variant in VARIANTS for name in variant.options)}
    assert options <= set(EVERYWHERE["torch._inductor.config"])
