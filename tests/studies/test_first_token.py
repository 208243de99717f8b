"""The interventions of the study on the first token, against its weights; and its page."""

import pytest
import torch

from identiformer.models import load
from studies import first_token
from tests.measures.maps.tiny import TEXT, tiny_network
from tests.models.families import word_tokenizer


@pytest.fixture(scope="module")
def model():
    return load(tiny_network("llama", "CausalLM", double=False), word_tokenizer())


@pytest.mark.parametrize("intervention", [None, *first_token.INTERVENTIONS])
@pytest.mark.parametrize("everywhere", [False, True])
def test_head_outputs_are_those_of_the_changed_weights(model, intervention, everywhere):
    """At the output projection of the first layer, whose inputs do not depend on interventions in other layers."""
    layer, projected = model.trace(TEXT).layer(1), {}
    hook = model.network.model.layers[0].self_attn.o_proj.register_forward_pre_hook(lambda _, args: projected.update(x=args[0]))
    with hook:
        changed = first_token._distribution(model, TEXT, None if everywhere else 1, intervention)
    rows = layer.weights.clone()
    if intervention is not None:
        rows[:, 1:, 0] = 0
    if intervention == "redistributed":
        rows /= rows.sum(-1, keepdim=True)
    expected = rows @ layer.values.repeat_interleave(2, 0)
    torch.testing.assert_close(projected["x"][0].unflatten(-1, (4, -1)).transpose(0, 1), expected, atol=1e-5, rtol=1e-4)
    logits = model.network(**model.encode(TEXT, None, False).inputs).logits[0].double()
    assert torch.allclose(logits.log_softmax(-1), changed, atol=1e-5) == (intervention is None)


def test_the_study_writes_a_table_a_picture_and_a_page(monkeypatch, tmp_path, model):
    monkeypatch.setattr(first_token.idf, "load", lambda _: model)
    monkeypatch.setattr(first_token, "PASSAGE", " ".join(f"w{number}" for number in range(40)))
    monkeypatch.setattr(first_token, "TOKENS", 12)
    rows = list(first_token.measure("tiny", tmp_path, 1))
    assert [row["layer"] for row in rows] == [0, 1, 2]
    for row in rows[1:]:
        assert 0 <= row["certified"] <= 1
        weights = model.trace(first_token._with_and_without_bos(model, _text(model))["with BOS"]).layer(row["layer"]).weights
        assert row["weight"] == pytest.approx(float(weights[:, 1:, 0].double().mean()))
    table = first_token.report({"tiny": rows}, tmp_path)
    assert "| with BOS | all |" in table
    assert (tmp_path / "first_token.png").stat().st_size > 10_000
    assert "first token" in (tmp_path / "first_token.html").read_text(encoding="utf-8")


def _text(model):
    ids = model.tokenizer(first_token.PASSAGE, add_special_tokens=False)["input_ids"]
    return model.tokenizer.decode(ids[:12])
