"""Limits travel as JSON; the paths a sandboxed process may see hold the runtime and nothing of the user's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import autotriton
from autotriton.judge.sandbox import limits as module
from autotriton.judge.sandbox.limits import Limits, device_paths, proc_paths, runtime_paths


def test_limits_survive_json() -> None:
    limits = Limits(deadline_s=1.5, processes=3, allow_processes=True, readable=("/a", "/b"))
    assert Limits.from_json(json.loads(json.dumps(limits.to_json()))) == limits


def test_unknown_limits_are_refused() -> None:
    with pytest.raises(TypeError):
        Limits.from_json({**Limits().to_json(), "speed": 1})


def test_a_candidate_starts_nothing_and_sees_no_gpu_unless_told() -> None:
    assert not Limits().allow_processes
    assert not Limits().devices


def covered(path: str | Path) -> bool:
    resolved = Path(path).resolve()
    return any(resolved.is_relative_to(Path(entry).resolve()) for entry in runtime_paths())


def test_the_runtime_is_readable() -> None:
    for path in (sys.executable, os.__file__, pytest.__file__, autotriton.__file__):
        assert covered(path), path


def test_home_temporary_folder_and_checkout_are_not_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path.home() / ".ssh", tmp_path, Path(__file__), "/tmp", "/etc/shadow", "/var", "/"):
        assert not covered(path), path


def test_a_folder_packages_were_installed_into_is_readable_and_its_neighbours_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("installed/thing-1.0.dist-info", "checkout/thing.egg-info"):
        (tmp_path / name).mkdir(parents=True)
        monkeypatch.syspath_prepend(str((tmp_path / name).parent))
    assert covered(tmp_path / "installed/thing.py")
    assert not covered(tmp_path / "checkout/thing.py")
    assert not covered(tmp_path / "secret")
    monkeypatch.chdir(tmp_path / "installed")
    assert not covered(tmp_path / "installed/thing.py")


def test_a_compiler_in_the_users_bin_does_not_open_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", "tools/bin"):
        (tmp_path / folder).mkdir(parents=True)
        compiler = tmp_path / folder / "mycc"
        compiler.write_text("#!/bin/sh\n")
        compiler.chmod(0o755)
    monkeypatch.setattr(module, "_HOME", tmp_path.resolve())
    monkeypatch.setenv("CC", str(tmp_path / "bin/mycc"))
    assert str(tmp_path) not in runtime_paths()
    monkeypatch.setenv("CC", str(tmp_path / "tools/bin/mycc"))
    assert str(tmp_path / "tools") in runtime_paths()
    assert str(tmp_path) not in runtime_paths()


def test_the_machines_own_proc_is_opened_only_in_parts() -> None:
    assert proc_paths(alone=True) == ["/proc"]
    parts = proc_paths(alone=False)
    assert "/proc/self" in parts
    assert not {"/proc", "/proc/sys", "/proc/1"} & set(parts)


def test_gpu_devices_are_named_only_where_used() -> None:
    assert device_paths(gpu=False) == ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
    assert "/dev/kfd" in device_paths(gpu=True)
