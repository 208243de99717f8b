"""Maps of each layer against their definitions, by loops over heads and pairs, from what the model's own modules compute."""

from typing import Any

import numpy as np
import pytest
import torch

import identiformer as idf
from identiformer.errors import UnsupportedModelError
from identiformer.models import load
from identiformer.support.tiny_models import tiny_model
from tests.models.families import SERVED, build, word_tokenizer, words

TEXT = words(9)


class Definition:
    """What a map needs, in float64 and by hooks: one instance per model."""

    def __init__(self, family: str) -> None:
        self.network = tiny_model(family).double()
        self.model = load(self.network, word_tokenizer())
        self.family = family
        self.blocks = {"bert": lambda n: n.encoder.layer, "llama": lambda n: n.layers, "gpt2": lambda n: n.h}[family](
            self.network
        )
        self.states: dict[Any, tuple[Any, Any]] = {}
        for module in self.network.modules():
            module.register_forward_hook(self._keep)
        inputs = word_tokenizer()(TEXT, return_tensors="pt")
        self.special = [token in (2, 3) for token in inputs["input_ids"][0].tolist()]
        with torch.no_grad():
            self.network.set_attn_implementation("eager")
            output = self.network(**inputs, output_attentions=True)
        self.weights = [weights[0] for weights in output.attentions]
        for module in self.network.modules():
            module._forward_hooks.clear()
        layers = range(len(self.weights))
        self.values, self.projections = [*map(self._value, layers)], [*map(self._projection, layers)]

    def _keep(self, module: Any, given: Any, result: Any) -> None:
        if given and isinstance(given[0], torch.Tensor) and given[0].ndim == 3:
            result = result[0] if isinstance(result, tuple) else result
            if isinstance(result, torch.Tensor):
                self.states[module] = given[0][0], result[0]

    def _value(self, layer: int) -> torch.Tensor:
        """(head key width), repeated for grouped heads."""
        block, heads = self.blocks[layer], len(self.weights[0])
        if self.family == "gpt2":
            flat = self.states[block.attn.c_attn][1].chunk(3, -1)[2]
        else:
            flat = self.states[block.attention.self.value if self.family == "bert" else block.self_attn.v_proj][1]
        groups = self.network.config.num_key_value_heads if self.family == "llama" else heads
        return torch.stack([flat.unflatten(-1, (groups, -1))[:, head // (heads // groups)] for head in range(heads)])

    def _projection(self, layer: int) -> torch.Tensor:
        """(head width model)."""
        block = self.blocks[layer]
        if self.family == "gpt2":
            weight = block.attn.c_proj.weight
        else:
            weight = (block.attention.output.dense if self.family == "bert" else block.self_attn.o_proj).weight.mT
        return weight.detach().unflatten(0, (len(self.weights[0]), -1))

    def written(self, layer: int, query: int, key: int, residual: bool = False) -> torch.Tensor:
        """Σ_h avH, and the residual vector if the query is the key."""
        value, projection, weights = self.values[layer], self.projections[layer], self.weights[layer]
        total = torch.zeros(projection.shape[-1], dtype=torch.float64)
        for head in range(len(weights)):
            total = total + weights[head, query, key] * (value[head, key] @ projection[head])
        return total + self.states[self.blocks[layer]][0][query] if residual and query == key else total

    def normed(self, part: torch.Tensor, norm: Any, query: int) -> torch.Tensor:
        """The linear part of a LayerNorm, with the statistics of its real input at a query."""
        given = self.states[norm][0][query]
        return norm.weight.detach() * (part - part.mean()) / torch.sqrt(given.var(correction=0) + norm.eps)

    def after_attention(self, layer: int, query: int, key: int) -> torch.Tensor:
        part = self.written(layer, query, key, residual=True)
        return self.normed(part, self.blocks[layer].attention.output.LayerNorm, query) if self.family == "bert" else part

    def after_block(self, layer: int, query: int, key: int) -> torch.Tensor:
        part = self.after_attention(layer, query, key)
        return self.normed(part, self.blocks[layer].output.LayerNorm, query) if self.family == "bert" else part

    def output(self, layer: int) -> torch.Tensor:
        """Of the attention sublayer, with its residual connection and the norm that follows."""
        block = self.blocks[layer]
        if self.family == "bert":
            return self.states[block.attention.output.LayerNorm][1]
        return self.states[block.post_attention_layernorm if self.family == "llama" else block.ln_2][0]


@pytest.fixture(scope="module", params=["bert", "llama", "gpt2"])
def definition(request):
    return Definition(request.param)


def per_pair(definition, score):
    """(layer query key) from a function of layer, query and key."""
    layers, tokens = len(definition.weights), definition.weights[0].shape[-1]
    pairs = range(tokens)
    return np.array([[[float(score(layer, query, key)) for key in pairs] for query in pairs] for layer in range(layers)])


def shares(scores):
    sums = scores.sum(-1, keepdims=True)
    return np.divide(scores, sums, out=np.zeros_like(scores), where=sums != 0)


def mean_over_heads(definition, score):
    heads = range(len(definition.weights[0]))
    return per_pair(definition, lambda *pair: np.mean([float(score(*pair, head)) for head in heads]))


def raw(definition):
    return mean_over_heads(definition, lambda layer, query, key, head: definition.weights[layer][head, query, key])


def alti(definition):
    def nearer(layer, query, key):
        output = definition.output(layer)[query]
        return max(0, output.abs().sum() - (output - definition.after_attention(layer, query, key)).abs().sum())

    return shares(per_pair(definition, nearer))


def contribution(definition):
    def share(layer, query, key):
        total = sum(definition.written(layer, query, other) for other in range(len(definition.special)))
        return definition.written(layer, query, key) @ total / (total @ total)

    return per_pair(definition, share)


def projected(definition, with_ones=False):
    """The projection of each row on the columns of V, or [V, 1], of the keys that it sees, by NumPy's pseudoinverse."""
    maps = []
    for layer, weights in enumerate(definition.weights):
        value, maps_of_heads = definition.values[layer], []
        for head, matrix in enumerate(weights):
            rows = np.zeros(matrix.shape)
            for query, row in enumerate(matrix):
                seen = slice(0, query + 1 if definition.family != "bert" else None)
                columns = value[head][seen].numpy()
                columns = np.hstack([columns, np.ones((len(columns), 1))]) if with_ones else columns
                rows[query, seen] = row[seen].numpy() @ columns @ np.linalg.pinv(columns)
            maps_of_heads.append(rows)
        maps.append(maps_of_heads)
    return np.array(maps)


DEFINITIONS = {
    "raw": raw,
    "raw_words": lambda d: shares(raw(d) * ~np.array(d.special)),
    "raw_residual": lambda d: (raw(d) + np.eye(len(d.special))) / 2,
    "norm_values": lambda d: mean_over_heads(d, lambda n, i, j, h: d.weights[n][h, i, j] * d.values[n][h, j].norm()),
    "norm_heads": lambda d: mean_over_heads(
        d, lambda n, i, j, h: (d.weights[n][h, i, j] * d.values[n][h, j] @ d.projections[n][h]).norm()
    ),
    "norm_layer": lambda d: per_pair(d, lambda *pair: d.written(*pair).norm()),
    "norm_residual": lambda d: per_pair(d, lambda *pair: d.written(*pair, residual=True).norm()),
    "norm_layernorm": lambda d: per_pair(d, lambda *pair: d.after_attention(*pair).norm()),
    "globenc": lambda d: per_pair(d, lambda *pair: d.after_block(*pair).norm()),
    "alti": alti,
    "contribution": contribution,
    "effective": lambda d: np.abs(projected(d)).mean(1),
    "effective_signed": lambda d: projected(d).mean(1),
    "sum_preserving": lambda d: projected(d, with_ones=True).mean(1),
    "value_zeroing": lambda d: shares(idf.value_zeroing(d.model, TEXT).effect.values),
    "uniform": lambda d: shares((raw(d) > 0).astype(float)),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_map_is_its_definition(definition, name):
    actual = idf.maps(definition.model, TEXT, kinds=[name]).score.sel(map=name)
    np.testing.assert_allclose(actual, DEFINITIONS[name](definition), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["minimum_norm", "maximum_entropy"])
def test_probability_variants_keep_the_output_and_are_extreme(definition, name):
    """Of one head: no mixture with raw attention, which has the same output, is shorter or more even."""
    trace = definition.model.trace(TEXT)
    layer = trace.layer(2).recorded()
    equation = getattr(idf.equations, f"{name}_attention")
    rows = equation(layer.weights, layer.values, layer.visible)
    torch.testing.assert_close(rows @ definition.values[1], layer.weights @ definition.values[1], atol=1e-6, rtol=1e-6)
    size = torch.linalg.norm if name == "minimum_norm" else lambda rows, dim: -torch.special.entr(rows).sum(dim)
    for share in (0.01, 0.5, 1.0):
        mixture = (1 - share) * rows + share * layer.weights
        assert bool((size(rows, dim=-1) <= size(mixture, dim=-1) + 1e-9).all())
    score = idf.maps(definition.model, TEXT, kinds=[name]).score[0, 1]
    np.testing.assert_allclose(score, rows.mean(0), atol=1e-8)


def test_efficient_attention_is_that_of_minimum_norm(definition):
    result = idf.maps(definition.model, TEXT, kinds=["minimum_norm", "efficient"]).score
    np.testing.assert_array_equal(result.sel(map="efficient"), result.sel(map="minimum_norm"))


def test_random_is_seeded_and_spreads_over_the_simplex(definition):
    first, again, other = (idf.maps(definition.model, TEXT, kinds=["random"], seed=seed).score[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert float(np.abs(first - other).max()) > 0.1
    last = first[:, -1]
    assert float(last.mean()) == pytest.approx(1 / len(definition.special), rel=1e-6)


def test_distance_falls_with_distance(definition):
    row = idf.maps(definition.model, TEXT, kinds=["distance"]).score[0, 0, 6].values
    assert list(row[:7]) == sorted(row[:7])
    assert row[5] == pytest.approx(row[6] / 2)


def test_maps_of_blocks_name_the_families_that_have_them():
    model = load(build("opt", SERVED["opt"]), word_tokenizer())
    with pytest.raises(UnsupportedModelError, match="BERT, Llama or GPT-2, got those of the opt family"):
        idf.maps(model, TEXT, kinds=["alti"])
    result = idf.maps(model, TEXT)
    assert "alti" in result.attrs["unsupported"]
    assert "norm_layer" in result["map"].values


def test_rows_without_any_score_are_counted(definition):
    result = idf.maps(definition.model, TEXT, kinds=["raw", "raw_words"])
    assert not result.zero_rows.sel(map="raw").any()
    causal = definition.family != "bert"  # the first token sees only itself, and is special
    assert (result.zero_rows.sel(map="raw_words") == int(causal)).all()
