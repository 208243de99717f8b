"""The certificate of a head: its most ambiguous row, in sentences and numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest

import identiformer as idf
from identiformer.readings import certify
from identiformer.readings.certificate import patched_run_sentence, row_sentence
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


def test_certificate_takes_the_most_ambiguous_word(trace, certificate):
    found = idf.ambiguity(trace, 2, 1, top=1, alternatives=False)
    width = np.nanmax(found.high_reached.values - found.low_reached.values, axis=1)
    special = np.array(trace.stacks[0].queries.special)
    assert not special[certificate.query]
    assert width[certificate.query] == width[~special].max()
    assert certificate.rows_certified == int(found.argmax_certified.sum())
    assert certificate.key == int(trace.layer(2).weights[1, certificate.query].argmax())


def test_alternative_is_what_was_patched_in(model, trace, certificate):
    weights = trace.layer(2).weights[1].double().numpy().copy()
    weights[certificate.query] = certificate.result.alternatives.sel(alternative=certificate.alternative).values[0]
    assert model.rerun(trace, {(2, 1): weights}).output == certificate.output
    assert certificate.output.patched < certificate.output.control


def test_sentences_match_the_numbers(certificate):
    first, second, third, fourth = certificate.sentences()
    assert f"attends most to ‘{certificate.key_token}’ at {certificate.key} ({certificate.weight:.2f})" in first
    assert f"[{certificate.low_reached:.2f}, {certificate.high_reached:.2f}]" in first
    assert f"{certificate.output.patched:.1g}" in second
    assert f"In {certificate.rows_certified} of the 26 rows" in third
    assert f"change the output in {certificate.rows_key_constrained} rows" in third
    assert f"have {certificate.layer_nullity} dimensions" in fourth
    bare = replace(certificate, rows_key_constrained=None, layer_nullity=None)
    assert len(bare.sentences()) == 3


def test_large_changes_are_written_out(certificate):
    logits = replace(certificate.output, patched=0.0432, control=37.4)
    assert patched_run_sentence(0.5, logits).endswith(
        " by up to 0.04 per coordinate (control, a random change of the same size: 37)."
    )


def test_row_sentence_follows_the_bounds(certificate):
    def sentence(rival=-1, argmax_certified=False, **of_the_largest):
        result = certificate.result.copy(deep=True)
        result.rival[:], result.argmax_certified[:] = rival, argmax_certified
        for name, value in of_the_largest.items():
            result[name][0, certificate.key] = value
        return row_sentence(result)

    narrow = sentence(low=0.31, high=0.312, low_reached=0.31, high_reached=0.312, argmax_certified=True)
    assert "is certified to be in [0.310, 0.312]; it is certified to be the largest" in narrow
    apart = sentence(low=0.1, high=0.5, low_reached=0.2, high_reached=0.4)
    assert "anywhere in [0.20, 0.40], and is certified to be in [0.10, 0.50]; whether" in apart
    assert "may be too wide" in sentence(confirmed=False)


def test_inspection_passes_certificates_to_json_and_report(model, trace):
    inspection = certify(idf.inspect_trace(trace, layers=2, heads=1), model, trace)
    told = json.loads(json.dumps(inspection.as_json()))
    assert told["certificates"][0]["layer"] == 2
    assert told["certificates"][0]["output"]["control"] > 0
    page = render_report(inspection)
    assert "Certificate</h4>" in page
    assert page.count("<img ") == 3
