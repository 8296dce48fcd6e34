"""A whole answer: why, then the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from autotriton.data.pairs.facts import facts
from autotriton.data.pairs.prepare import prepared
from autotriton.data.pairs.reasoning import explain
from autotriton.data.pairs.restyle import Settings, restyled
from autotriton.propose.prompt import fenced
from autotriton.types import Candidate


@dataclass(frozen=True)
class Form:
    """One form of a program with what is said about it."""

    code: str
    reasoning: str

    @property
    def completion(self) -> str:
        return f"{self.reasoning}\n\n{fenced(self.code)}"


def forms(candidate: Candidate, count: int, seed: str, function: str | None = None) -> list[Form]:
    """Different forms of a candidate, the one it was proposed in first. The same for the same seed.

    `function`: what a plain function was asked to be called.
    """
    draw = Random(f"{seed}:{candidate.id}")
    original = prepared(candidate.code, function)
    made = [_form(original, original, draw)]
    choices: Mapping[str, Sequence[Settings]] = candidate.choices
    for _ in range(4 * count):
        if len(made) >= count:
            break
        code = restyled(original, choices, draw, function)
        if code not in {form.code for form in made}:
            made.append(_form(code, original, draw))
    return made


def _form(code: str, original: str, draw: Random) -> Form:
    """What kernels say of themselves comes from the original's docstrings: a form may have dropped them."""
    about, before = facts(code), facts(original)
    said = {new.name: (old.formula, old.remark) for new, old in zip(about.kernels, before.kernels, strict=True)}
    return Form(code, explain(about, said, draw))
