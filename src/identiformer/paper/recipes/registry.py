"""Every figure that can be made, by number."""

from identiformer.errors import InputError
from identiformer.paper.computations.study import Study
from identiformer.paper.recipes.agreement import AGREEMENT_RECIPES
from identiformer.paper.recipes.attention import ATTENTION_RECIPES
from identiformer.paper.recipes.attribution import ATTRIBUTION_RECIPES
from identiformer.paper.recipes.beyond import BEYOND_RECIPES
from identiformer.paper.recipes.identifiability import IDENTIFIABILITY_RECIPES
from identiformer.paper.recipes.neighbors import NEIGHBOUR_RECIPES
from identiformer.paper.recipes.options import OPTION_RECIPES
from identiformer.paper.recipes.pair import PAIR_RECIPES
from identiformer.paper.recipes.passage import PASSAGE_RECIPES
from identiformer.paper.recipes.recipe import Recipe
from identiformer.paper.recipes.steps import STEP_RECIPES
from identiformer.paper.recipes.tags import TAG_RECIPES
from identiformer.paper.recipes.transfer import TRANSFER_RECIPES

_FIGURES = (
    *ATTENTION_RECIPES,
    *PASSAGE_RECIPES,
    *IDENTIFIABILITY_RECIPES,
    *TRANSFER_RECIPES,
    *STEP_RECIPES,
    *NEIGHBOUR_RECIPES,
    *ATTRIBUTION_RECIPES,
    *PAIR_RECIPES,
    *TAG_RECIPES,
)
RECIPES: tuple[Recipe, ...] = (
    *sorted(_FIGURES, key=lambda recipe: (int(recipe.figure), recipe.number)),
    *OPTION_RECIPES,
    *BEYOND_RECIPES,
    *AGREEMENT_RECIPES,
)
"""The figures of the paper in their order, then what its ambiguities come to (O), then what it leaves open (B)."""


def choose_recipes(wanted: list[str] | None) -> list[Recipe]:
    """The recipes of these numbers; 2 stands for 2a and 2b. All without any."""
    if wanted is None:
        return list(RECIPES)
    chosen: list[Recipe] = []
    for number in wanted:
        own = [recipe for recipe in RECIPES if number in (recipe.number, recipe.figure)]
        if not own:
            there = ", ".join(recipe.number for recipe in RECIPES)
            raise InputError(f"expected figures of {there}, got {number!r}.")
        chosen += own
    return [recipe for recipe in RECIPES if recipe in chosen]


def left_out(recipe: Recipe, study: Study) -> str | None:
    """Why a figure cannot be made here, in words; None if it can."""
    if missing := study.data.missing(recipe.needs):
        return f"needs {' and '.join(missing)}, which {study.data.name} lacks"
    if recipe.needs_separator and study.model.tokenizer.sep_token is None:
        return "is about [SEP], which this model's tokenizer does not have"
    if recipe.needs_perceptrons and not study.scale.perceptrons:
        return f"needs MLPs, which the {study.scale.name} scale leaves out"
    if recipe.needs_layer > study.layers:
        return f"is about layer {recipe.needs_layer}, and this model has {study.layers}"
    if recipe.needs_tags and study.why_no_tags is not None:
        return f"needs tags of words: {study.why_no_tags}"
    if recipe.needs_word is not None and recipe.needs_word not in study.pair_tokens:
        return f"is about “{recipe.needs_word}”, which is no token of the pair that is followed"
    return None
