"""The identities of the paper hold on real models: all heads and layers, long, short and repetitive texts."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.equations import effective_attention
from identiformer.equations.attention.heads import per_head
from identiformer.texts import PASSAGE

TEXTS = {
    "long": PASSAGE,
    "shorter than a head is wide": "The baker sails on Tuesdays.",
    "repeated words": "again and again and " * 30,
    "one word": "Yes",
}


def top_singular_values(layer):
    """σ₁ of the visible values of each row, (group query)."""
    if layer.visible.shared:
        return torch.linalg.matrix_norm(layer.values.double(), 2)[:, None].expand(-1, layer.visible.queries)
    outer = layer.values.double()[..., None] * layer.values.double()[..., None, :]
    return torch.linalg.eigvalsh(outer.cumsum(1))[..., -1].sqrt()


def assert_identities(layer):
    raw = layer.weights.double()
    effective = effective_attention(layer.weights, layer.values, layer.visible).double()
    null = raw - effective
    repeat = layer.heads // len(layer.values)
    values = layer.values.double().repeat_interleave(repeat, 0)
    length = raw.norm(dim=-1)
    bound = 1e-4 * length * top_singular_values(layer).repeat_interleave(repeat, 0)
    assert ((null @ values).norm(dim=-1) <= bound).all()
    assert ((effective @ values - raw @ values).norm(dim=-1) <= bound).all()
    assert ((null * effective).sum(-1).abs() <= 1e-6 * length.square()).all()
    assert not effective[:, ~layer.visible.dense()].any()


TAKING_SECONDS = (("smollm2", "long"), ("smollm2", "repeated words"))
CASES = [(name, text) for name in ("minilm", "smollm2") for text in TEXTS]


@pytest.mark.parametrize(
    ("name", "text"),
    [pytest.param(*case, marks=[pytest.mark.slow] if case in TAKING_SECONDS else [], id="-".join(case)) for case in CASES],
)
def test_identities(name, text, request):
    trace = request.getfixturevalue(name).trace(TEXTS[text])
    for layer in trace.stack().layers:
        assert_identities(layer)


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_recorded_weights_are_those_of_the_untouched_model(name, request):
    model = request.getfixturevalue(name)
    before = model.network.config._attn_implementation
    trace = model.trace(PASSAGE)
    assert model.network.config._attn_implementation == before
    model.network.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            inputs = model.tokenizer(PASSAGE, return_tensors="pt")
            expected = model.network(**inputs, output_attentions=True, use_cache=False).attentions
    finally:
        model.network.set_attn_implementation(before)
    for layer, attention in zip(trace.stack().layers, expected, strict=True):
        assert torch.equal(layer.weights, attention[0])


@pytest.mark.parametrize("name", ["minilm", pytest.param("smollm2", marks=pytest.mark.slow)])
def test_a_padded_batch_gives_the_traces_of_single_texts(name, request):
    model = request.getfixturevalue(name)
    texts = [PASSAGE, TEXTS["shorter than a head is wide"]]
    for text, together in zip(texts, model.trace(texts), strict=True):
        for one, other in zip(model.trace(text).stack().layers, together.stack().layers, strict=True):
            torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["minilm", pytest.param("smollm2", marks=pytest.mark.slow)])
def test_the_factored_form_is_the_effective_attention_of_recorded_weights(name, request):
    """Head outputs of a fused kernel determine the effective attention up to rounding."""
    model = request.getfixturevalue(name)
    fused, recorded = model.trace(PASSAGE, form="factored", raw_norms=True), model.trace(PASSAGE)
    for layer, factored in zip(recorded.stack().layers, fused.stack().layers, strict=True):
        expected = effective_attention(layer.weights, layer.values, layer.visible).double()
        factors = factored.effective()
        repeated = per_head(layer.values.double(), factors.heads)
        outputs = layer.weights.double() @ repeated
        # Two kernels round differently, and σ_r says how much of that A⊥ can feel.
        allowed = 50 * factors.output_error(outputs.norm(dim=-1), torch.float32) * factors.squared_norm.sqrt() + 1e-6
        error = (factors.matrices().double() - expected).norm(dim=-1)
        assert (error <= allowed).all()
        top = per_head(top_singular_values(layer), factors.heads)
        difference = (factors.matrices().double() @ repeated - outputs).norm(dim=-1)
        assert (difference <= 1e-4 * layer.weights.double().norm(dim=-1) * top).all()
        torch.testing.assert_close(factored.raw_squared_norm, layer.weights.double().square().sum(-1), atol=1e-5, rtol=1e-4)
        assert torch.equal(factors.rank, layer.effective().rank)


def test_smollm2_layer_1_repeats_its_values(smollm2):
    """Values without positions repeat with their tokens: the rank is the number of distinct tokens so far."""
    trace = smollm2.trace("again and again and " * 30)
    distinct = [len(set(trace.tokens[: row + 1])) for row in range(len(trace.tokens))]
    assert trace.layer(1).effective().rank.max(0).values.tolist() == distinct


def test_causal_rows_have_no_weight_on_the_future(smollm2):
    effective = idf.effective_attention(smollm2.trace(PASSAGE), layers=[1, 15, 30]).effective
    query, key = np.indices(effective.shape[-2:])
    assert not effective.values[..., key > query].any()


@pytest.mark.shared
def test_identities_hold_at_the_rank_threshold(shared):
    """At n = 32 some heads of gte-small are at the rank threshold."""
    model = idf.load(shared / "models" / "gte-small")
    words = (shared / "data" / "wiki" / "wiki.test.raw").read_text().split()
    for count in (22, 40, 120):
        trace = model.trace(" ".join(words[:count]))
        for layer in trace.stack().layers:
            assert_identities(layer)


ENOUGH = 1.25
"""Visible keys per head width: with about as many keys as dimensions the smallest singular values are noise."""


def ranks(name, dtype):
    """The rank and the number of visible keys of every row of every head, and the head width."""
    trace = idf.load(name, dtype=dtype).trace(PASSAGE)
    result = idf.effective_attention(trace, matrices=False)
    assert trace.source["dtype"] == dtype
    return result["rank"], result["rank"] + result["nullity"], trace.layer(1).values.shape[-1]


def check_ranks(name, dtype):
    """Ranks in half precision differ by at most 1 from those in float32, over all rows with enough visible keys."""
    (exact, visible_keys, width), (half, _, _) = ranks(name, "float32"), ranks(name, dtype)
    enough = (visible_keys >= ENOUGH * width).values
    assert enough.any()
    assert abs(half.values - exact.values)[enough].max() <= 1
    assert (exact.values[enough] > width / 2).all(), "the test needs ranks that could differ"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["minilm", pytest.param("smollm2", marks=pytest.mark.slow)])
def test_ranks_in_half_precision_are_those_of_float32(name, dtype):
    check_ranks(name, dtype)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ranks_in_half_precision_of_a_model_of_twelve_layers(shared, dtype):
    check_ranks(str(shared / "models" / "gte-small"), dtype)
