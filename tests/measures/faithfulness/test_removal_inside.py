"""Yardsticks of removal inside the model, on maps whose score is known."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

import identiformer as idf
from identiformer.measures.faithfulness import YARDSTICKS
from identiformer.measures.faithfulness.removal_inside import REMOVAL_INSIDE, REMOVALS
from identiformer.passage import Passage
from identiformer.texts import Example
from tests.models.families import word_tokenizer, words
from tests.models.perturbed import network_of

CHEAP = [yardstick.name for yardstick in REMOVAL_INSIDE if yardstick.cheap]


@pytest.fixture(scope="module")
def passage(minilm):
    return Passage.of(minilm, Example("The islanders wrote to the minister, and the minister wrote back.", "They agreed."))


@pytest.fixture(scope="module")
def effects(minilm, passage):
    """Each removal in each layer, computed by the modules of BERT from the attention that it returns itself."""
    network = copy.deepcopy(minilm.backbone).double().eval()
    network.set_attn_implementation("eager")
    with torch.no_grad():
        result = network(**passage.batch.inputs, output_attentions=True, output_hidden_states=True)
        layers = [
            _effects_in(layer, hidden[0], weights[0])
            for layer, hidden, weights in zip(network.encoder.layer, result.hidden_states, result.attentions, strict=False)
        ]
    return {name: torch.stack([layer[name] for layer in layers]).numpy() for name in layers[0]}


def _effects_in(layer, hidden, weights):
    """(query key) by the name of the removal and of where its effect is measured."""
    heads, tokens, _ = weights.shape
    values = layer.attention.self.value(hidden).view(tokens, heads, -1).transpose(0, 1)
    projection = layer.attention.output.dense.weight.view(-1, heads, values.shape[-1]).permute(1, 2, 0)
    found = {f"{name}{site}": torch.empty(tokens, tokens).double() for name in REMOVALS for site in ("", "_head")}

    def output(context):
        attended = layer.attention.output(context.transpose(0, 1).reshape(tokens, -1), hidden)
        return layer.output(layer.intermediate(attended), attended)

    unchanged = weights @ values
    for key in range(tokens):
        zeroed, average, without = values.clone(), values.clone(), weights.clone()
        zeroed[:, key], average[:, key], without[..., key] = 0, values.mean(1), 0
        changed = {
            "value_zeroing": weights @ zeroed,
            "value_mean": weights @ average,
            "edge_knockout": without @ values,
            "edge_knockout_renormalized": without / without.sum(-1, keepdim=True) @ values,
        }
        for name, context in changed.items():
            found[name][:, key] = 1 - torch.cosine_similarity(output(context), output(unchanged), dim=-1)
            lengths = [(each @ projection).norm(dim=-1) for each in (context - unchanged, unchanged)]
            found[f"{name}_head"][:, key] = (lengths[0] / lengths[1]).mean(0)
    return found


def counted_keys(name, passage):
    """(query key): BERT sees all; special tokens may be left out, and the token itself."""
    tokens = np.array(passage.tokens.texts)
    counted = np.ones((len(tokens), len(tokens)), bool)
    if name.endswith("_words"):
        counted[:, np.isin(tokens, ["[CLS]", "[SEP]"])] = False
    if name.endswith("_others"):
        np.fill_diagonal(counted, False)
    return counted


def correlations(effects, scores, counted, numbers=np.asarray):
    """Of each layer, the mean over rows of the correlation of what is made of the numbers in a row."""
    pairs = np.stack([effects, scores], 2)  # (layer query pair key)
    rows = [
        [np.corrcoef(*(numbers(each[seen]) for each in pair))[0, 1] for pair, seen in zip(layer, counted, strict=True)]
        for layer in pairs
    ]
    return np.mean(rows, 1)


@pytest.mark.parametrize("name", CHEAP)
def test_scores_are_correlations_with_effects_of_the_unwrapped_network(passage, effects, name):
    yardstick = YARDSTICKS[name]
    truth, known = yardstick.truth(passage), effects[name.removesuffix("_words").removesuffix("_others")]
    np.testing.assert_allclose(truth.size, known, rtol=1e-3, atol=1e-6)
    generator, counted = np.random.default_rng(3), counted_keys(name, passage)
    noisy = known * generator.lognormal(0, 1, known.shape) * generator.choice([1, 1, 1, -1], known.shape)
    for score, expected in (
        (yardstick.score, correlations(known, abs(noisy), counted)),
        (yardstick.other_scores["signed"], correlations(known, noisy, counted)),
        (yardstick.other_scores["spearman"], correlations(known, abs(noisy), counted, rankdata)),
    ):
        assert 0.05 < expected.min() <= expected.max() < 0.95
        np.testing.assert_allclose(score(truth, torch.from_numpy(noisy)), expected, rtol=0, atol=1e-4)
        np.testing.assert_allclose(score(truth, torch.from_numpy(np.where(counted, noisy, 1e3))), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", CHEAP)
def test_noise_scores_nothing(passage, name):
    yardstick = YARDSTICKS[name]
    truth = yardstick.truth(passage)
    noise = torch.rand(truth.size.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for score in (yardstick.score, *yardstick.other_scores.values()):
        assert float(score(truth, noise).mean().abs()) < 0.06


def test_norm_based_attention_is_exact_for_the_output_of_a_single_head():
    model = idf.load(network_of("bert", num_attention_heads=1), word_tokenizer())
    one_head = Passage.of(model, Example(words(7)))
    norms = [
        layer.weights[0].double() * (layer.values[0].double() @ layer.projection[0].double()).norm(dim=-1)
        for layer in one_head.layers
    ]
    score = YARDSTICKS["value_zeroing_head"].score(YARDSTICKS["value_zeroing_head"].truth(one_head), torch.stack(norms))
    torch.testing.assert_close(score, torch.ones_like(score))


def test_zeroing_values_and_renormalizing_weights_are_different_truths(passage):
    """[CLS] is a sink of MiniLM: little changes without its value, much if its weight goes to the other keys."""
    zeroed, renormalized = (YARDSTICKS[name].truth(passage).size for name in ("value_zeroing", "edge_knockout_renormalized"))
    assert float(zeroed[3:, 1:, 0].mean()) < float(zeroed[3:, 1:].mean())
    assert float(renormalized[3:, 1:, 0].mean()) > 3 * float(renormalized[3:, 1:].mean())


def test_causal_rows_count_only_what_they_see():
    causal = Passage.of(idf.load(network_of("llama"), word_tokenizer()), Example(words(6)))
    truth = YARDSTICKS["edge_knockout_renormalized_head"].truth(causal)
    assert not truth.counted.triu(1).any()
    assert not truth.counted[:, 0].any()  # the first token is all of its row
