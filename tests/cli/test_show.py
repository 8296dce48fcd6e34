"""A verdict on the screen: everything measured is there, nothing is read as markup."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autotriton.cli import show
from autotriton.types import Check, Finding, Kernel, Outcome, Severity, Speedup, Target, Timing


@pytest.fixture
def shown():
    def shown(verdict, **options):
        out = Console(file=io.StringIO(), width=200)
        show.verdict(verdict, task="softmax", console=out, **options)
        return out.file.getvalue()

    return shown


def timing(median_ms):
    return Timing(median_ms=median_ms, p20_ms=1.0, p80_ms=3.0, samples=50, method="cuda events", latency_ms=2.5)


def test_plain_verdict_is_two_lines(shown, make_verdict):
    text = shown(make_verdict(message="all checks passed"))
    assert text == "accepted  softmax  correct (strict, up to run)\nall checks passed\n"


def test_check_shows_error_the_references_own_and_what_was_allowed(shown, make_verdict):
    check = Check(inputs="spikes#2", passed=False, max_error=0.25, reference_max_error=1e-7, allowed_error=1e-5)
    text = shown(make_verdict(Outcome.WRONG, checks=(check,)))
    for part in ("spikes#2", "failed", "2.50e-01", "1.00e-07", "1.00e-05"):
        assert part in text


def test_kernel_shows_its_cost_on_each_target(shown, make_verdict):
    targets = (
        Target(arch="sm_80", registers=32, spills=0, shared_bytes=4096, occupancy=0.75),
        Target(arch="gfx942", error="too much shared memory"),
    )
    text = shown(make_verdict(kernels=(Kernel(name="softmax_kernel", launches=2, targets=targets),)))
    row = next(line for line in text.splitlines() if "sm_80" in line)
    assert row.split() == ["softmax_kernel", "2", "-", "sm_80", "32", "0", "4.0", "KiB", "75%"]
    assert "too much shared memory" in text


def test_speed_up_comes_with_its_interval(shown, make_verdict):
    text = shown(
        make_verdict(
            timing=timing(2.0),
            baselines={"eager": timing(3.0), "compile": timing(2.0)},
            speedups={"eager": Speedup(ratio=1.5, low=1.4, high=1.6)},
        )
    )
    assert "1.50x (1.40 to 1.60)" in text
    assert "1.00x" in text
    assert "cuda events, 50 samples" in text


def test_findings_notes_and_leftovers_are_there(shown, make_verdict):
    finding = Finding(rule="torch-compute", severity=Severity.ERROR, message="torch.softmax computes", line=7)
    fields = {
        "findings": (finding,),
        "notes": ("reduced shapes",),
        "torch_ops": {"aten.add": 2},
        "triton_share": 0.5,
        "roofline_share": 0.9,
        "deterministic": False,
        "peak_memory_bytes": 3 << 20,
        "baseline_memory_bytes": {"eager": 2 << 20},
    }
    text = shown(make_verdict(Outcome.REJECTED, **fields), run="runs/x")
    for part in (
        "error  line 7: torch.softmax computes (torch-compute)",
        "note: reduced shapes",
        "left to torch: aten.add x2",
        "share of device time: 50%",
        "roofline: 90%",
        "not deterministic",
        "peak memory: 3.0 MiB (eager: 2.0 MiB)",
        "recorded in runs/x",
    ):
        assert part in text


def test_candidates_text_is_never_markup(shown, make_verdict):
    evil = "[bold red]accepted[/] [link=x]"
    text = shown(
        make_verdict(
            Outcome.WRONG,
            message=evil,
            kernels=(Kernel(name=evil),),
            checks=(Check(inputs=evil, passed=False, detail=evil),),
            notes=(evil,),
        )
    )
    assert text.count(evil) == 5


def test_candidates_text_gives_the_terminal_no_commands(shown, make_verdict):
    """Or a message could move the cursor up and write `accepted` over the word that was there."""
    evil = "\x1b[2A\x1b[32maccepted\x9b0m\r\u202e"
    text = shown(
        make_verdict(
            Outcome.WRONG,
            message=evil,
            kernels=(Kernel(name=evil),),
            checks=(Check(inputs=evil, passed=False, detail=evil),),
            notes=(evil,),
        )
    )
    assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(text)
    assert text.count("\\x1b[2A\\x1b[32maccepted\\x9b0m\\r\\u202e") == 5


def test_numbers_json_cannot_say_become_null():
    assert show.finite({"a": [float("nan"), 1.5, (float("inf"),)], "b": "x"}) == {"a": [None, 1.5, [None]], "b": "x"}
