"""Where a number came from: GPU, CPU, versions.

Must stay true: describing the machine never touches CUDA in this process (a process that has initialised CUDA cannot be
forked safely), and imports no torch here. The GPU is asked for by a short-lived child; a machine without a GPU device
node pays nothing.
"""

from __future__ import annotations

import functools
import glob
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from autotriton.types import Machine

PACKAGES = ("autotriton", "torch", "triton", "numpy", "pydantic", "transformers", "trl", "peft")
"""Packages whose versions are recorded with a run, where installed."""

LARGE_PACKAGES = ("torch", "triton")
"""Packages that take long to import where Python has to compile them."""

# NVIDIA, AMD, and NVIDIA under WSL.
_DEVICE_NODES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dxg")
_BF16_FLAGS = frozenset(("avx512_bf16", "amx_bf16", "bf16"))
"""On x86 and, the last one, on ARM."""
_PROBE_TIMEOUT_S = 60.0
_PROBE = """
import json, torch
if torch.cuda.is_available():
    p = torch.cuda.get_device_properties(0)
    capability = getattr(p, "gcnArchName", "").split(":")[0] if torch.version.hip else f"{p.major}.{p.minor}"
    print(json.dumps({"gpu": p.name, "compute_capability": capability, "gpu_memory_gib": p.total_memory / 2**30}))
"""


@functools.cache
def describe(*, gpu: bool = True) -> Machine:
    """This machine; `gpu=False` leaves the GPU out and costs no child process."""
    found = _gpu() if gpu else {}
    memory = found.get("gpu_memory_gib")
    return Machine(
        gpu=found.get("gpu"),
        compute_capability=found.get("compute_capability"),
        gpu_memory_gib=None if memory is None else round(float(memory), 1),
        cpu=_cpu(),
        cores=_cores(),
        platform=platform.platform(),
        python=platform.python_version(),
        torch=version("torch"),
        triton=version("triton"),
        driver=_driver(),
    )


def version(package: str) -> str | None:
    """Installed version of a package, without importing it; None when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Versions of `PACKAGES`, those installed."""
    return {name: found for name in PACKAGES if (found := version(name)) is not None}


def uncompiled() -> list[Path]:
    """Folders of installed packages that Python compiles anew in every process: no bytecode lies beside them.

    Containers whose packages were installed without it, and in which PYTHONDONTWRITEBYTECODE is set, are like that.
    Importing torch takes three times as long there, and a judge imports it in many processes.
    """
    found = []
    for name in LARGE_PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            compiled = Path(importlib.util.cache_from_source(spec.origin))
            if not compiled.exists():
                found.append(Path(spec.origin).parent)
    return found


def _gpu() -> dict[str, str]:
    """Device 0 as torch names it, asked in a child process; empty when there is none or torch cannot use it."""
    if version("torch") is None or not any(glob.glob(pattern) for pattern in _DEVICE_NODES):
        return {}
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
        return dict(json.loads(child.stdout.strip().splitlines()[-1])) if child.stdout.strip() else {}
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}  # a broken driver is a machine without a usable GPU; `doctor` says so


def _cpu() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def multiplies_bf16() -> bool:
    """This CPU has instructions for products in bfloat16; others imitate them, slower than fp32."""
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return flags is not None and not _BF16_FLAGS.isdisjoint(flags.group(1).split())


def available_bytes() -> int | None:
    """Memory of the host that can be taken without swapping; None where the system does not say."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _driver() -> str | None:
    match = re.search(r"(?:Kernel Module|Module for \S+)\s+([\d.]+)", _read("/proc/driver/nvidia/version"))
    return match.group(1) if match else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
