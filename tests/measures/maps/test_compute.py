"""Maps of one text as one Dataset."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError


def test_raw_is_the_mean_over_heads(minilm):
    result = idf.maps(minilm, "He said hello.", kinds=["raw"])
    weights = minilm.trace("He said hello.").layer(2).weights
    np.testing.assert_allclose(result.score.sel(map="raw", layer=2), weights.double().mean(0), atol=1e-12)


@pytest.mark.parametrize("kinds", [[], ["raw", "no such map"]])
def test_unknown_maps_are_rejected(minilm, kinds):
    with pytest.raises(InputError, match=r"expected maps among raw, "):
        idf.maps(minilm, "He said hello.", kinds=kinds)
