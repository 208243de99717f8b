"""The names that commands accept without importing torch are those of the registries."""

from typing import get_args

import torch

from identiformer import names
from identiformer.equations.identifiability.recovery import Metric
from identiformer.measures.corpus import MEASURES
from identiformer.measures.faithfulness import YARDSTICKS, choose_yardsticks
from identiformer.measures.identifiability.folder import FURTHER
from identiformer.measures.maps import MAPS
from identiformer.measures.maps.output.composed import COMPOSED
from identiformer.models.linear_maps import PLAIN_DTYPES
from identiformer.paper.followups import PAPERS
from identiformer.paper.recipes import choose_recipes
from identiformer.probes.maps import Kind
from identiformer.probes.token_probe import Fit


def test_names_are_those_of_the_registries():
    assert tuple(MEASURES) == names.MEASURES
    assert tuple(name for name, measure in MEASURES.items() if measure.cheap) == names.CHEAP_MEASURES
    assert tuple(MAPS) == names.MAPS
    assert {name for name, kind in MAPS.items() if not kind.explains_output} == set(names.MAPS_OF_LAYERS)
    assert tuple(COMPOSED) == names.COMPOSED
    assert tuple(YARDSTICKS) == names.YARDSTICKS
    assert {name for name, one in YARDSTICKS.items() if one.judges_explanations} == set(names.YARDSTICKS_OF_EXPLANATIONS)
    assert {one.name for one in choose_yardsticks(None)} <= set(names.REMOVAL_INSIDE)
    assert {probe.split()[0] for probe in names.PROBES} == set(get_args(Kind))
    assert {probe.split()[1] for probe in names.PROBES} == set(get_args(Metric))
    assert get_args(Fit) == names.FITS
    assert tuple(FURTHER) == names.FURTHER
    assert {getattr(torch, name) for name in names.DTYPES[1:]} == set(PLAIN_DTYPES)


def test_figures_are_those_of_the_papers():
    figures = {key: [recipe.number for recipe in choose_recipes(None, paper)] for key, paper in PAPERS.items()}
    assert {key: list(numbers) for key, numbers in names.FIGURES.items()} == figures
    whole = {recipe.figure for paper in PAPERS.values() for recipe in choose_recipes(None, paper)}
    assert whole == {number.rstrip("abc") for numbers in names.FIGURES.values() for number in numbers}
