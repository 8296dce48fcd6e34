"""A CPU that passes for a GPU, for scripts that write `device="cuda"`: where no GPU is, they run in the interpreter.

A torch-function mode reads every `cuda` as `cpu`, and `torch.cuda` answers like a device with Hopper's properties. No
text is rewritten. This is compatibility, not a wall: what a candidate does to it is its own affair.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_NAME = "Triton's interpreter"
_MOVES = frozenset(("to", "type_as"))


class OnCpu(TorchFunctionMode):
    """Every device named `cuda` is the CPU while it is on."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func == _IS_CUDA:  # a new wrapper every time it is looked up
            return True
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        kwargs.pop("pin_memory", None)
        if getattr(func, "__name__", "") in _MOVES:
            args = tuple(map(on_cpu, args))
        return func(*args, **kwargs)


_IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]


def on_cpu(value: Any) -> Any:
    """`cuda`, `cuda:0`, a device object or a device number as the CPU; anything else as it is."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


def install() -> None:
    """For the rest of this process. Only where nothing uses a GPU."""
    OnCpu().__enter__()  # type: ignore[no-untyped-call]
    for name, answer in _answers().items():
        setattr(torch.cuda, name, answer)
    torch.Generator = _Generator  # type: ignore[misc]
    torch.set_default_device = lambda device: None
    torch.nn.Module.cuda = lambda self, device=None: self  # type: ignore[method-assign]
    torch.tensor([0])  # torch builds a table of overridable functions at the first use of a mode
    _patch_driver()


def _answers() -> dict[str, Any]:
    properties = SimpleNamespace(
        name=_NAME,
        major=9,
        minor=0,
        multi_processor_count=132,
        total_memory=64 << 30,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_multiprocessor=233472,
        shared_memory_per_block_optin=232448,
        L2_cache_size=50 << 20,
    )
    quiet = ("synchronize", "empty_cache", "manual_seed", "manual_seed_all", "reset_peak_memory_stats", "set_device")
    return {
        **{name: _silent() for name in quiet},
        "is_available": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: _NAME,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_properties": lambda *_: properties,
        "max_memory_allocated": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "device": _Nowhere,
        "device_of": _Nowhere,
        "_DeviceGuard": _Nowhere,
        "stream": _Nowhere,
        "current_stream": lambda *_: _Moment(),
        "Stream": _Moment,
        "Event": _Moment,
    }


def _silent() -> Callable[..., None]:
    """Another function every time: torch's compiler refuses one function under two names."""
    return lambda *_, **__: None


class _Generator(torch.Generator):
    """Made on the CPU, whatever it is made for."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        return super().__new__(cls, device=on_cpu(device))  # type: ignore[call-arg]


class _Nowhere(contextlib.nullcontext[None]):
    """A device to be on."""

    def __init__(self, *_: Any) -> None:
        super().__init__()


class _Moment:
    """A stream or an event on a device without time."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_, **__: 0.0


def _patch_driver() -> None:
    """Triton's own questions about the device; without a driver each of them would raise."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    shared = {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32, "max_num_regs": 65536}
    stand_in = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda *_: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_device_capability=lambda *_: (9, 0),
        get_active_torch_device=lambda: torch.device("cpu"),
        get_device_interface=lambda: torch.cuda,
        utils=SimpleNamespace(get_device_properties=lambda *_: shared),
    )
    with contextlib.suppress(AttributeError):
        driver.set_active(stand_in)
