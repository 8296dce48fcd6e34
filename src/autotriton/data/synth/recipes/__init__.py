"""Recipes: compositions people really write, with their weights. A recipe grows a program and returns its results."""

from __future__ import annotations

from autotriton.data.synth.recipes import blocks, chains, heavy, layers, networks, small
from autotriton.data.synth.recipes.base import Recipe

RECIPES: tuple[Recipe, ...] = (
    *chains.RECIPES,
    *blocks.RECIPES,
    *small.RECIPES,
    *heavy.RECIPES,
    *layers.RECIPES,
    *networks.RECIPES,
)
BY_NAME: dict[str, Recipe] = {recipe.name: recipe for recipe in RECIPES}
