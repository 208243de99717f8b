"""Sentences about what the output depends on, from results with known numbers."""

import json

import numpy as np
import pytest
import xarray as xr

from identiformer.readings.sentences.output import number, output_as_json, output_sentences, shown_weights, weight_rows


def result_of(variables, **settings):
    return xr.Dataset(variables, attrs={"settings": json.dumps(settings)})


def idle_of(**settings):
    settings = {
        "objective": "the log-probability of ' Berlin'",
        "unit": "nats",
        "prediction": " Berlin",
        "probability": 0.82,
    } | settings
    variables = {
        "share": ("order", [0.3, 0.02]),
        "change": ("order", [0.0098, 0.0095]),
        "budget": 0.01,
        "matched_change": 4.2,
        "share_by_head": (("layer", "head"), np.full((1, 1), 0.3)),
    }
    return result_of(variables, **settings).assign_coords(order=["effect", "weight"])


def strongest_of(signed=True, certified=True):
    columns = {
        "layer": [21, 21, 3, 5],
        "head": [4, 4, 0, 1],
        "query": [6, 6, 9, 2],
        "key": [5, 0, 0, 2],
        "query_token": ["of", "of", "is", "the"],
        "key_token": ["Germany", "The", "The", "the"],
        "raw": [0.62, 0.3, 0.9, 0.5],
        "low": [0.6, 0.2, 0.9, 0.5],
        "high": [0.63, 0.4, 0.9, 0.5],
        "effect": [0.48, 0.3, -0.6, 1e-7],
        "constant": [0.09, 0.2, 0.97, 0.1],
        "token": [0.71, 0.5, 0.02, 0.8],
        "context": [0.2, 0.3, 0.01, 0.1],
        "part": [1, 1, 0, 1],
    }
    if not certified:
        del columns["low"], columns["high"]
    variables = {name: ("weight", values) for name, values in columns.items()} | {"rounding": 1e-6}
    variables["head_effect"] = (("head_layer", "head_number"), np.ones((1, 1)))
    return result_of(variables, objective="the log-probability of ' Berlin'", unit="nats", signed=signed)


def test_the_answer_in_order():
    assert output_sentences(strongest_of(), idle_of()) == [
        "The prediction ‘Berlin’ (82%).",
        "30% of the attention weight in this text is idle for it: removed everywhere at once, it changes the prediction by less "
        "than 0.01 nats (ordered by raw weight, that budget is spent at 2.0%).",
        "Layer 21, head 4: ‘of’ → ‘Germany’ 0.62, certified 0.60–0.63, worth +0.48 nats when removed (measured); its effect goes "
        "71% through the token itself, 20% through its context and 9% through what is the same in every text.",
        "Of the 4 weights with the largest effects, 1 act mostly through what is the same in every text, most often on ‘The’ "
        "(1): they say little about this text.",
    ]


def test_a_target_without_a_prediction_is_named():
    idle = idle_of(objective="the embedding", unit="1 - cos", prediction="", probability=None)
    (sentence,) = output_sentences(None, idle)
    assert sentence.startswith(
        "30% of the attention weight in this text is idle for the embedding: removed everywhere at once, it"
    )


def test_weights_are_shown_once_per_head_by_what_goes_through_token_and_context():
    assert shown_weights(strongest_of()) == [0, 2]  # the last is below rounding
    rows = weight_rows(strongest_of())
    assert rows[0]["query → key"] == "‘of’ 6 → ‘Germany’ 5"
    assert [row["effect"] for row in rows] == ["0.48", "−0.6"]
    assert "certified" not in weight_rows(strongest_of(certified=False))[0]


@pytest.mark.parametrize(("value", "text"), [(0.48, "0.48"), (-0.0123, "−0.012"), (3.21e-6, "3.2e−06"), (0.0, "0")])
def test_numbers(value, text):
    assert number(value) == text


def test_json_has_every_number():
    found = output_as_json(strongest_of(), idle_of())
    assert found["idle"]["share"] == {"effect": 0.3, "weight": 0.02}
    assert found["weights"][0]["key_token"] == "Germany"
    assert found["prediction"] == " Berlin"
