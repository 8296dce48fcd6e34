"""Benchmark runs that nobody measured, plausible enough to look at, through the real record types. Test data only."""

from __future__ import annotations

import random

from autotriton.bench.records import BenchRun, Suite, SuiteTask
from autotriton.store import RunInfo
from autotriton.types import (
    Attempt,
    Candidate,
    Check,
    Finding,
    Kernel,
    Machine,
    Official,
    Outcome,
    Policy,
    Severity,
    Speedup,
    Target,
    Task,
    Tier,
    Timing,
    Verdict,
)

FAMILIES = ("elementwise", "matmul", "convolution", "normalisation", "reduction", "pooling", "loss", "attention")
HOSTILE = "</script><script>alert(1)</script><!-- \"'`${x}` & \u2028 \u202e naïve 漢字 🙂 ]]> \\u003c"
REFERENCE = '''"""{name}, {number}: made up."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.relu(x * self.weight) + {number}


def get_inputs():
    return [torch.rand(64, 1024)]


def get_init_inputs():
    return [1024]
'''
CODE = '''"""y = relu(x * w) + {number}, one program per row."""
import torch
import triton
import triton.language as tl


@triton.jit
def scale_relu(x_ptr, w_ptr, y_ptr, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, n_cols, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N)
        mask = column < n_cols  # the tail
        x = tl.load(x_ptr + row * n_cols + column, mask=mask)
        w = tl.load(w_ptr + column, mask=mask)
        tl.store(y_ptr + row * n_cols + column, tl.maximum(x * w, 0.0) + {number}.0, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width))

    def forward(self, x):
        y = torch.empty_like(x)
        scale_relu[(x.shape[0],)](x, self.weight, y, x.shape[1], BLOCK_N={block})
        return y
'''
ENDINGS = (
    # outcome, message, findings, official (called, executed), weight
    ("correct", "correct in every case", (), (True, True), 40),
    (
        "wrong",
        "wrong on case spikes: output 0: largest error 3.10e-01 at (3, 17), allowed 2.00e-05",
        (),
        (True, False),
        16,
    ),
    (
        "wrong",
        "wrong on case draw#1: output 0 shares memory with an earlier answer: return a fresh tensor",
        (),
        (True, True),
        2,
    ),
    ("rejected", "line 22: `aten::mm` is left to torch", (("torch-compute", 22),), (True, True), 9),
    ("rejected", "no @triton.jit function in the file", (("no-kernel", None),), (True, True), 4),
    (
        "rejected",
        "line 3: `torch.relu` belongs to a library and may not be changed",
        (("monkeypatch", 3),),
        (True, True),
        2,
    ),
    (
        "no_work",
        "the answer stays right when no kernel runs: it does not come from the Triton kernels",
        (),
        (True, True),
        2,
    ),
    ("suspect", "0.0004 ms is 8.1 times faster than the hardware can move or compute this", (), (True, True), 1),
    ("compile_error", "line 14: CompilationError: at 7:12: unsupported operand types", (), (False, False), 12),
    ("runtime_error", f"line 9: raised in forward: ValueError: {HOSTILE}", (), (False, False), 7),
    ("timed_out", "ran past its deadline: look for an endless loop or a far too large grid", (), (False, False), 2),
    ("no_code", "the candidate holds no code", (), (False, False), 3),
)


def timing(ms: float) -> Timing:
    return Timing(
        median_ms=ms, p20_ms=ms * 0.985, p80_ms=ms * 1.02, samples=60, method="cuda events", latency_ms=ms * 1.1
    )


