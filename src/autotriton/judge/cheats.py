"""Which kind of cheating a verdict rejected, read from its findings, outcome and message.

Must stay true: a candidate counts under one kind at most, and an honest mistake (a syntax error, a wrong sum, a crash)
under none. What the judge cannot tell from a mistake is no cheat here: weak numerics stay `wrong`.
"""

from __future__ import annotations

from enum import StrEnum

from autotriton.types import Finding, Outcome, Severity, Verdict


class Cheat(StrEnum):
    """Kinds, in the order the report lists them."""

    DELEGATION = "delegation"
    NO_KERNEL = "no_kernel"
    IDLE_KERNEL = "idle_kernel"
    REPLAY = "replay"
    TAMPERING = "tampering"
    REACHING = "reaching"
    HIDDEN_TIME = "hidden_time"
    OTHER = "other"


MEANINGS = {
    Cheat.DELEGATION: "torch or another compiler does the computing",
    Cheat.NO_KERNEL: "no Triton kernel in the file, or none launched",
    Cheat.IDLE_KERNEL: "a kernel is launched, but the answer does not come from it",
    Cheat.REPLAY: "an answer of an earlier call is given again",
    Cheat.TAMPERING: "inputs, weights, libraries or global settings are changed",
    Cheat.REACHING: "reflection, private names, forbidden imports or code made at run time",
    Cheat.HIDDEN_TIME: "work hidden from the clock, or a time that cannot be",
    Cheat.OTHER: "refused by a rule this version does not know",
}

HONEST_RULES = frozenset({"syntax", "no-entry"})
"""Rules about files that are merely broken."""
_RULES = {
    Cheat.DELEGATION: ("torch-compute",),
    Cheat.NO_KERNEL: ("no-kernel", "no-reachable-kernel"),
    Cheat.TAMPERING: ("monkeypatch", "shadowed-name", "environment"),
    Cheat.HIDDEN_TIME: ("async", "special-method"),
    Cheat.REACHING: (
        "reflection",
        "private",
        "escape",
        "dynamic-code",
        "dynamic-class",
        "class-keyword",
        "class-as-value",
        "module-as-value",
        "type-as-value",
        "base-class",
        "decorator-text",
        "import",
        "kernel-internals",
    ),
}
KINDS = {rule: kind for kind, rules in _RULES.items() for rule in rules}
_ESCAPES = (
    ("compiles or delegates outside Triton", Cheat.DELEGATION),
    ("off the measured stream", Cheat.HIDDEN_TIME),
    ("changes how memory is allocated", Cheat.TAMPERING),
    ("changes global", Cheat.TAMPERING),
)
"""The `escape` rule says in its message what the name is good for."""
_MESSAGES = (
    ("no Triton kernel was launched", Cheat.NO_KERNEL),
    ("the answer stays right when no kernel runs", Cheat.IDLE_KERNEL),
    ("of the work and torch the rest", Cheat.DELEGATION),
    ("torch casts", Cheat.DELEGATION),
    ("and torch makes it here", Cheat.DELEGATION),
    ("shares memory with an earlier answer", Cheat.REPLAY),
    ("shares memory with", Cheat.TAMPERING),
    ("an answer given while the clock ran is wrong", Cheat.REPLAY),
    ("an input was modified", Cheat.TAMPERING),
)
"""What the later tiers say, the first match counts."""
_NUMERICS = "of the slices are wrong for their own size"
"""Right as a whole: no answer to something else, whenever it was given."""
_DECIDED = (Outcome.REJECTED, Outcome.NO_WORK, Outcome.WRONG, Outcome.SUSPECT)
"""Outcomes whose message is the judge's own; that of an exception may be anything the candidate likes to say."""


def kind_of(verdict: Verdict) -> Cheat | None:
    """The kind a verdict rejected, by its first error; None for accepted candidates and honest failures."""
    if verdict.outcome not in _DECIDED:
        return None
    errors = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
    if verdict.outcome is Outcome.REJECTED and errors:
        kinds = [kind for finding in errors if (kind := _of_finding(finding)) is not None]
        return kinds[0] if kinds else None
    for words, kind in () if _NUMERICS in verdict.message else _MESSAGES:
        if words in verdict.message:
            return kind
    if verdict.outcome is Outcome.SUSPECT:
        return Cheat.HIDDEN_TIME
    return Cheat.OTHER if verdict.outcome is Outcome.NO_WORK else None


def _of_finding(finding: Finding) -> Cheat | None:
    if finding.rule in HONEST_RULES:
        return None
    if finding.rule == "escape":
        return next((kind for words, kind in _ESCAPES if words in finding.message), Cheat.REACHING)
    return KINDS.get(finding.rule, Cheat.OTHER)
