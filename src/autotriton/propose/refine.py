"""Best of n over turns: which questions a language model proposer asks next, given what was tried. No state of its own.

A *chain* is a first answer and its refinements, each carrying the verdict on the one before. `propose` is called again
with the longer history; it has nothing more to ask once an attempt is accepted or every chain has had its turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotriton.propose.extract import extract
from autotriton.propose.prompt import Prompts, wanted
from autotriton.propose.settings import Settings
from autotriton.types import Attempt, Candidate, Task, TokenUsage

_SEEDS = 2**31


@dataclass(frozen=True)
class Ask:
    """One question; `seed` differs from that of every other question about the task."""

    prompt: str
    parent_id: str | None
    seed: int | None


@dataclass
class Chain:
    last: Attempt
    length: int = 1


def asks(task: Task, history: Sequence[Attempt], proposer: str, settings: Settings, prompts: Prompts) -> list[Ask]:
    """What to ask now: first answers that are still missing, then one refinement for every chain that failed."""
    own = [attempt for attempt in history if attempt.candidate.proposer == proposer and attempt.task.id == task.id]
    if any(attempt.verdict is not None and attempt.verdict.accepted for attempt in own):
        return []
    known = chains(own)
    missing = max(0, settings.samples - len(known))
    failed = [chain.last for chain in known if chain.length < settings.turns and chain.last.verdict is not None]
    questions: list[tuple[str, str | None]] = [(prompts.rewrite(task), None)] * missing
    questions += [(prompts.refine(task, attempt), attempt.candidate.id) for attempt in failed]
    return [
        Ask(prompt, parent, _seed(settings, len(own) + number)) for number, (prompt, parent) in enumerate(questions)
    ]


def chains(attempts: Iterable[Attempt]) -> list[Chain]:
    """The attempts, in the order they were made, as chains."""
    found: list[Chain] = []
    for attempt in attempts:
        parent = attempt.candidate.parent_id
        # Equal answers have equal ids (two without code, say), so chains with equal ends are continued in turn.
        ends = [chain for chain in found if chain.last.candidate.id == parent]
        if not ends:
            found.append(Chain(attempt))
            continue
        chain = min(ends, key=lambda chain: chain.length)
        chain.last, chain.length = attempt, chain.length + 1
    return found


def candidate(task: Task, proposer: str, ask: Ask, answer: str, usage: TokenUsage | None) -> Candidate:
    """The answer as a candidate; one without code has empty code, which is the judge's to count."""
    # A lone surrogate, which JSON can spell, could neither be hashed nor stored.
    text = answer.encode("utf-8", "replace").decode("utf-8")
    code = extract(text, wanted(task).accepted)
    return Candidate(
        task_id=task.id, code=code, proposer=proposer, parent_id=ask.parent_id, completion=text, usage=usage
    )


def _seed(settings: Settings, number: int) -> int | None:
    return None if settings.seed is None else (settings.seed + number) % _SEEDS
