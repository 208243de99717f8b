"""AttnLRP of a model."""

import pytest
import torch

from identiformer.errors import UnsupportedModelError
from identiformer.measures.maps import MAPS
from tests.measures.maps.tiny import tiny_subject


def test_a_model_that_only_divides_by_norms_is_explained_exactly():
    subject = tiny_subject("gpt2", "CausalLM")
    for block in subject.model.network.transformer.h:
        for module in (block.attn.c_attn, block.mlp.c_proj):  # no attention output, and nothing from the feed-forward layer
            module.weight.zero_()
            module.bias.zero_()
        block.attn.c_proj.bias.zero_()
    subject.model.network.transformer.ln_f.bias.zero_()
    relevance = MAPS["attnlrp"].compute(subject)
    assert relevance[-1].item() == pytest.approx(subject.target.unchanged, rel=1e-9)
    assert not relevance[:-1].any()
    gradient = MAPS["gradient_times_input"].compute(subject)
    assert abs(gradient[-1]) < 1e-4 * abs(relevance[-1])  # the true gradient of a norm along its input is zero


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_it_is_the_gradient_times_input_where_rules_are_those_of_the_gradient(family, monkeypatch):
    from identiformer.models.derivatives import relevance

    subject = tiny_subject(family)
    gradient = MAPS["gradient_times_input"].compute(subject)
    assert (MAPS["attnlrp"].compute(subject) - gradient).norm() > 0.1 * gradient.norm()
    for name in ("PRODUCTS", "ACTIVATIONS", "STATISTICS"):
        monkeypatch.setattr(relevance, name, set())
    monkeypatch.setattr(relevance, "COMPOSED_ACTIVATIONS", "none")
    monkeypatch.setattr(relevance, "_layer_norm", torch.nn.functional.layer_norm)
    torch.testing.assert_close(MAPS["attnlrp"].compute(subject), gradient)


def test_unknown_layouts_are_rejected():
    with pytest.raises(UnsupportedModelError, match="gpt_neox"):
        MAPS["attnlrp"].compute(tiny_subject("gpt_neox"))
