"""The classifier as a Hugging Face model: saved, loaded, traced, and with every measure."""

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

import identiformer as idf
from identiformer.errors import IdentiformerError
from identiformer.measures.maps import MAPS
from identiformer.nn import IdentifiableConfig, IdentifiableForSequenceClassification
from tests.models.families import word_tokenizer, words

SMALL = {"vocab_size": 100, "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 64, "num_labels": 3}
WIDTHS = {"identifiable": {"key_width": 2}, "standard": {"key_width": 4, "value_width": 4}}


@pytest.fixture(scope="module", params=["identifiable", pytest.param("standard", marks=pytest.mark.slow)])
def folder(request, tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model")
    network = IdentifiableForSequenceClassification(IdentifiableConfig(**SMALL, **WIDTHS[request.param], initializer_range=0.3))
    # A LayerNorm without bias leaves one direction out, and with it one rank; training gives every bias a value.
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    network.save_pretrained(path)
    word_tokenizer().save_pretrained(path)
    return path


def test_transformers_reads_what_it_saved(folder):
    inputs = {"input_ids": torch.tensor([[2, 9, 8, 3, 0]]), "attention_mask": torch.tensor([[1, 1, 1, 1, 0]])}
    results = []
    for implementation in ("eager", "sdpa"):
        network = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation=implementation).eval()
        assert type(network) is IdentifiableForSequenceClassification
        with torch.no_grad():
            results.append(network(**inputs).logits)
            shorter = network(inputs["input_ids"][:, :4]).logits
            encoded = AutoModel.from_pretrained(folder).eval()(**inputs).last_hidden_state
        torch.testing.assert_close(results[-1], shorter)
        torch.testing.assert_close(encoded, network.encoder(**inputs).last_hidden_state)
    torch.testing.assert_close(*results)


def test_classification_learns_from_labels():
    torch.manual_seed(0)
    network = IdentifiableForSequenceClassification(IdentifiableConfig(**SMALL, key_width=2)).train()
    ids, labels = torch.randint(4, 100, (24, 6)), torch.arange(24) % 3
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = network(ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2


def test_a_classifier_needs_labels():
    with pytest.raises(IdentiformerError, match="at least two labels, got 1; set num_labels"):
        IdentifiableForSequenceClassification(IdentifiableConfig(**{**SMALL, "num_labels": 1}, key_width=2))


def test_every_measure_takes_a_model_from_its_folder(folder):
    model, text = idf.load(folder), words(16)
    trace = model.trace(text)
    record = trace.layer(1)
    width = record.values.shape[-1]
    result = idf.attention_identifiability(trace, 1)
    assert result["rank"].values.max() == min(18, width)
    torch.testing.assert_close(model.trace(text, form="factored").layer(1).effective().matrices(), record.effective().matrices())
    bounds = idf.ambiguity(trace, 1, 0, queries=3)
    assert bool((bounds.low <= bounds.raw + 1e-6).all())
    assert model.rerun(trace, {(1, 0): record.weights[0]}).output.patched < 1e-5
    assert float(idf.token_attribution(model, text, heads=True).contribution.sum("source").max()) == pytest.approx(1, abs=1e-4)
    assert idf.value_zeroing(model, text).effect.shape == (2, 18, 18)
    assert idf.attention_variants(trace, 1).sizes["variant"] > 3
    assert idf.certified_share(trace).certified.shape == (2, 4)
    assert idf.attention_reading(trace, processes=1).readable.shape == (2, 4)
    corpus = [words(5, start) for start in range(20)]
    assert idf.token_identifiability(model, corpus, methods=["linear l2"], resplits=1).rate.sizes["layer"] == 2


@pytest.mark.slow
def test_every_map_takes_it(folder):
    # ALTI-Logit needs a final norm, which no post-norm encoder has, and DecompX a head that reads one position.
    kinds = [name for name in MAPS if name not in ("alti_logit", "decompx")]
    assert idf.maps(idf.load(folder), words(8), kinds=kinds).sizes["explanation"] > 10
