"""Two processes train one model, as `accelerate launch` starts them: one run, one journal, one result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autotriton.errors import UsageError
from autotriton.store import Store
from autotriton.train import grpo, processes, sft
from autotriton.train.config import SftConfig, load, plain
from autotriton.train.journal import Journal

CONFIG = """steps = 3
save_every = 2
sequence = 512
packing = false
micro_batch = 2
lora.rank = 0
model.path = "{model}"
data.train = ["{pairs}"]
optim = {{ learning_rate = 1e-2, schedule = "constant", warmup_steps = 0 }}
"""


def launched(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "autotriton"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(processes.__file__).parents[2])}
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=240, env=environment, check=False
    )


@pytest.mark.slow
def test_the_first_process_writes_and_both_stop_together(workshop: Any, tmp_path: Path) -> None:
    path = tmp_path / "sft.toml"
    path.write_text(CONFIG.format(model=workshop.model, pairs=workshop.pairs), encoding="utf-8")
    run = Store(tmp_path / "runs").create("sft", plain(load(SftConfig, path)))
    done = launched("train", "sft", path, "--resume", run.path, "--seconds", "0", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    outcome = json.loads(done.stdout)  # said once
    assert (outcome["steps"], outcome["whole"]) == (1, False)
    assert [row["step"] for row in Journal(run.path).rows()] == [1]
    assert (run.path / "checkpoints" / "checkpoint-1" / "rng_state_1.pth").is_file(), "two processes trained"
    made = {file.name for file in Path(outcome["result"]).iterdir()}
    assert {"model.safetensors", "tokenizer.json", "prompt.md"} <= made


def test_what_needs_one_process_says_so(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    run: Any = None  # not reached
    with pytest.raises(UsageError, match="GRPO through TRL works in one process and 2 were started"):
        grpo.train(workshop.grpo(workshop.model), run)
    with pytest.raises(UsageError, match="solving while training works in one process"):
        sft.train(workshop.sft(solve={"every": 1}), run)
