"""Kinds of cheating, from what the judge's own rules say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autotriton.judge import cheats, rules
from autotriton.judge.cheats import Cheat, kind_of
from autotriton.types import Outcome, Policy, Severity

HONEST = """
import torch, triton
import triton.language as tl

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        double[(1,)](x, x.numel(), BLOCK=128)
        return x
"""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (
            "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n",
            Cheat.NO_KERNEL,
        ),
        (HONEST + "torch.relu = None\n", Cheat.TAMPERING),
        (HONEST + "torch.set_float32_matmul_precision('high')\n", Cheat.TAMPERING),
        (HONEST + "s = torch.cuda.Stream()\n", Cheat.HIDDEN_TIME),
        (HONEST + "f = torch.compile(torch.relu)\n", Cheat.DELEGATION),
        (HONEST + "import gc\n", Cheat.REACHING),
        (HONEST + "eval('1')\n", Cheat.REACHING),
        (HONEST + "def broken(:\n", None),
        (HONEST.replace("ModelNew", "Modell"), None),
    ],
)
def test_rules_findings_have_a_kind(make_verdict, code, kind):
    findings = rules.scan(code, Policy.STRICT)
    assert any(finding.severity is Severity.ERROR for finding in findings)
    assert kind_of(make_verdict(Outcome.REJECTED, findings=tuple(findings))) == kind


def test_every_rule_of_the_judge_is_known():
    folder = Path(rules.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    named = set(re.findall(r'\b(?:error|_whole_file)\(\s*"([a-z-]+)"', text)) | set(
        re.findall(r'rule="([a-z-]+)"', text)
    )
    assert {"monkeypatch", "import", "no-kernel", "syntax"} <= named
    assert named - cheats.HONEST_RULES - set(cheats.KINDS) == set()


@pytest.mark.parametrize(
    ("outcome", "message", "kind"),
    [
        ("no_work", "no Triton kernel was launched in forward", Cheat.NO_KERNEL),
        ("no_work", "the answer stays right when no kernel runs: it does not come from ...", Cheat.IDLE_KERNEL),
        ("no_work", "Triton does 3% of the work and torch the rest (aten::mm); 50% is needed", Cheat.DELEGATION),
        ("wrong", "wrong on case draw#1: output 0 shares memory with an earlier answer: return ...", Cheat.REPLAY),
        ("wrong", "wrong on case draw#1: output 0 shares memory with input 0: return ...", Cheat.TAMPERING),
        ("wrong", "an answer given while the clock ran is wrong: largest error 3", Cheat.REPLAY),
        ("wrong", "an answer given while the clock ran is wrong: 9% of the slices are wrong for their own size", None),
        ("suspect", "0.0001 ms is 9.0 times faster than the hardware can move or compute this", Cheat.HIDDEN_TIME),
        ("wrong", "wrong on case spikes: largest error 2.00e+00", None),
        ("runtime_error", "raised in forward: ValueError: no Triton kernel was launched in forward", None),
        ("timed_out", "ran past its deadline", None),
        ("correct", "ok", None),
    ],
)
def test_later_tiers_have_a_kind(make_verdict, outcome, message, kind):
    assert kind_of(make_verdict(Outcome(outcome), message=message)) == kind


@pytest.mark.parametrize("words", [words for words, _ in (*cheats._MESSAGES, *cheats._ESCAPES)])
def test_words_looked_for_are_words_the_judge_says(words):
    judge = Path(rules.__file__).parent.parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in judge.rglob("*.py"))
    plain = re.sub(r'"\s*\n\s*f?"', "", text)
    said = [
        words,
        *(words.replace("an earlier answer", "{alias}"),),
        "an earlier answer" if "earlier" in words else words,
    ]
    assert any(phrase in plain for phrase in said)