def made_up(
    suite: str = "kernelbench-l1", tasks: int = 40, k: int = 1, *, proposer: str = "model:made-up-1b", seed: int = 7
) -> BenchRun:
    """A run with every kind of ending, excluded, skipped, unanswered and unscored tasks."""
    dice = random.Random(f"{suite}{proposer}{seed}")
    suite_tasks = tuple(
        SuiteTask(
            id=f"{number}_{dice.choice(('Square', 'Wide', 'Tall', 'Batched', 'Fused'))}_{family.title()}",
            families=(family, "elementwise") if family != "elementwise" else (family,),
            source=REFERENCE.format(name=family, number=number),
        )
        for number, family in ((n, dice.choice(FAMILIES)) for n in range(1, tasks + 1))
    )
    ids = [task.id for task in suite_tasks]
    info = RunInfo(
        id=f"20250101-000000-bench-{seed:02x}{len(proposer):02x}",
        verb="bench",
        config={"proposer": proposer, "k": k, "policy": "strict"},
        commit="0123456789abcdef0123456789abcdef01234567",
        started="2025-01-01T00:00:00+00:00",
        machine=Machine(
            gpu="Made-Up GPU 80", gpu_memory_gib=79.6, cpu="made-up CPU", cores=16, platform="Linux", torch="2.11.0"
        ),
        versions={"autotriton": "0.1.0", "torch": "2.11.0", "triton": "3.6.0"},
        judge_version="9",
    )
    declared = Suite(
        name=suite,
        version="423217dabcdef",
        tasks=suite_tasks,
        skipped={ids[5]: "needs 96.0 GiB, the GPU has 79.6"} if tasks > 8 else {},
        excluded={ids[6]: "random by itself: active dropout"} if tasks > 8 else {},
    )
    attempts = []
    for place, task in enumerate(suite_tasks):
        if task.id in declared.skipped or (tasks > 8 and place == 8):
            continue
        talent = dice.gauss(0, 0.6)
        for sample in range(k):
            broken = tasks > 8 and place == 7 and sample == 0
            attempts.append(_attempt(info.id, task, sample, dice, talent, broken))
    return BenchRun(info, declared, tuple(attempts))


def _attempt(run_id: str, task: SuiteTask, sample: int, dice: random.Random, talent: float, broken: bool) -> Attempt:
    number, block = int(task.id.split("_")[0]), dice.choice((256, 512, 1024))
    code = CODE.format(number=number, block=block) + (f"# {HOSTILE}\n" if dice.random() < 0.1 else "")
    outcome, message, findings, official, _ = dice.choices(ENDINGS, [ending[-1] for ending in ENDINGS])[0]
    return Attempt(
        run_id=run_id,
        task=Task(id=task.id, source=task.source),
        candidate=Candidate(task_id=task.id, code="" if outcome == "no_code" else code, proposer="model"),
        verdict=None if broken else _verdict(outcome, message, findings, dice, talent),
        error="JudgeError: the GPU fell off the bus" if broken else None,
        sample=sample,
        official=Official(called=official[0], executed=official[1]),
    )


def _verdict(outcome: str, message: str, findings: tuple, dice: random.Random, talent: float) -> Verdict:
    cases = ("draw#1", "draw#2", "signs", "wide", "spikes", "ramp", "zeros")
    correct = outcome == "correct"
    measured = {}
    if outcome in ("correct", "wrong"):
        measured["checks"] = tuple(
            Check(
                inputs=case,
                passed=correct or case != "spikes",
                max_error=10 ** dice.uniform(-8, -6) if correct or case != "spikes" else 0.31,
                reference_max_error=10 ** dice.uniform(-8, -6),
                allowed_error=2e-5,
                detail="" if correct or case != "spikes" else "output 0: largest error 3.10e-01 at (3, 17)",
            )
            for case in cases
        )
        targets = tuple(
            Target(
                arch=arch,
                registers=dice.choice((32, 40, 64)),
                spills=0,
                shared_bytes=2048,
                occupancy=dice.choice((0.5, 1.0)),
            )
            for arch in ("sm_80", "sm_90", "sm_100")
        )
        measured["kernels"] = (Kernel(name="scale_relu", launches=1, time_share=1.0, targets=targets),)
    if correct:
        eager_ms, ratio, compiled = (
            10 ** dice.uniform(-2, 1),
            2 ** (talent + dice.gauss(0.3, 0.5)),
            2 ** dice.gauss(0.4, 0.3),
        )
        times = {"eager": eager_ms, "compile": eager_ms / max(compiled, 0.9)}
        ours = eager_ms / ratio
        measured |= {
            "timing": timing(ours),
            "baselines": {name: timing(ms) for name, ms in times.items()},
            "speedups": {
                n: Speedup(ratio=ms / ours, low=ms / ours * 0.97, high=ms / ours * 1.03) for n, ms in times.items()
            },
            "roofline_share": min(0.95, 0.3 * ratio),
            "peak_memory_bytes": 3 << 20,
            "deterministic": True,
        }
    return Verdict(
        outcome=Outcome(outcome),
        message=message,
        policy=Policy.STRICT,
        tier=Tier.TIME if correct else Tier.RULES if outcome in ("rejected", "no_code") else Tier.RUN,
        findings=tuple(
            Finding(rule=rule, severity=Severity.ERROR, message=f"{message} {HOSTILE}", line=line)
            for rule, line in findings
        ),
        **measured,
    )
