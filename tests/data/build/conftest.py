"""One small data set, verified twice: once killed in the middle and resumed, once split over two other folders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotriton.configs import load
from autotriton.data.build.building import Machine, build, merge
from autotriton.data.build.config import BuildConfig

CONFIG = """
name = "tiny"
seed = 3

[synth]
count = 10
seed = 21

[select]
decontaminate = false
family_share = 1.0
held_out = 0.15
rl_hard = 0.3

[propose]
forms = 1
prose = 0.5

[verify]
tier = "interpret"
cases = 2
timeout_s = 200

[finish]
pairs = 100
rl = 20
held_out = 10
"""
_PATIENCE_S = 240.0


@dataclass(frozen=True)
class Built:
    config: BuildConfig
    config_file: Path
    resumed: Path
    """Its first process was killed while it verified."""
    split: Path
    """Verified in two other folders."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    root = tmp_path_factory.mktemp("build")
    config_file = root / "tiny.toml"
    config_file.write_text(CONFIG, encoding="utf-8")
    config = load(BuildConfig, config_file)
    _killed(config_file, root / "resumed")
    list(build(config, root / "resumed", machine=Machine(workers=2)))
    # The same tasks and proposals, verified elsewhere.
    judged = shutil.ignore_patterns("judged.jsonl", "dataset", "*.lock")
    shutil.copytree(root / "resumed", root / "split", ignore=judged)
    for which in range(2):
        shutil.copytree(root / "split", root / f"part{which}")
        list(build(config, root / f"part{which}", ("verify",), Machine(workers=2, shard=(which, 2))))
    merge(config, root / "split", [root / "part0", root / "part1"])
    list(build(config, root / "split", ("finish",)))
    return Built(config, config_file, root / "resumed", root / "split")


def _killed(config: Path, folder: Path) -> None:
    """A build that ends by SIGKILL as soon as one answer has a verdict."""
    command = [sys.executable, "-m", "autotriton", "data", "build", str(config), "--folder", str(folder)]
    process = subprocess.Popen([*command, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    judged, deadline = folder / "judged.jsonl", time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if judged.exists() and judged.stat().st_size:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, said.decode()
    assert not (folder / "dataset").exists()
    # As if it had been killed inside a line.
    with judged.open("ab") as file:
        file.write(b'{"task_hash": "unfinish')
