"""The certificate of a head: its most ambiguous row, and the model run with an alternative."""

import numpy as np
import pytest

import identiformer as idf
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
    query = int(certificate["query"].item())
    assert not special[query]
    assert width[query] == width[~special].max()
    assert certificate.rows_certified == int(found.argmax_certified.sum())
    assert certificate.largest.item() == int(trace.layer(2).weights[1, query].argmax())
    row = idf.ambiguity(trace, 2, 1, queries=query)
    assert certificate[list(row.data_vars)].drop_attrs().identical(row.drop_attrs())


def test_alternative_is_what_was_patched_in(model, trace, certificate):
    weights, query = trace.layer(2).weights[1].double().numpy().copy(), certificate["query"].item()
    name = certificate.patched_alternative.item()
    weights[query] = certificate.alternatives.sel(alternative=name, query=query)
    output = model.rerun(trace, {(2, 1): weights}).output
    assert all(certificate[number] == getattr(output, number) for number in ("patched", "control", "floor", "scale"))
    assert certificate.patched < certificate.control
    assert certificate.patched_total_variation == certificate.total_variation.sel(alternative=name, query=query)


def test_nullities_are_those_of_the_layer(trace, certificate):
    found = idf.attention_identifiability(trace, 2).sel(query=certificate["query"].item())
    assert (certificate.layer_nullity, certificate.heads_nullity) == (found.layer_nullity, found.heads_nullity)
    rows = idf.attention_identifiability(trace, 2).key_constrained_identifiable.sel(head=1)
    assert certificate.rows_key_constrained == rows.sum()


def test_norm_shares_are_those_of_the_reading(trace, certificate):
    found = idf.attention_reading(trace, layers=2, heads=1, queries=certificate["query"].item(), certify=False)
    np.testing.assert_allclose(certificate.norm_share, found.norm_share[0, 0], rtol=1e-5)
