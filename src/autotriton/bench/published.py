"""Published results on the five channels, in percent, as their authors counted them.

Must stay true: every number names its source. None of these was measured by us; TritonBench's Exec compares what tests
print, which is mostly nothing, and no author but those of `STRICTER` counted cheating as wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

_PAPER = "AutoTriton (arXiv:2507.05687)"
PAPER = f"{_PAPER}, tables 1-2, pass@1"


@dataclass(frozen=True)
class Channel:
    """One of the five, under the name its suite has here."""

    suite: str
    title: str
    call: str
    """What its authors call the share that loads and runs."""
    tasks: int


CHANNELS = (
    Channel("tritonbench-g", "TritonBench G", "Call", 184),
    Channel("tritonbench-t", "TritonBench T", "Call", 166),
    Channel("kernelbench-l1", "KernelBench 1", "Comp", 100),
    Channel("kernelbench-l2", "KernelBench 2", "Comp", 100),
    Channel("kernelbench-l3", "KernelBench 3", "Comp", 50),
)


@dataclass(frozen=True)
class Numbers:
    """Percent of all tasks; None where it was not published."""

    exec: float
    call: float | None = None
    fast1: float | None = None
    fast2: float | None = None


@dataclass(frozen=True)
class Published:
    """One model's row."""

    model: str
    source: str
    numbers: dict[str, Numbers]
    """By suite."""


def _row(model: str, *cells: tuple[float, float, float, float]) -> Published:
    """Cells are (call, exec, fast1, fast2) in the order of CHANNELS."""
    numbers = {
        channel.suite: Numbers(call=call, exec=executed, fast1=fast1, fast2=fast2)
        for channel, (call, executed, fast1, fast2) in zip(CHANNELS, cells, strict=True)
    }
    return Published(model, PAPER, numbers)


ROWS = (
    _row(
        "Seed-Coder-Reasoning 8B",
        (2.72, 2.72, 0.54, 0.0),
        (3.61, 3.61, 1.20, 0.0),
        (48, 10, 4, 2),
        (44, 11, 5, 4),
        (52, 10, 4, 4),
    ),
    _row(
        "GPT-4o", (10.87, 10.33, 4.89, 1.63), (18.67, 15.06, 7.84, 1.20), (91, 15, 3, 1), (83, 5, 3, 0), (74, 8, 4, 2)
    ),
    _row(
        "Claude-4-Sonnet",
        (9.24, 9.24, 1.64, 1.09),
        (10.84, 10.84, 4.22, 1.84),
        (87, 33, 11, 7),
        (92, 26, 10, 1),
        (82, 18, 2, 0),
    ),
    _row(
        "DeepSeek-R1-0528",
        (16.30, 15.22, 3.80, 0.54),
        (30.72, 30.12, 11.45, 4.82),
        (90, 35, 7, 1),
        (90, 42, 28, 2),
        (76, 26, 14, 2),
    ),
    _row(
        "AutoTriton 8B, SFT only",
        (14.67, 14.13, 4.89, 1.09),
        (34.94, 34.94, 15.06, 7.83),
        (65, 29, 10, 4),
        (85, 27, 8, 3),
        (64, 6, 2, 2),
    ),
    _row(
        "AutoTriton 8B",
        (15.76, 15.76, 7.61, 2.17),
        (40.36, 39.16, 17.04, 6.02),
        (83, 36, 10, 6),
        (97, 45, 17, 0),
        (82, 20, 10, 4),
    ),
)

PASS_AT_10 = Published(
    "AutoTriton 8B, pass@10",
    f"{_PAPER}, pass@10",
    {"kernelbench-l1": Numbers(68), "kernelbench-l2": Numbers(88), "kernelbench-l3": Numbers(52)},
)


@dataclass(frozen=True)
class Claim:
    """One published statement that fits no row of the table."""

    model: str
    says: str
    source: str


STRICTER = (
    Claim("AutoTriton 8B", "fast1 4.5 / 30.6 / 7.5% on levels 1 / 2 / 3, H100, cheating being wrong", "Dr. Kernel"),
    Claim("AutoTriton 8B", "pass@10 on level 1 falls from 87 to 57% under a stricter judge", "TritonRL"),
)
"""Re-measurements by others with stricter judges."""

OTHERS = (
    Claim("KernelAgent", "250 of 250 tasks correct, level 1 1.56x over torch.compile (an agent)", "KernelAgent"),
    Claim("Dr. Kernel 14B", "fast1 20 / 49 / 9% on levels 1 / 2 / 3", "Dr. Kernel"),
    Claim("QiMeng", "Exec 100 / 99 / 70% on levels 1 / 2 / 3, 22.8 / 54.8% on G / T (a frontier model)", "QiMeng"),
    Claim("CUDA Agent", "faster than torch.compile on 100 / 100 / 92% of levels 1 / 2 / 3 (CUDA)", "CUDA Agent"),
)
"""The best others on the same suites, each by its own count."""


def channel(suite: str) -> Channel | None:
    """The channel a suite belongs to; None for folders of one's own tasks."""
    return next((known for known in CHANNELS if known.suite == suite), None)


def of_suite(suite: str) -> tuple[Published, ...]:
    """Published rows that have numbers for the suite."""
    return tuple(row for row in (*ROWS, PASS_AT_10) if suite in row.numbers)
