"""Jacobian norms between adjacent layers against whole Jacobians by automatic differentiation."""

import pytest
import torch

from identiformer.errors import UnsupportedModelError
from identiformer.measures.attribution.hidden_token import token_attribution
from identiformer.measures.maps import MAPS
from identiformer.models import load
from identiformer.models.derivatives.jacobian_norms import adjacent_norms
from identiformer.passage import Passage
from identiformer.support.tiny_models import tiny_model
from identiformer.texts import Example
from tests.models.families import SERVED, build, word_tokenizer, words

TEXT = words(5)
STACKS = {"bert": "encoder.layer", "llama": "layers", "mistral": "layers", "gpt2": "h"}


def jacobian_norms(model, family: str, layer: int) -> torch.Tensor:
    """By a hook that replaces the input of one block with a variable."""
    network = model.network
    blocks = network.get_submodule(STACKS[family])
    states, final = {}, getattr(network, "norm", getattr(network, "ln_f", None))
    inputs = word_tokenizer()(TEXT, return_tensors="pt")
    with torch.no_grad():
        hidden = network(**inputs, output_hidden_states=True).hidden_states

    def run(x):
        hooks = [
            blocks[layer].register_forward_pre_hook(lambda _, given: (x[None], *given[1:])),
            blocks[layer].register_forward_hook(lambda _, __, result: states.update(block=result)),
        ]
        if final is not None:
            hooks.append(final.register_forward_hook(lambda _, __, result: states.update(final=result)))
        network(**inputs)
        for hook in hooks:
            hook.remove()
        output = states["final" if final is not None and layer == len(blocks) - 1 else "block"]
        return (output[0] if isinstance(output, tuple) else output).squeeze(0)

    return torch.autograd.functional.jacobian(run, hidden[layer][0]).square().sum((1, 3)).sqrt()


@pytest.mark.parametrize("family", STACKS)
def test_norms_are_those_of_whole_jacobians(family):
    model = load(tiny_model(family), word_tokenizer())
    norms = adjacent_norms(model.input_function(TEXT)[0])
    for layer, actual in enumerate(norms):
        torch.testing.assert_close(actual, jacobian_norms(model, family, layer).double(), rtol=1e-4, atol=1e-5)


def test_the_first_layer_is_attributed_as_by_the_measure():
    model = load(tiny_model("bert"), word_tokenizer())
    passage = Passage.of(model, Example(TEXT))
    expected = token_attribution(model, TEXT, exact=True, input_site="after", layers=[1]).contribution.values[0]
    torch.testing.assert_close(MAPS["token_attribution"].compute(passage)[0], torch.tensor(expected), rtol=1e-4, atol=1e-6)


def test_embeddings_may_be_narrower_than_blocks():
    model = load(build("electra", SERVED["electra"]), word_tokenizer())
    shares = MAPS["token_attribution"].compute(Passage.of(model, Example(TEXT)))
    torch.testing.assert_close(shares.sum(-1), torch.ones(2, 7, dtype=torch.float64))


def test_another_layout_is_rejected():
    model = load(build("opt", SERVED["opt"]), word_tokenizer())
    with pytest.raises(UnsupportedModelError, match="got those of the opt family"):
        adjacent_norms(model.input_function(TEXT)[0])
