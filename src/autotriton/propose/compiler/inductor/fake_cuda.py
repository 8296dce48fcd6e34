"""Inductor believes in an H200 here, on a torch build without CUDA. Runs in the capturing child process only.

Nothing is ever launched: the mocks answer questions about the device, and generation stops before compilation.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch._dynamo.device_interface as device_interface
import torch.utils._triton as torch_triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

_CAPABILITY = (9, 0)
_MEMORY = 141 << 30
_SHARED_BYTES = 232_448
_CACHED = ("has_triton", "has_triton_tma_device", "has_triton_stable_tma_api", "triton_backend")
_INTERFACE = [
    "current_device",
    "set_device",
    "device_count",
    "synchronize",
    "get_device_properties",
    "memory_allocated",
    "is_bf16_supported",
    "current_stream",
]

PROPERTIES = types.SimpleNamespace(
    name="NVIDIA H200",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=_MEMORY,
    regs_per_multiprocessor=65_536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    L2_cache_size=50 << 20,
    shared_memory_per_block=49_152,
    shared_memory_per_block_optin=_SHARED_BYTES,
    shared_memory_per_multiprocessor=233_472,
    gcnArchName="",
    is_integrated=False,
    uuid="none",
)


@contextmanager
def fake_cuda() -> Iterator[None]:
    """torch.cuda, Dynamo's device interface and Triton's driver answer as if one H200 were there."""
    with ExitStack() as stack:
        for name, value in _ANSWERS.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value, create=True))
        interface = device_interface.CudaInterface
        for name in _INTERFACE:
            stack.enter_context(mock.patch.object(interface, name, staticmethod(_ANSWERS[name])))
        for name in ("exchange_device", "maybe_exchange_device", "get_raw_stream"):
            stack.enter_context(mock.patch.object(interface, name, staticmethod(lambda index: 0)))
        stack.enter_context(mock.patch.object(interface, "device", _NoDevice))
        known = device_interface.caching_worker_device_properties
        stack.enter_context(mock.patch.dict(known, {"cuda": [PROPERTIES]}))
        stack.enter_context(mock.patch.object(torch.version, "cuda", "12.8"))
        stack.enter_context(mock.patch.object(torch.Tensor, "copy_", _copy_))
        stack.enter_context(mock.patch.object(torch.Tensor, "contiguous", _contiguous))
        stack.enter_context(_driver())
        yield


def allow_fake_cuda_tensors() -> None:
    """A device guard that does nothing, which FakeTensorMode itself uses, where the build has none for CUDA."""
    if hasattr(torch._C, "_ensureCUDADeviceGuardSet"):
        torch._C._ensureCUDADeviceGuardSet()


# These two bindings take a C++ device guard a CPU build lacks; the dispatcher's operators do not.
_real_copy_, _real_contiguous = torch.Tensor.copy_, torch.Tensor.contiguous


def _copy_(tensor: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if tensor.device.type != "cuda":
        return _real_copy_(tensor, source, non_blocking)
    return torch.ops.aten.copy_.default(tensor, source, non_blocking)  # type: ignore[no-any-return]


def _contiguous(tensor: torch.Tensor, memory_format: Any = torch.contiguous_format) -> torch.Tensor:
    if tensor.device.type != "cuda":
        return _real_contiguous(tensor, memory_format=memory_format)
    if tensor.is_contiguous(memory_format=memory_format):
        return tensor
    return torch.ops.aten.clone.default(tensor, memory_format=memory_format)  # type: ignore[no-any-return]


@contextmanager
def _driver() -> Iterator[None]:
    before = driver._active
    driver.set_active(_Driver())
    _forget()
    try:
        yield
    finally:
        driver._active = before
        _forget()


def _forget() -> None:
    """Drop cached answers about what this machine has."""
    for name in _CACHED:
        if hasattr(torch_triton, name):
            getattr(torch_triton, name).cache_clear()


class _NoDevice:
    """Stands for `torch.cuda.device(index)`."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> _NoDevice:
        return self

    def __exit__(self, *_: Any) -> None: ...


class _Driver:
    """Stands for Triton's CUDA driver."""

    class utils:
        @staticmethod
        def get_device_properties(index: int) -> dict[str, int]:
            return {
                "max_shared_mem": _SHARED_BYTES,
                "multiprocessor_count": 132,
                "warpSize": 32,
                "max_num_regs": 65_536,
            }

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_current_stream(self, *_: Any) -> int:
        return 0


_ANSWERS: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "get_device_properties": lambda *_, **__: PROPERTIES,
    "get_device_capability": lambda *_, **__: _CAPABILITY,
    "get_device_name": lambda *_, **__: PROPERTIES.name,
    "is_bf16_supported": lambda *_, **__: True,
    "is_tf32_supported": lambda: True,
    "set_device": lambda *_: None,
    "synchronize": lambda *_: None,
    "device": _NoDevice,
    "_exchange_device": lambda index: 0,
    "_maybe_exchange_device": lambda index: 0,
    "mem_get_info": lambda *_: (_MEMORY, _MEMORY),
    "current_stream": lambda *_: None,
    "memory_allocated": lambda *_: 0,
    "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
    "set_rng_state": lambda *_: None,
    "get_arch_list": lambda: ["sm_90"],
    "_lazy_init": lambda: None,
}
