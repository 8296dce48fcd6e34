"""What KernelBench's own protocol says of a candidate, concluded from the judge's verdicts.

`called`: the program loads, constructs and runs. `executed`: on plain draws of `get_inputs` its values agree with the
reference's, whoever computed them, as long as the file has a `@triton.jit`: the judge's `paper` policy.

Differences from KernelBench's script, each of them documented in docs/benchmarks.md:
- It compares by `allclose` with an absolute and relative tolerance of 1e-2 (as the paper's version does) or 1e-4 (as
  later ones do). Here values pass that pass the judge, or that are off by at most 1e-2: the relative part is not known.
- Weights are drawn, not as initialised, and inputs come from a secret seed.
- A program that the rules refuse even under `paper` is never run, and counts as one that does not run; so does one
  whose kernels access memory outside their tensors.
"""

from __future__ import annotations

from autotriton.types import Check, Official, Outcome, Tier, Verdict

TOLERANCE = 1e-2
"""Of the version the published numbers were made with."""
_RUNS = (Outcome.CORRECT, Outcome.SUSPECT, Outcome.WRONG)
_DRAW = "draw"
"""How the names of cases begin that are drawn as the suite draws them."""


def undecided(verdict: Verdict) -> bool:
    """A refusal for how the work is done says nothing about what KernelBench would have found."""
    return verdict.outcome in (Outcome.REJECTED, Outcome.NO_WORK)


def official(verdict: Verdict) -> Official | None:
    """From a verdict that is decided, or from the one under `paper`; None where nothing was run."""
    if verdict.tier is Tier.RULES and verdict.accepted:
        return None
    if verdict.outcome is Outcome.WRONG:
        return _wrong(verdict)
    runs = verdict.outcome in _RUNS
    return Official(called=runs, executed=runs, detail="" if runs else _line(verdict.message))


def _wrong(verdict: Verdict) -> Official:
    failed = next((check for check in verdict.checks if not check.passed), None)
    if failed is None:
        return Official(called=True, executed=False, detail=_line(verdict.message))
    if not failed.inputs.startswith(_DRAW):
        text = f"right on inputs as the suite draws them, wrong on case {failed.inputs}"
        return Official(called=True, executed=True, detail=text)
    if _tolerated(failed):
        text = f"off by {failed.max_error:.1e}, within the suite's {TOLERANCE:g}"
        return Official(called=True, executed=True, detail=text)
    return Official(called=True, executed=False, detail=_line(verdict.message))


def _tolerated(check: Check) -> bool:
    """Errors are against the exact answer; the suite compares with the reference, whose own error may add to it."""
    return check.max_error is not None and check.max_error + (check.reference_max_error or 0.0) <= TOLERANCE


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
