"""An answer token by token, and the reading of the rows that predicted it."""

import json
from dataclasses import replace

import numpy as np
import pytest

import identiformer as idf
from identiformer.equations.certificates.contributions import CATEGORIES
from identiformer.errors import InputError
from identiformer.models import load
from identiformer.readings import answer_as_json, answer_blocks
from tests.measures.maps.tiny import TEXT, tiny_network
from tests.models.families import word_tokenizer


@pytest.fixture(scope="module")
def model():
    return load(tiny_network("llama", "CausalLM", double=False), word_tokenizer())


@pytest.fixture(scope="module")
def answer(model):
    return model.generate(TEXT, max_new_tokens=3)


@pytest.mark.parametrize("certify", [False, True])
def test_the_reading_of_an_answer_is_that_of_the_rows_which_predict_it(model, answer, certify):
    reading = idf.read(model, answer, certify=certify, maps=True)
    rows = list(range(answer.start - 1, len(answer.tokens) - 1))
    assert reading.result["query"].values.tolist() == rows
    attribution = idf.token_attribution(model, answer, layers=[1], directions=2)
    whole = idf.attention_reading(answer.trace, attribution, certify=certify)
    for name in ("weight", "contribution", "norm_share", "readable_weight"):
        # Bounds are solved up to a gap, which depends on the rows that are solved together.
        np.testing.assert_allclose(reading.result[name], whole[name].sel(query=rows), atol=0.02 if certify else 1e-12)
    assert {statement.query for statement in (*reading.holding, *reading.failing)} <= set(rows)
    assert "in the 3 rows that predict the answer" in reading.overview()[0]


def test_each_step_has_its_largest_prompt_tokens_and_the_attention_to_them(model, answer):
    attribution, reading = idf.answer_attribution(model, answer), idf.read(model, answer, certify=False, maps=True)
    found = answer_as_json(answer, attribution, reading)
    assert [step["probability"] for step in found["steps"]] == list(answer.probabilities)
    for number, step in enumerate(found["steps"]):
        assert step["position"] == step["predicted_at"] + 1 == answer.start + number
        shares = attribution.share.sel(step=number).values
        assert step["prompt_share"] == pytest.approx(shares[: answer.start].sum())
        assert [source["position"] for source in step["sources"]] == np.argsort(-shares[: answer.start])[:3].tolist()
        row = reading.result.sel(query=step["predicted_at"])
        for source in step["sources"]:
            entry = row.sel(key=source["position"])
            heads = entry.output_share / entry.output_share.sum("head")
            assert source["weight"] == pytest.approx(float((entry.weight * heads).sum("head").mean()))
            parts = (entry.weight, entry.low, entry.contributing_weight, entry.readable_weight)
            stages = [float((part * entry.output_share).sum()) for part in parts]
            assert source["category"] == CATEGORIES[int(np.argmax(-np.diff([*stages, 0])))]
    assert sum(found["span_shares"].values()) == pytest.approx(1)


def test_blocks_have_the_sentences_and_one_row_per_step(model, answer):
    attribution, reading = idf.answer_attribution(model, answer), idf.read(model, answer, certify=False)
    found = answer_as_json(answer, attribution, reading)
    opening, table, *reasons = answer_blocks(answer, attribution, reading)
    assert opening.lines == found["sentences"]
    for row, step in zip(table.rows, found["steps"], strict=True):
        assert [*row.values()][:3] == [step["token"], step["probability"], step["prompt_share"]]
        first, source = row["prompt tokens it drew on most"].splitlines()[0], step["sources"][0]
        assert first.startswith(f"‘{source['token']}’ {source['position']} {source['share']:.0%} (attention ")
        assert first.endswith(f", {source['category']})")
    categories = {source["category"] for step in found["steps"] for source in step["sources"]} - {"readable"}
    assert {line.split(":")[0].lower() for block in reasons for line in block.lines} == categories


def test_no_attention_is_readable_where_self_contributions_are_unknown(model, answer, monkeypatch):
    """Those of layer 1 are always known, and say nothing about the other layers."""
    attribution = idf.answer_attribution(model, answer)
    monkeypatch.setattr("identiformer.readings.reader.attribute", lambda *_: None)
    reading = idf.read(model, answer, certify=False)
    assert (reading.result.self_contribution.isnull().any("key") == [False, True]).all()
    found = answer_as_json(answer, attribution, reading)
    assert {source["category"] for step in found["steps"] for source in step["sources"]} == {None}
    assert len(found["sentences"]) == 2
    # Then the readable part, whatever it is, is not the largest.
    received = reading.received.copy(deep=True)
    received.contributing[0] = 0.0
    found = answer_as_json(answer, attribution, replace(reading, received=received))
    categories = [{source["category"] for source in step["sources"]} for step in found["steps"]]
    assert categories == [{"noncontributing"}, {None}, {None}]
    largest = (
        "Of the attention to these 9 sources, the largest part is noncontributing in 3 and unknown in 6, before certification."
    )
    assert found["sentences"][2] == largest


def test_steps_are_json_and_sentences_say_what_was_found(model, answer):
    attribution = idf.answer_attribution(model, answer)
    content = answer_as_json(answer, attribution)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert [len(step["shares"]) for step in content["steps"]] == [answer.start, answer.start + 1, answer.start + 2]
    assert content["tokens"] == list(answer.tokens.texts)
    assert content["steps"][0]["sources"][0]["category"] is None
    assert "wrote 3 tokens after" in content["sentences"][0]
    assert "AttnLRP, the logits" in content["sentences"][1]
    assert len(content["sentences"]) == 2
    read = answer_as_json(answer, attribution, idf.read(model, answer, certify=False))
    assert "before certification" in read["sentences"][2]
    with pytest.raises(InputError, match="expected the answer_attribution of the same answer"):
        answer_blocks(model.generate(TEXT, max_new_tokens=1), attribution)
