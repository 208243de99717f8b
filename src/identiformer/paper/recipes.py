"""Every figure that can be made, by number."""

from identiformer.errors import InputError
from identiformer.paper.attention_recipes import ATTENTION_RECIPES
from identiformer.paper.attribution_recipes import ATTRIBUTION_RECIPES
from identiformer.paper.identifiability_recipes import IDENTIFIABILITY_RECIPES
from identiformer.paper.recipe import Recipe
from identiformer.paper.study import Study

RECIPES: tuple[Recipe, ...] = tuple(
    sorted(
        (*ATTENTION_RECIPES, *IDENTIFIABILITY_RECIPES, *ATTRIBUTION_RECIPES), key=lambda recipe: (recipe.figure, recipe.number)
    )
)


def choose_recipes(wanted: list[str] | None) -> list[Recipe]:
    """The recipes of these numbers; 2 stands for 2a and 2b. All without any."""
    if wanted is None:
        return list(RECIPES)
    chosen: list[Recipe] = []
    for number in wanted:
        own = [recipe for recipe in RECIPES if number in (recipe.number, str(recipe.figure))]
        if not own:
            there = ", ".join(recipe.number for recipe in RECIPES)
            raise InputError(f"expected figures of {there}, got {number!r}.")
        chosen += own
    return [recipe for recipe in RECIPES if recipe in chosen]


def left_out(recipe: Recipe, study: Study) -> str | None:
    """Why a figure cannot be made here, in words; None if it can."""
    if missing := study.data.missing(recipe.needs):
        return f"needs {' and '.join(missing)}, which {study.data.folder} lacks"
    if recipe.needs_separator and study.model.tokenizer.sep_token is None:
        return "is about [SEP], which this model's tokenizer does not have"
    if recipe.needs_perceptrons and not study.scale.perceptrons:
        return f"needs MLPs, which the {study.scale.name} scale leaves out"
    if recipe.needs_layer > study.layers:
        return f"is about layer {recipe.needs_layer}, and this model has {study.layers}"
    if recipe.needs_tags and study.why_no_tags is not None:
        return f"needs tags of words: {study.why_no_tags}"
    return None
