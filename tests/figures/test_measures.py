"""A figure says which measure it draws when it is given the result of another."""

import inspect

import numpy as np
import pytest
import xarray as xr

import identiformer as idf
from identiformer import figures
from identiformer.errors import InputError
from identiformer.results.schema import VARIABLES

DRAWN = [name for name in figures.__all__ if name.startswith("draw_")]
NOT_OF_A_MEASURE = ("draw_over_layers", "draw_tolerance")
ARGUMENTS = {"layer": 1, "head": 0, "query": 0, "target": 0, "colors": None, "tokens": None}


def call(name, result):
    draw = getattr(figures, name)
    needed = [key for key, each in inspect.signature(draw).parameters.items() if each.default is each.empty]
    return draw(result, **{key: ARGUMENTS[key] for key in needed[1:]})


@pytest.mark.parametrize("name", [name for name in DRAWN if name not in NOT_OF_A_MEASURE])
def test_a_figure_rejects_results_of_other_measures(name):
    rejected = []
    for measure in VARIABLES:
        try:
            call(name, xr.Dataset(attrs={"measure": measure}))
        except InputError as error:
            if "with maps" in str(error):  # its own measure, without them
                continue
            assert f"which {name} draws, got one of {measure}." in str(error)  # noqa: PT017
            rejected.append(measure)
        except Exception:  # its own measure, which is empty here
            continue
    assert len(VARIABLES) - 2 <= len(rejected) < len(VARIABLES)
    for other in (xr.Dataset(), None):
        with pytest.raises(InputError, match=r"expected a result of \w+( or \w+)?, which"):
            call(name, other)


def test_the_message(minilm):
    result = idf.effective_attention(minilm.trace("a b"))
    with pytest.raises(
        InputError, match=r"expected a result of ambiguity or certify_head, which draw_intervals draws, got one of eff"
    ):
        figures.draw_intervals(result, 1)


@pytest.mark.parametrize("other", [xr.Dataset(attrs={"measure": "ambiguity"}), xr.Dataset()])
def test_figures_of_other_data_reject_results(other):
    with pytest.raises(InputError, match="which draw_over_layers draws, got a Dataset; pass some of its variables"):
        figures.draw_over_layers(other, "share")
    with pytest.raises(InputError, match=r"which draw_tolerance draws, got (one of ambiguity|a Dataset); make it as"):
        figures.draw_tolerance(other)


def test_a_variable_that_a_result_lacks_is_named():
    with pytest.raises(
        InputError, match="expected a variable of attention_reading as which, got 'raw'; pass one, such as 'weight'"
    ):
        figures.draw_patches(xr.Dataset(attrs={"measure": "attention_reading"}), np.zeros((2, 2, 3), np.uint8), 1, 0, 0)
