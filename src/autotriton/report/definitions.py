"""What each number of the page means, said once."""

from __future__ import annotations

from html import escape

from autotriton.judge.cheats import MEANINGS

DEFINITIONS = {
    "solved, checked": (
        "Accepted by the judge: equal to the reference against an fp64 oracle on secret inputs, the work done by "
        "Triton kernels. Excluded tasks are left out, by name; every other task counts, answered or not."
    ),
    "solved, as published": "The suite's own Exec test over all its tasks, however weak; compares with published rows.",
    "loads and runs": "The suite's Call or Comp; where a suite has no protocol, candidates that ran to an answer.",
    "fast_p": (
        "Share of all tasks that are solved and more than p times as fast as the baseline. Surely: the lower end of "
        "the speed-up's 99% interval is above p. As published: the ratio of medians is."
    ),
    "mean speed-up": (
        "Geometric mean over all tasks. A failed task counts as run eagerly: 1 against eager, compiled over eager time "
        "against torch.compile, or 1 where that was not timed (the page says how often). The interval is a bootstrap "
        "over tasks."
    ),
    "pass@k": (
        "Chance that one of k samples is accepted, by the unbiased estimator 1 - C(n-c, k) / C(n, k), averaged over "
        "tasks. With several samples every other share is the expectation of one sample."
    ),
    "intervals": "95%, Wilson's for shares.",
    "excluded": (
        "Tasks whose verdicts prove little: random by themselves, or satisfied by zeros, a constant or a copied input."
    ),
    "not scored": "The judge or the proposer broke, not the candidate. Left out of every share, never zero.",
}


def section() -> str:
    kinds = {kind.value.replace("_", " "): f"A kind of cheating: {text}." for kind, text in MEANINGS.items()}
    known = DEFINITIONS | kinds
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in known.items())
    return f'<details class="definitions"><summary>What the numbers mean</summary><dl>{items}</dl></details>'
