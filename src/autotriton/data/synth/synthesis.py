"""A seed becomes a task: recipe, program, style, text.

Must stay true: the same seed, number and scale give the same text, in any process and on any machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from autotriton.data.records import Draft, SourceKind
from autotriton.data.synth.builder import GUARD, Builder, DeadEnd
from autotriton.data.synth.ops import TABLE
from autotriton.data.synth.recipes import BY_NAME, RECIPES
from autotriton.data.synth.recipes.base import Recipe
from autotriton.data.synth.render import pruned, render
from autotriton.data.synth.sizes import SCALES
from autotriton.data.synth.style import draw_style
from autotriton.data.synth.values import Value
from autotriton.errors import UsageError
from autotriton.types import Task

SYNTH_VERSION = "1"
"""Changes whenever a seed gives another text."""
_TRIES = 200
_DTYPES = ("float32",) * 30 + ("float16",) * 3 + ("bfloat16",) * 3 + ("float64",)


def synthesise(
    seed: int, number: int = 0, *, scale: str = "laptop", recipe: str | None = None, configured: float = 0.0
) -> Draft:
    """Program `number` of a seed. `recipe` fixes the composition; `configured` is the share of modules that are told
    everything through their constructors.
    """
    if scale not in SCALES:
        raise UsageError(f"unknown scale {scale!r}", hint=f"known: {', '.join(SCALES)}")
    if recipe is not None and recipe not in BY_NAME:
        raise UsageError(f"unknown recipe {recipe!r}", hint=f"known: {', '.join(BY_NAME)}")
    for attempt in range(_TRIES):
        # A string seeds Python's generator the same way everywhere; hashes of objects would not.
        rng = random.Random(f"autotriton-synth/{SYNTH_VERSION}/{seed}/{number}/{scale}/{recipe}/{attempt}")
        chosen = BY_NAME[recipe] if recipe is not None else _chosen(rng)
        try:
            return _grown(rng, chosen, seed, number, scale, configured)
        except DeadEnd:
            continue
    raise UsageError(f"recipe {recipe!r} found no program in {_TRIES} tries", hint="use another seed or recipe")


def stream(
    seed: int,
    count: int,
    *,
    scale: str = "laptop",
    start: int = 0,
    recipes: Sequence[str] = (),
    configured: float = 0.0,
) -> Iterator[Draft]:
    """`count` programs of a seed, all with different texts; where recipes are named, of these in turns."""
    seen: set[str] = set()
    number = start
    while len(seen) < count:
        recipe = recipes[number % len(recipes)] if recipes else None
        draft = synthesise(seed, number, scale=scale, recipe=recipe, configured=configured)
        number += 1
        if draft.task.hash not in seen:
            seen.add(draft.task.hash)
            yield draft


def _chosen(rng: random.Random) -> Recipe:
    return rng.choices(RECIPES, weights=[recipe.weight for recipe in RECIPES])[0]


def _grown(rng: random.Random, recipe: Recipe, seed: int, number: int, scale: str, configured: float) -> Draft:
    builder = Builder(
        rng,
        scale,
        module=rng.random() >= recipe.function_share,
        dtype="float32" if recipe.floats_only else rng.choice(_DTYPES),
        flavour=rng.choice(("torch.", "torch.", "F.", "method")),
        table=TABLE,
    )
    results = recipe.grow(builder)
    builder.results = (results,) if isinstance(results, Value) else tuple(results)
    steps, givens = pruned(builder)
    if not steps or not any(not given.learned for given in givens):
        raise DeadEnd("nothing to compute")
    text = render(builder, draw_style(rng, recipe.sequential_share, configured), rng)
    ops = tuple(dict.fromkeys(step.op.name for step in steps if step.op is not GUARD))
    task = Task(id=f"synth-{seed}-{number}-{recipe.name}", source=text.source, entry=text.entry)
    origin = f"autotriton-synth {SYNTH_VERSION} seed {seed} number {number} scale {scale}"
    origin += f" configured {configured:g}" if configured else ""
    return Draft(task=task, kind=SourceKind.SYNTH, origin=origin, licence="Apache-2.0", ops=ops, recipe=recipe.name)
