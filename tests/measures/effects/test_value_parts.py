"""Parts of values against direct resampling, and on models whose parts are known."""

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import InputError
from identiformer.measures.effects.value_parts import KEPT, parts_of
from identiformer.models.attention.interface import WEIGHTS, recording
from identiformer.texts import Example
from tests.measures.maps.tiny import tiny_subject
from tests.models.families import words

TEXT = words(10)
OTHERS = tuple(Example(words(20, start), None) for start in range(0, 90, 9))


def passage_of(family, task=""):
    return tiny_subject(family, task, TEXT).view(others=OTHERS)


def test_parts_add_up_to_the_values():
    passage = passage_of("bert")
    parts = parts_of(passage, 20)
    for layer in passage.layers:
        for head in layer.every_head(range(4)):
            torch.testing.assert_close(parts.whole(head).sum(0), head.values.float())


def test_in_the_first_layer_a_value_has_no_context():
    parts = idf.value_parts((passage := passage_of("bert")).model, passage, target="hidden", texts=20)
    first = parts.sel(layer=1)
    np.testing.assert_allclose(first.context, 0, atol=1e-5)
    special = parts.key_special.values
    np.testing.assert_allclose(first.constant.values[..., special], 1, atol=1e-5)
    assert float(first.token.values[..., ~special].mean()) > 0.3
    assert float(parts.sel(layer=2).context.mean()) > 0.01


def test_parts_match_direct_resampling():
    """m₀ and m₁ against means over texts that are drawn one by one, with the own token always replaced or always kept."""
    passage = passage_of("bert")
    parts = parts_of(passage, 3000)
    model, batch = passage.model, passage.batch
    own, special = batch.inputs["input_ids"][0], torch.tensor(passage.tokens.special)
    pool = torch.tensor(passage.tokens_of_others)
    generator = torch.Generator().manual_seed(9)
    place, layer = 4, 2
    means = {}
    for kept in (False, True):
        keep = torch.rand(1500, len(own), generator=generator) < KEPT
        keep[:, place] = kept
        starts = torch.randint(len(pool), (1500, 1), generator=generator)
        drawn = pool[(starts + torch.arange(len(own))) % len(pool)]
        ids, values = torch.where(keep | special, own, drawn), []
        with recording(replica := model.replica(), WEIGHTS, lambda call, values=values: values.append(call.value)):
            model.forward(replica, {name: tensor.repeat(1500, 1) for name, tensor in batch.inputs.items()} | {"input_ids": ids})
        means[kept] = values[layer - 1][:, :, place]
    for name, kept in (("replaced", False), ("kept", True)):
        halves = [getattr(half, name)[:, place].double() for half in parts.layers[layer - 1]]
        found, expected = torch.stack(halves).mean(0), means[kept]
        count = 3000 * (KEPT if kept else 1 - KEPT)
        error = expected.std(0) * (1 / 1500 + 1 / count) ** 0.5
        assert ((found - expected.mean(0)).abs() < 5 * error).all()


def test_results_of_a_seed_repeat():
    model = passage_of("llama", "CausalLM").model
    first, second = (idf.value_parts(model, TEXT, target="next", texts=12, seed=3, others=OTHERS) for _ in range(2))
    assert first.identical(second)


def test_bad_input():
    passage = passage_of("bert")
    with pytest.raises(InputError, match="at least 4 resampled texts"):
        idf.value_parts(passage.model, passage, texts=2)
    with pytest.raises(InputError, match="other texts with at least 100 tokens, to draw from, got"):
        idf.value_parts(passage.model, TEXT, others=[words(10)])
