"""Contributions against the vectors t_j = v_jH and outputs written out in full."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from identiformer.equations.attention.contributions import contributions, head_contributions, is_sink, layer_contributions
from identiformer.equations.attention.visibility import Visibility

shapes = {
    "groups": st.integers(1, 3),
    "per_group": st.integers(1, 3),
    "queries": st.integers(1, 5),
    "keys": st.integers(1, 7),
    "width": st.integers(1, 4),
    "model": st.sampled_from([None, 2, 9]),  # 2: an output projection that discards directions
    "mask": st.sampled_from(["full", "causal", "window", "sink"]),
    "seed": st.integers(0, 2**32 - 1),
}


def make_heads(groups, per_group, queries, keys, width, model, mask, seed):
    rng = np.random.default_rng(seed)
    heads = groups * per_group
    if mask in ("causal", "window"):
        queries = keys
    weights = np.exp(2 * rng.normal(size=(heads, queries, keys)))
    if mask in ("causal", "window"):
        weights *= Visibility.window(keys, keys if mask == "causal" else 2).dense().numpy()
    weights /= weights.sum(-1, keepdims=True)
    if mask == "sink":
        weights *= rng.uniform(0.1, 1, size=(heads, queries, 1))
    projection = None if model is None else rng.normal(size=(heads, width, model))
    return weights, rng.normal(size=(groups, keys, width)) + 0.5, projection


def written_out(weights, values, projection):
    """t (head key model) and o (head query model)."""
    transformed = np.repeat(values, len(weights) // len(values), 0)
    if projection is not None:
        transformed = transformed @ projection
    return transformed, weights @ transformed


@given(**shapes)
def test_head_contributions_are_projections_on_the_output(**shape):
    weights, values, projection = make_heads(**shape)
    vectors, outputs = written_out(weights, values, projection)
    squared = (outputs**2).sum(-1, keepdims=True)
    found = head_contributions(weights, values, projection)
    expected = np.einsum("hkm,hqm->hqk", vectors, outputs) / squared
    conditioned = squared[..., 0] > 1e-6 * (weights @ np.linalg.norm(vectors, axis=-1)[..., None])[..., 0] ** 2
    np.testing.assert_allclose(found.per_weight[conditioned], expected[conditioned], rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(found.contribution[conditioned].sum(-1), 1, rtol=0, atol=1e-9)
    np.testing.assert_allclose(contributions(weights, values, projection), found.contribution, rtol=1e-12, atol=1e-12)
    lengths = np.linalg.norm(vectors, axis=-1)[:, None]
    np.testing.assert_allclose(found.relative_length[conditioned], (lengths / np.sqrt(squared))[conditioned], rtol=1e-6)
    norms = weights * lengths
    np.testing.assert_allclose(found.norm_share, norms / norms.sum(-1, keepdims=True), atol=1e-9)


@given(**shapes)
def test_layer_contributions_are_projections_on_the_summed_output(**shape):
    weights, values, projection = make_heads(**shape)
    vectors, outputs = written_out(weights, values, projection)
    if projection is None:  # heads side by side
        blocks = np.eye(len(weights) * vectors.shape[-1]).reshape(len(weights), vectors.shape[-1], -1)
        vectors, outputs = vectors @ blocks, outputs @ blocks
    total = outputs.sum(0)
    squared = (total**2).sum(-1)
    expected = np.einsum("hqk,hkm,qm->qk", weights, vectors, total) / squared[:, None]
    found = layer_contributions(weights, values, projection)
    conditioned = squared > 1e-6 * np.einsum("hqk,hk->q", weights, np.linalg.norm(vectors, axis=-1)) ** 2
    np.testing.assert_allclose(found[conditioned], expected[conditioned], rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(found[conditioned].sum(-1), 1, rtol=0, atol=1e-9)


def test_scale_does_not_matter():
    weights, values, projection = make_heads(2, 2, 3, 5, 3, 9, "full", 0)
    for scale in (1e-250, 1e250):
        for function in (contributions, layer_contributions):
            found = function(weights, values * scale, projection * scale)
            np.testing.assert_allclose(found, function(weights, values, projection), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_is_computed_in_float32(dtype):
    weights, values, projection = (torch.tensor(each).to(dtype) for each in make_heads(2, 1, 3, 5, 3, 9, "full", 1))
    expected = contributions(weights.double(), values.double(), projection.double())
    found = contributions(weights, values, projection)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_outputs_that_vanish_have_no_contributions():
    weights = torch.tensor([[[0.5, 0.5], [0.9, 0.1]]])
    values = torch.tensor([[[1.0, 1 / 3], [-1.0, -1 / 3]]])  # they cancel in the first row
    for found in (contributions(weights, values), layer_contributions(weights, values)[None]):
        assert found[0, 0].isnan().all()
        assert float(found[0, 1].sum()) == pytest.approx(1)
    assert head_contributions(weights, torch.zeros(1, 2, 2)).norm_share.isnan().all()


def test_a_sink_has_weight_and_a_short_value():
    weights = torch.tensor([[[0.6, 0.3, 0.1]]])
    cancelling = torch.tensor([[[0.0, 5.0], [1.0, -10.0], [1.0, 0.0]]])  # key 0 is orthogonal to the output, and long
    short = torch.tensor([[[0.0, 0.01], [1.0, 0.0], [1.0, 0.0]]])
    for values, expected in ((short, [True, False, False]), (cancelling, [False, False, False])):
        found = head_contributions(weights, values)
        assert abs(float(found.contribution[0, 0, 0])) < 0.01
        assert is_sink(weights, found.contribution, found.norm_share)[0, 0].tolist() == expected
