"""The recipe of every figure, one file per topic; `declarations` says how to add one."""

from identiformer.errors import InputError
from identiformer.paper.recipes import (  # noqa: F401  each declares its figures
    attention,
    attribution,
    beyond,
    example_pair,
    identifiability,
    options,
    tags,
    transfer,
)
from identiformer.paper.recipes.declarations import Recipe, declared


def _order(recipe: Recipe) -> tuple[int, int, str]:
    return "OB".find(recipe.number[0]), int(recipe.figure.lstrip("OB")), recipe.number


RECIPES: tuple[Recipe, ...] = tuple(sorted(declared.values(), key=_order))
"""The figures of the paper, then the options that it leaves open (O), then what goes beyond it (B)."""


def choose_recipes(numbers: list[str] | None) -> list[Recipe]:
    """The recipes of these figures, where 2 means 2a and 2b; all of them by default."""
    if numbers is None:
        return list(RECIPES)
    known = {name for recipe in RECIPES for name in (recipe.number, recipe.figure)}
    for number in numbers:
        if number not in known:
            raise InputError(f"expected figures of {', '.join(recipe.number for recipe in RECIPES)}, got {number!r}.")
    return [recipe for recipe in RECIPES if recipe.number in numbers or recipe.figure in numbers]
