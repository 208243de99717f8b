"""Idle attention against runs in which the same weights are removed by hand."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError
from identiformer.measures.effects.idle import idle_set
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.models.replica import replica_of
from tests.measures.maps.tiny import tiny_subject
from tests.models.families import words

TEXT = words(20)


def divergence_without(passage, removed):
    """The divergence of the last prediction if weights are removed in all layers: each layer attends to what it then reads."""
    model, calls = passage.model, iter(range(9))

    def receive(call):
        weights = call.weights.masked_fill(removed[next(calls)][None], 0)
        groups = call.value.repeat_interleave(weights.shape[1] // call.value.shape[1], 1)
        return torch.einsum("bhqk,bhkw->bqhw", weights, groups)

    replica = replica_of(model.network)
    with torch.no_grad():
        before = model.forward(replica, passage.batch.inputs).logits[0, -1].log_softmax(-1)
    with recording(replica, WEIGHTS, receive):
        after = model.forward(replica, passage.batch.inputs).logits[0, -1].log_softmax(-1)
    return float((before.exp() * (before - after)).sum())


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_idle_set_stays_within_the_budget_and_is_nearly_the_largest(family):
    passage = tiny_subject(family, "CausalLM", TEXT)
    result = idf.idle_attention(passage.model, passage, target="next", budget=0.01, maps=True)
    idle, weights = torch.tensor(result.idle.values), torch.stack([layer.weights for layer in passage.layers])
    assert divergence_without(passage, idle) == pytest.approx(float(result.change.sel(order="effect")), rel=1e-3)
    assert float(result.change.sel(order="effect")) <= 0.01
    found = idle_set(passage, "next", budget=0.01)
    level = next(level for level in range(found.found.level + 1, 2**15) if found.levels.mass[level + 2**15] > 0)
    shares = found.levels.mass[: level + 1 + 2**15].sum() / found.levels.mass.sum()
    if shares > 1.02 * float(result.share.sel(order="effect")):
        more = torch.stack([found.levels.removed(level)(number) for number in (1, 2)])
        assert divergence_without(passage, more) > 0.01
    reach = torch.ones_like(weights, dtype=torch.bool)
    reach[-1, :, :-1] = False  # in the last layer, only the last row reaches the target
    reach[:, :, 0] = False  # the first row sees one key
    share = float(weights[idle].sum() / weights[reach & (weights > 0)].sum())
    assert share == pytest.approx(float(result.share.sel(order="effect")), rel=1e-5)


def test_more_is_idle_by_effect_than_by_weight_norm_or_at_random():
    passage = tiny_subject("llama", "CausalLM", words(40))
    orders = ("effect", "weight", "norm", "random")
    result = idf.idle_attention(passage.model, passage, target="next", budget=0.001, orders=orders)
    shares = dict(zip(orders, result.share.values.tolist(), strict=True))
    assert shares["effect"] > 1.5 * max(shares["weight"], shares["norm"], shares["random"])
    assert float(result.change.sel(order="effect")) < float(result.matched_change)
    by_head = (result.share_by_head * result.weight_by_head).sum() / result.weight_by_head.sum()
    assert float(by_head) == pytest.approx(shares["effect"], rel=1e-6)


def test_all_attention_is_idle_for_an_output_that_does_not_depend_on_it():
    passage = tiny_subject("llama", "CausalLM", TEXT)
    with torch.no_grad():
        for block in passage.model.network.model.layers:
            block.self_attn.o_proj.weight.mul_(1e-4)
    passage = passage.read_by(passage.model)
    result = idf.idle_attention(passage.model, passage, target="next", budget=0.01)
    assert float(result.share.sel(order="effect")) > 0.98


@pytest.mark.parametrize("budget", [0.0, -1.0, np.inf, np.nan])
def test_budgets_that_are_not_positive_are_rejected(budget):
    passage = tiny_subject("llama", "CausalLM", TEXT)
    with pytest.raises(InputError, match="expected a positive budget"):
        idf.idle_attention(passage.model, passage, budget=budget)


def test_unknown_orders_are_rejected():
    passage = tiny_subject("llama", "CausalLM", TEXT)
    with pytest.raises(InputError, match="expected an order"):
        idf.idle_attention(passage.model, passage, orders=["size"])
