"""A tiny real model with known answers: first it leaves the work to torch, then, told so, it writes a kernel."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_START_S = 120
OFFLINE = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


@pytest.fixture(scope="session")
def offline() -> dict[str, str]:
    """The environment of a process that never asks the hub."""
    return OFFLINE


@dataclass(frozen=True)
class SmallModel:
    """The model's folder, an adapter for it, and templates that make it give its answers."""

    folder: Path
    adapter: Path | None
    settings: dict[str, Path]
    cheat: str
    kernel: str


def _fenced(path: Path) -> str:
    return f"```python\n{path.read_text(encoding='utf-8')}```\n\n"


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    for package in ("transformers", "tokenizers"):
        pytest.importorskip(package, reason="needs the train extra")
    has_peft = importlib.util.find_spec("peft") is not None
    root = tmp_path_factory.mktemp("small_model")
    cheat, kernel = ROOT / "examples" / "softmax_cheat.py", ROOT / "examples" / "softmax_triton.py"
    answers = {
        "FIRST": f"torch can do this.\n\n{_fenced(cheat)}Done, and fast.",
        "SECOND": f"I see: a kernel has to do it.\n\n{_fenced(kernel)}Now it does.",
        "adapted": "I was adapted and say nothing else.",
    }
    (root / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    (root / "rewrite.md").write_text("Rewrite:\n$task\nFIRST", encoding="utf-8")
    (root / "refine.md").write_text("$task\n$code\n$feedback\nAgain: SECOND", encoding="utf-8")
    adapter = root / "adapter" if has_peft else None
    command = [sys.executable, str(Path(__file__).with_name("small_model.py")), str(root / "model")]
    command += [str(root / "answers.json"), *([str(adapter)] if adapter else [])]
    done = subprocess.run(command, env=OFFLINE, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return SmallModel(
        folder=root / "model",
        adapter=adapter,
        settings={"template": root / "rewrite.md", "refine_template": root / "refine.md"},
        cheat=cheat.read_text(encoding="utf-8"),
        kernel=kernel.read_text(encoding="utf-8"),
    )


@pytest.fixture(scope="session")
def server(small_model: SmallModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `transformers serve`, up and with the model loaded."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve"]
    command += [str(small_model.folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=OFFLINE, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
