"""Whether the output of a layer determines its attention, in three senses."""

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.mark.parametrize("family", ["bert", "llama", "gpt_oss", "gemma2"])
def test_rank_and_nullity_of_heads_and_layer(family):
    trace = idf.load(build(family, SERVED[family]), word_tokenizer()).trace(words(24))
    found = idf.attention_identifiability(trace, 2)
    layer = trace.layer(2)
    whole = idf.effective_attention(trace, layers=[2])
    np.testing.assert_array_equal(found["rank"], whole["rank"][0])
    np.testing.assert_array_equal(found.heads_nullity, whole.nullity[0].sum("head"))
    assert (found.layer_nullity >= found.heads_nullity).all()
    last = idf.ambiguity(trace, 2, 0, queries=len(trace.tokens) - 1, alternatives=False)
    assert int(found.simplex_nullity[0, -1]) == int(last.dimension[0])
    if layer.sink:
        np.testing.assert_array_equal(found.simplex_nullity, found.nullity)
    assert ("key_constrained_identifiable" in found) == (family != "gemma2")  # a soft cap stands between keys and weights


def test_keys_and_scaling_reproduce_the_weights():
    trace = idf.load(build("llama", SERVED["llama"]), word_tokenizer()).trace(words(24))
    layer = trace.layer(1)
    # log a_i - log a_j = q·(k_i - k_j)·scaling for some q: the log weights of a row lie in the span of its keys and ones.
    row, group = layer.weights[3, -1].double().numpy(), layer.keys[3 * 2 // 4].double().numpy()
    spanned = np.hstack([group * layer.scaling, np.ones((len(group), 1))])
    _, residual, _, _ = np.linalg.lstsq(spanned, np.log(row), rcond=None)
    assert residual[0] < 1e-8
    assert layer.scaling == pytest.approx(8**-0.5)


def test_factored_trace_is_rejected():
    model = idf.load(build("bert", SERVED["bert"]), word_tokenizer())
    with pytest.raises(InputError, match="form='weights'"):
        idf.attention_identifiability(model.trace(words(24), form="factored"), 1)
