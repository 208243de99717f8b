"""Gradients at the outputs of heads against finite differences of whole runs."""

import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.derivatives.head_gradients import head_gradients
from identiformer.models.replica import replica_of
from tests.models.families import ENCODER_DECODERS, OUTSIDE_THE_INTERFACE, SERVED, build, word_tokenizer, words
from tests.models.network_state import network_state

SETTINGS = {**SERVED, **ENCODER_DECODERS, **OUTSIDE_THE_INTERFACE}
SINGLE = ("gpt_oss",)
"""Its experts are computed in float32 only."""
STEP = 1e-3
"""Some families compute norms in float32, so that smaller steps are rounded away."""
QUICK = ("bert", "albert", "gpt2", "llama", "mistral", "gemma2", "gpt_oss", "t5", "bart", "bloom")


def states_of(result):
    return result.last_hidden_state


def moved(model, batch, number, change):
    """The last hidden states of a run in which the head outputs of one call are changed."""
    calls = iter(range(100))
    with recording(
        replica := replica_of(model.network), WEIGHTS, lambda call: call.output + change if next(calls) == number else None
    ):
        return states_of(model.forward(replica, batch.inputs))


@pytest.mark.parametrize(
    "family", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SETTINGS if name not in QUICK)]
)
def test_gradients_match_finite_differences(family):
    network = build(family, SETTINGS[family])
    model = idf.load(network if family in SINGLE else network.double(), word_tokenizer())
    pair = words(5, 2) if model.network.config.is_encoder_decoder else None
    batch = model.encode(words(7), pair, False)
    sites, before = model.sites(batch), network_state(model.network)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        unchanged = states_of(model.forward(replica_of(model.network), batch.inputs))
    functional = torch.randn(unchanged.shape, generator=generator, dtype=unchanged.dtype)
    found = {
        kind: iter(head_gradients(model, batch, kind, lambda result: [lambda: (functional * states_of(result)).sum()]).layers)
        for kind in {site.kind for site in sites}
    }
    assert network_state(model.network) == before
    for number, site in enumerate(sites):
        gradient = next(found[site.kind])[0].transpose(0, 1).double()
        direction = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        ends = [
            float((functional * moved(model, batch, number, (sign * STEP * direction).to(unchanged))).sum()) for sign in (1, -1)
        ]
        assert float((gradient * direction).sum()) == pytest.approx((ends[0] - ends[1]) / (2 * STEP), rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_a_fused_kernel_returns_the_same_gradients(family):
    model = idf.load(build(family, SERVED[family]), word_tokenizer())
    batch = model.encode(words(7), None, False)
    eager, fused = (
        head_gradients(model, batch, "self", lambda result: [lambda: states_of(result)[0, -1, :3].sum()], fused=fused)
        for fused in (False, True)
    )
    for one, other in zip(eager.layers, fused.layers, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_several_numbers_share_a_run_and_keep_their_order():
    model = idf.load(build("llama", SERVED["llama"]), word_tokenizer())
    batch = model.encode(words(7), None, False)

    def numbers(result):
        return [lambda index=index: states_of(result)[0, -1, index] for index in range(3)]

    together = head_gradients(model, batch, "self", numbers)
    for index in range(3):
        alone = head_gradients(model, batch, "self", lambda result, index=index: [numbers(result)[index]])
        torch.testing.assert_close(together.layer(1)[index].float(), alone.layer(1)[0], rtol=1e-2, atol=1e-6)


def test_gradients_that_are_not_finite_are_rejected():
    model = idf.load(build("llama", SERVED["llama"]), word_tokenizer())
    batch = model.encode(words(4), None, False)
    with pytest.raises(InputError, match="finite gradients"):
        head_gradients(model, batch, "self", lambda result: [lambda: (states_of(result).sum() * 0).sqrt()])
