"""The same candidates before KernelBench's own evaluator and before this judge, on the same GPU: seconds per candidate.

    python benchmarks/versus_kernelbench.py --root KERNELBENCH_CHECKOUT [--task 19_ReLU ...] [--repeat 3] [--json FILE]

KernelBench: 5 correctness trials and 100 timed ones in one process, as its scripts do. Ours: every tier up to time
with the eager baseline and one repetition, so both time one process. The first of our candidates pays for the task's
admission and reference.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from autotriton.judge import Judge, JudgeOptions
from autotriton.types import Task, Tier

_KERNEL = '''import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def elementwise_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y = {formula}"""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, {expression}, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        elementwise_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096, num_warps=8)
        return y
'''
_EXPRESSIONS = {
    "19_ReLU": ("max(x, 0)", "tl.where(x > 0, x, 0.0)"),
    "21_Sigmoid": ("1 / (1 + exp(-x))", "tl.sigmoid(x)"),
}

# Runs in a process of its own. KernelBench's package imports clients for hosted models that an evaluation never calls.
_THEIRS = """
import json, sys, time, types
for name in ("requests", "dotenv", "litellm", "openai"):
    module = types.ModuleType(name)
    module.load_dotenv = module.completion = module.OpenAI = lambda *a, **k: None
    sys.modules.setdefault(name, module)
sys.path.insert(0, sys.argv[1] + "/src")
import torch
from kernelbench.eval import eval_kernel_against_ref
reference, candidate = open(sys.argv[2]).read(), open(sys.argv[3]).read()
torch.zeros(1, device="cuda")
started = time.perf_counter()
result = eval_kernel_against_ref(
    reference, candidate, num_correct_trials=5, num_perf_trials=100, measure_performance=True, backend="triton",
    precision=torch.float32, device=torch.device("cuda:0"), verbose=False)
print(json.dumps({"seconds": time.perf_counter() - started, "correct": bool(result.correctness), "ms": result.runtime}))
"""


def theirs(root: Path, task: Path, code: str, folder: Path) -> dict[str, object]:
    candidate = folder / f"{task.stem}_candidate.py"
    candidate.write_text(code)
    command = [sys.executable, "-c", _THEIRS, str(root), str(task), str(candidate)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, object] = json.loads(output.strip().splitlines()[-1])
    return found


def ours(task: Path, code: str, repeat: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    described = Task(id=task.stem, source=task.read_text())
    with Judge(JudgeOptions(tier=Tier.TIME, baselines=("eager",), repetitions=1, timing_s=0.5)) as judge:
        judge.judge(described, "import torch\n")  # fork servers up, as in a running service
        for number in range(repeat):
            started = time.perf_counter()
            verdict = judge.judge(described, f"{code}\n# {number}\n")
            rows.append(
                {
                    "seconds": time.perf_counter() - started,
                    "outcome": verdict.outcome,
                    "message": verdict.message,
                    "ms": verdict.timing.median_ms if verdict.timing else None,
                    "stages": verdict.stage_seconds,
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--task", action="append", choices=sorted(_EXPRESSIONS), default=None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    results = {}
    for name in args.task or ["19_ReLU"]:
        task = args.root / "KernelBench" / "level1" / f"{name}.py"
        formula, expression = _EXPRESSIONS[name]
        code = _KERNEL.format(formula=formula, expression=expression)
        mine = ours(task, code, args.repeat)
        other = theirs(args.root, task, code, Path(tempfile.mkdtemp()))
        warm = statistics.median(float(row["seconds"]) for row in mine[1:] or mine)
        results[name] = {"ours": mine, "kernelbench": other, "ratio": float(other["seconds"]) / warm}
        print(
            f"{name}: KernelBench {other['seconds']:.1f} s, ours {mine[0]['seconds']:.1f} s first, {warm:.1f} s then: "
            f"{results[name]['ratio']:.1f} times faster",
            flush=True,
        )
        if args.json:
            args.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
