"""The recipe of every figure, one file per topic; `declarations` says how to add one."""

from identiformer.errors import InputError
from identiformer.paper.recipes import (  # noqa: F401  each declares its figures
    attention,
    attribution,
    beyond,
    example_pair,
    identifiability,
    options,
)
from identiformer.paper.recipes.declarations import BRUNNER, Paper, Recipe, declared

RECIPES: tuple[Recipe, ...] = tuple(
    sorted(declared.values(), key=lambda one: ("OB".find(one.number[0]), int(one.figure.lstrip("OB")), one.number))
)
"""The figures of the paper, then the options that it leaves open (O), then what goes beyond it (B)."""


def choose_recipes(numbers: list[str] | None, paper: Paper = BRUNNER) -> list[Recipe]:
    """The recipes of these figures, where 2 means 2a and 2b; all of them by default."""
    recipes = list(RECIPES if paper is BRUNNER else paper.recipes.values())
    if numbers is None:
        return recipes
    known = {name for recipe in recipes for name in (recipe.number, recipe.figure)}
    for number in numbers:
        if number not in known:
            raise InputError(f"expected figures of {', '.join(recipe.number for recipe in recipes)}, got {number!r}.")
    return [recipe for recipe in recipes if recipe.number in numbers or recipe.figure in numbers]
