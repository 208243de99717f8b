"""The pattern of each head of a trace."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.equations.attention.visibility import Visibility
from identiformer.errors import InputError
from identiformer.measures.attention.patterns import separators
from identiformer.tokens import Tokens
from identiformer.trace import AttentionStack, RecordedLayer, Trace

TOKENS = Tokens(("[CLS]", "a", "b", ",", "a", "b"), (1, 5, 6, 3, 5, 6), (True, False, False, False, False, False), (0,) * 6)


def trace_of(weights: torch.Tensor, values: torch.Tensor) -> Trace:
    layer = RecordedLayer(1, Visibility.full(6, 6), False, None, weights, values)
    source = {"model": "planted", "revision": "1", "identiformer_version": "0"}
    return Trace((AttentionStack("self", TOKENS, TOKENS, (layer,)),), source)


def test_one_separator_is_a_sink_and_several_are_separators():
    weights = torch.full((2, 6, 6), 0.02)
    weights[0, :, 0] = 0.9
    weights[1, :, [0, 3]] = 0.46
    result = idf.attention_patterns(trace_of(weights, torch.randn(2, 6, 8)))
    assert result.dominant.values.tolist() == [["peak", "peak"]]
    np.testing.assert_allclose(result.share.sel(pattern="peak").values, [[0.9, 0.46]], atol=1e-6)
    np.testing.assert_allclose(result.share.sel(pattern="separator").values, [[0.02, 0.46]], atol=1e-6)


def test_special_tokens_and_punctuation_are_separators():
    tokens = Tokens(("<s>", "▁.", "Ġ,", "##-", "it's", "▁", "#", "。"), tuple(range(8)), (True,) + (False,) * 7, (0,) * 8)
    assert separators(tokens) == [True, True, True, True, False, False, True, True]


def test_previous_token_head_of_a_real_model(minilm):
    trace = minilm.trace("He said that the pie was his, and the pie was good.")
    result = idf.attention_patterns(trace)
    assert str(result.dominant.sel(layer=1, head=2).values) == "previous"
    weights = trace.layer(1).recorded().weights[2].double().numpy()
    expected = np.mean(np.diagonal(weights, -1))
    assert float(result.share.sel(pattern="previous", layer=1, head=2)) == pytest.approx(expected)
    assert set(np.unique(result.dominant)) > {"previous", "peak", "broad"}


def test_a_long_text_has_no_weights(minilm):
    with pytest.raises(InputError, match="expected recorded weights"):
        idf.attention_patterns(minilm.trace("He said hello.", form="factored"))
