"""Sentences about the certificate of a head, and its data in JSON and in reports."""

import json

import pytest

import identiformer as idf
from identiformer.readings import reading_as_json
from identiformer.readings.reader import with_certificates
from identiformer.readings.sentences.certificate import certificate_as_json, certificate_sentences, row_sentence, row_sentences
from identiformer.readings.sentences.patched_run import patched_run_sentence
from identiformer.report import render_report
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return idf.load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture(scope="module")
def trace(model):
    return model.trace(words(24))


@pytest.fixture(scope="module")
def certificate(model, trace):
    return idf.certify_head(model, trace, 2, 1)


def test_sentences_match_the_numbers(certificate):
    first, second, third, fourth = certificate_sentences(certificate)
    found = certificate_as_json(certificate)
    assert f"attends most to ‘{found['key_token']}’ at {found['key']} ({found['weight']:.2f})" in first
    assert f"[{found['low_reached']:.2f}, {found['high_reached']:.2f}]" in first
    assert f"{found['output']['patched']:.1g}" in second
    assert f"In {found['rows_certified']} of the 26 rows" in third
    assert f"change the output in {found['rows_key_constrained']} rows" in third
    assert f"have {found['layer_nullity']} dimensions" in fourth
    bare = certificate.drop_vars(["rows_key_constrained", "layer_nullity"])
    assert len(certificate_sentences(bare)) == 3
    assert certificate_as_json(bare)["layer_nullity"] is None


def test_json_has_the_numbers_of_the_row(certificate):
    found, row = certificate_as_json(certificate), certificate.isel(query=0)
    largest = row.sel(key=found["key"])
    assert (found["layer"], found["head"], found["query"]) == (2, 1, int(row["query"]))
    assert found["weight"] == float(largest.raw)
    assert [found[name] for name in ("low", "high", "confirmed")] == [largest[name] for name in ("low", "high", "confirmed")]
    assert found["alternative"] == row.patched_alternative
    assert (found["rival"] is None) == (row.rival < 0)


def test_large_changes_are_written_out(certificate):
    logits = certificate.assign(patched=0.0432, control=37.4)
    assert patched_run_sentence(0.5, logits).endswith(
        " by up to 0.04 per coordinate (control, a random change of the same size: 37)."
    )


def test_row_sentence_follows_the_bounds(certificate):
    def sentence(rival=-1, argmax_certified=False, **of_the_largest):
        result = certificate.copy(deep=True)
        result.rival[:], result.argmax_certified[:] = rival, argmax_certified
        for name, value in of_the_largest.items():
            result[name][0, int(result.largest[0])] = value
        return row_sentence(result)

    narrow = sentence(low=0.31, high=0.312, low_reached=0.31, high_reached=0.312, argmax_certified=True)
    assert "is certified to be in [0.310, 0.312]; it is certified to be the largest" in narrow
    apart = sentence(low=0.1, high=0.5, low_reached=0.2, high_reached=0.4)
    assert "anywhere in [0.20, 0.40], and is certified to be in [0.10, 0.50]; whether" in apart
    assert "may be too wide" in sentence(confirmed=False)


def test_a_long_vector_that_others_cancel_is_not_called_a_sink(certificate):
    def sentence(norm_share):
        result = certificate.copy(deep=True)
        for name, value in {"raw": 0.5, "contribution": 0.01, "norm_share": norm_share}.items():
            result[name][0, int(result.largest[0])] = value
        return row_sentences(result)[1]

    assert "an attention sink" in sentence(0.02)
    assert "an attention sink" not in sentence(0.4)


def test_a_reading_passes_certificates_to_json_and_report(model, trace):
    passage = idf.Passage.of(model, trace)
    reading = with_certificates(passage, idf.read(model, passage, layers=2, heads=1))
    told = json.loads(json.dumps(reading_as_json(reading)))
    assert told["certificates"][0]["layer"] == 2
    assert told["certificates"][0]["output"]["control"] > 0
    page = render_report(reading)
    assert "<h2>Certificate</h2>" in page
    assert page.count("<img ") == 4
