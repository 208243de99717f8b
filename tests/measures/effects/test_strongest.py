"""The weights that matter most against effects, bounds and parts computed one by one."""

import numpy as np
import pytest

import identiformer as idf
from tests.measures.maps.tiny import tiny_subject
from tests.models.families import words

TEXT, OTHERS = words(14), tuple(idf.Example(words(20, start)) for start in range(0, 90, 9))


@pytest.fixture(scope="module")
def passage():
    return tiny_subject("llama", "CausalLM", TEXT).view(others=OTHERS)


@pytest.fixture(scope="module")
def strongest(passage):
    return idf.strongest_weights(passage.model, passage, target="next", count=12, texts=20)


def test_every_number_is_that_of_its_own_measure(passage, strongest):
    effects = idf.weight_effects(passage.model, passage, target="next", largest=12, calibrate=False)
    parts = idf.value_parts(passage.model, passage, target="next", texts=20)
    assert (strongest.effect.values.__abs__()[:-1] >= strongest.effect.values.__abs__()[1:]).all()
    for place in range(12):
        at = {axis: int(strongest[axis][place]) for axis in ("layer", "head", "query", "key")}
        one = effects.sel(at)
        assert float(strongest.effect[place]) == float(one.exact)
        assert float(strongest.first_order[place]) == pytest.approx(float(one.effect))
        assert float(strongest.raw[place]) == float(one.weight)
        bounds = idf.ambiguity(passage.trace, at["layer"], at["head"], queries=at["query"], keys=at["key"], alternatives=False)
        assert [float(strongest[end][place]) for end in ("low", "high")] == pytest.approx(
            [float(bounds[end].sel(query=at["query"], key=at["key"])) for end in ("low", "high")]
        )
        assert [float(strongest[part][place]) for part in ("constant", "token", "context", "part")] == pytest.approx(
            [float(parts.sel(at)[part]) for part in ("constant", "token", "context", "part")]
        )


def test_effects_of_heads_are_sums_over_weights(passage, strongest):
    sizes = np.abs(idf.weight_effects(passage.model, passage, target="next", largest=0, calibrate=False).effect)
    expected = sizes.sum(("query", "key"))
    np.testing.assert_allclose(strongest.head_effect.values, (expected / expected.sum()).values, rtol=1e-6)
