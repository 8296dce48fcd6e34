"""The records that flow through everything: Task + Candidate + Verdict = one Attempt, one line on disk.

Frozen, unknown fields forbidden, no torch. A value that was not measured is `None`, never -1 or 0.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1


class Record(BaseModel):
    """Base of everything that reaches disk."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Outcome(StrEnum):
    """What became of a candidate. `correct` is the only accepted one."""

    NO_CODE = "no_code"
    REJECTED = "rejected"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    WRONG = "wrong"
    NO_WORK = "no_work"
    SUSPECT = "suspect"
    CORRECT = "correct"


class Policy(StrEnum):
    """How much torch may compute. See docs/judging.md."""

    STRICT = "strict"
    MIXED = "mixed"
    PAPER = "paper"


class Tier(StrEnum):
    """How far a candidate is taken, cheap to expensive; each includes the ones before it."""

    RULES = "rules"
    INTERPRET = "interpret"
    COMPILE = "compile"
    RUN = "run"
    TIME = "time"

    def reaches(self, other: Tier) -> bool:
        order = list(Tier)
        return order.index(self) >= order.index(other)


class Mode(StrEnum):
    """`module.train()` or `module.eval()` before forward."""

    TRAIN = "train"
    EVAL = "eval"


class Task(Record):
    """A PyTorch program to be replaced: a module or function with inputs."""

    id: str
    source: str
    """Python text. Defines `entry`, `get_inputs` and, for modules, `get_init_inputs`."""
    entry: str = "Model"
    """The class or function of `source` that is the reference."""
    mode: Mode = Mode.TRAIN
    tf32: bool = False
    """TF32 matmuls are permitted, for the candidate and for the baseline alike."""
    import_root: str | None = None
    """Folder `source` may import siblings from; readable by the reference process only."""
    instruction: str | None = None
    tags: tuple[str, ...] = ()
    suite: str | None = None
    """Suite and version the task came from, e.g. `kernelbench-l1@<commit>`."""

    @property
    def hash(self) -> str:
        """Identity of everything that influences a verdict."""
        text = "\0".join((self.source, self.entry, self.mode, str(self.tf32), str(self.import_root)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class TokenUsage(Record):
    prompt: int
    completion: int


class Candidate(Record):
    """One proposed program for one task."""

    task_id: str
    code: str
    proposer: str = "user"
    parent_id: str | None = None
    completion: str | None = None
    """The proposer's full answer the code was cut out of."""
    usage: TokenUsage | None = None
    choices: dict[str, tuple[dict[str, int | str | bool], ...]] = Field(default_factory=dict)
    """For each entry of the code's `TILES`, the settings a tuner may try, best guess first."""

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.task_id}\0{self.code}".encode()).hexdigest()[:16]


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Finding(Record):
    """One thing a rule saw in the source."""

    rule: str
    severity: Severity
    message: str
    """What is wrong and what to write instead."""
    line: int | None = None


class Check(Record):
    """One comparison of the candidate with the reference."""

    inputs: str
    """Name of the case: seed and distribution, e.g. `normal#1`."""
    passed: bool
    max_error: float | None = None
    """Largest absolute error against the fp64 oracle."""
    rms_error: float | None = None
    reference_max_error: float | None = None
    """The reference's own error against the same oracle."""
    reference_rms_error: float | None = None
    allowed_error: float | None = None
    detail: str = ""


class Target(Record):
    """What one kernel costs on one architecture, from cross-compilation."""

    arch: str
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    """Resident warps over the architecture's maximum, 0 to 1."""
    error: str | None = None


class Kernel(Record):
    """One Triton kernel the candidate launched."""

    name: str
    launches: int = 0
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    time_share: float | None = None
    """Share of the candidate's device time."""
    targets: tuple[Target, ...] = ()


class Timing(Record):
    """Milliseconds of one call, device time unless `method` says otherwise."""

    median_ms: float
    p20_ms: float
    p80_ms: float
    samples: int
    method: str
    latency_ms: float | None = None
    """Wall time of one call as a caller sees it."""


class Speedup(Record):
    """Baseline time over candidate time, with a bootstrap interval."""

    ratio: float
    low: float
    high: float


class Machine(Record):
    """Where a number came from."""

    gpu: str | None = None
    compute_capability: str | None = None
    gpu_memory_gib: float | None = None
    cpu: str = ""
    cores: int = 0
    platform: str = ""
    python: str = ""
    torch: str | None = None
    triton: str | None = None
    driver: str | None = None


class Verdict(Record):
    """The judge's answer about one candidate. `message` serves the person and the model."""

    outcome: Outcome
    message: str
    policy: Policy
    tier: Tier
    """The last tier that was completed or that failed."""
    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    torch_ops: dict[str, int] = Field(default_factory=dict)
    """Compute ops left to torch, with counts (empty under `strict`)."""
    triton_share: float | None = None
    deterministic: bool | None = None
    timing: Timing | None = None
    baselines: dict[str, Timing] = Field(default_factory=dict)
    speedups: dict[str, Speedup] = Field(default_factory=dict)
    roofline_share: float | None = None
    peak_memory_bytes: int | None = None
    """What one call allocates at its peak, beside inputs and parameters."""
    baseline_memory_bytes: dict[str, int] = Field(default_factory=dict)
    """The same of each baseline that was timed."""
    notes: tuple[str, ...] = ()
    """What a reader must know: degenerate task, reduced shapes, non-determinism."""
    stage_seconds: dict[str, float] = Field(default_factory=dict)
    machine: Machine | None = None
    judge_version: str = ""

    @property
    def accepted(self) -> bool:
        return self.outcome is Outcome.CORRECT

    def speedup(self, baseline: str = "eager") -> float | None:
        """Baseline time over candidate time; None when not measured."""
        if not self.accepted or self.timing is None or baseline not in self.baselines:
            return None
        return self.baselines[baseline].median_ms / self.timing.median_ms

    def to_json(self) -> dict[str, Any]:
        return {"accepted": self.accepted, **self.model_dump(mode="json")}


class Official(Record):
    """What a suite's own protocol says of a candidate: for comparison with published numbers, never for acceptance."""

    called: bool
    """It loads and runs at all: the suites' Call or Comp."""
    executed: bool
    """It passes the suite's own comparison, however weak: the suites' Exec."""
    detail: str = ""


class Attempt(Record):
    """Task + Candidate + Verdict: one line of `attempts.jsonl`."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    task: Task
    candidate: Candidate
    verdict: Verdict | None
    """None when the judge broke; `error` then says how. Unscored is never zero."""
    error: str | None = None
    sample: int = 0
    """Which of a proposer's answers to the task this is; two samples may be the same program."""
    official: Official | None = None
    """None where the task belongs to no suite with a protocol of its own."""
