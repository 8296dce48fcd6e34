"""Describing the machine is cheap, honest about a missing GPU, and imports no torch."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from autotriton import machine


@pytest.fixture(autouse=True)
def fresh():
    machine.describe.cache_clear()
    yield
    machine.describe.cache_clear()


def test_machine_without_device_nodes_has_no_gpu_and_starts_no_child(monkeypatch):
    platform.platform()  # Python itself asks `uname` once per process
    monkeypatch.setattr(machine, "_DEVICE_NODES", ("/nonexistent/*",))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("started a child"))
    assert machine.describe().gpu is None


def test_versions_and_cpu_are_named():
    found = machine.describe(gpu=False)
    assert found.torch
    assert found.cpu
    assert found.cores >= 1
    assert found.python == sys.version.split()[0]


def test_gpu_is_what_the_child_says(monkeypatch, tmp_path):
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(machine, "_DEVICE_NODES", (str(tmp_path / "nvidia*"),))
    probe = """print('noise\\n{"gpu": "H", "compute_capability": "9.0", "gpu_memory_gib": 139.81}')"""
    monkeypatch.setattr(machine, "_PROBE", probe)
    found = machine.describe()
    assert (found.gpu, found.compute_capability, found.gpu_memory_gib) == ("H", "9.0", 139.8)


@pytest.mark.parametrize("probe", ["raise SystemExit(1)", "print('not json')", "pass", "import os; os.abort()"])
def test_broken_driver_is_a_machine_without_gpu(monkeypatch, tmp_path, probe):
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(machine, "_DEVICE_NODES", (str(tmp_path / "nvidia*"),))
    monkeypatch.setattr(machine, "_PROBE", probe)
    assert machine.describe().gpu is None


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 2025",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
    ],
)
def test_driver_version_is_read_from_both_kinds_of_driver(monkeypatch, text):
    monkeypatch.setattr(machine, "_read", lambda path: text if "nvidia" in path else "")
    assert machine.describe(gpu=False).driver == "570.86.15"


@pytest.mark.parametrize(
    ("line", "native"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile", True),
        ("flags\t\t: fpu amx_bf16", True),
        ("Features\t: fp asimd i8mm bf16", True),
        ("flags\t\t: fpu avx512f avx2", False),
        ("", False),
    ],
)
def test_whether_a_cpu_multiplies_bf16_is_read_from_its_flags(monkeypatch, line, native):
    monkeypatch.setattr(machine, "_read", lambda path: f"processor\t: 0\n{line}\n" if "cpuinfo" in path else "")
    assert machine.multiplies_bf16() is native


def test_memory_that_is_available_is_what_the_system_says(monkeypatch):
    monkeypatch.setattr(machine, "_read", lambda _: "MemTotal:  9 kB\nMemAvailable:      2048 kB\n")
    assert machine.available_bytes() == 2 * 2**20
    monkeypatch.setattr(machine, "_read", lambda _: "")
    assert machine.available_bytes() is None


def test_package_that_is_not_installed_has_no_version():
    assert machine.version("no-such-package-at-all") is None
    assert "no-such-package-at-all" not in machine.versions()


def test_describing_imports_no_torch():
    code = "import sys; from autotriton import machine; machine.describe(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_probe_runs_where_torch_is_installed():
    assert subprocess.run([sys.executable, "-c", machine._PROBE], check=False, capture_output=True).returncode == 0
