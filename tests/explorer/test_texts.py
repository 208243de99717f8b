"""What the server computes of an open text is what the library computes."""

import base64
import json
import weakref

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError, UnsupportedModelError
from identiformer.explorer.texts import MOST_TEXTS, OpenText, Texts
from identiformer.measures.heads.example import head_to_show
from identiformer.models import load
from identiformer.page.panels import check_corpus
from identiformer.progress import work_bar
from identiformer.readings.heads import head_categories
from identiformer.readings.reading import Reading
from tests.explorer.client import Client
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words
from tests.page.packed_layer import PackedLayer, unpack


@pytest.fixture(scope="module")
def model():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture
def client(serving, model):
    return Client(serving(model, words(20)), model)


def test_a_text_its_layers_and_its_jobs(client):
    summary = client.open(words(20))
    text = summary["id"]
    status, content, _ = client("GET", f"texts/{text}/layers/2")
    assert status == 200
    assert PackedLayer(content).header["layer"] == 2
    assert client("GET", f"texts/{text}/layers/9")[0] == 422
    assert client("GET", "texts/unknown/layers/1")[0] == 422
    certify = {"task": "certify", "layer": 2, "head": 1, "query": 3}
    status, reply, _ = client("POST", f"texts/{text}/jobs", certify)
    assert status == 202
    job = client.wait(json.loads(reply)["job"])
    assert job["state"] == "done", job
    row = job["result"]
    assert all(low - 1e-5 <= raw <= high + 1e-5 for low, raw, high in zip(row["low"], row["raw"], row["high"], strict=True))
    assert "attends most to" in row["sentences"][0]
    name, alternative = next(iter(row["alternatives"].items()))
    patch = certify | {"task": "patch", "alternative": name, "row": alternative["row"]}
    patched = client.wait(json.loads(client("POST", f"texts/{text}/jobs", patch)[1])["job"])
    assert patched["result"]["patched"] < patched["result"]["control"], patched
    assert f"{alternative['total_variation']:.0%}" in patched["result"]["sentences"][0]
    attribution = client.wait(json.loads(client("POST", f"texts/{text}/jobs", {"task": "attribute", "target": 3})[1])["job"])
    assert attribution["result"]["contributions"]["shape"] == [1, len(summary["queries"]["texts"])]


def test_answers_of_a_model_that_cannot_write_are_rejected_before_a_page_is_served(model):
    with pytest.raises(UnsupportedModelError, match="expected a causal language model with its head, got BertModel"):
        idf.explore(model, generate=True, browser=False, announce=lambda address: pytest.fail(address))


def test_only_the_latest_texts_stay_open(client):
    first = client.open(words(10))["id"]
    for _ in range(MOST_TEXTS):
        client.open(words(10))
    status, reply, _ = client("GET", f"texts/{first}/layers/1")
    assert (status, b"open it again" in reply) == (422, True)


def test_reading_of_every_head(client, model):
    text = client.open(words(20))
    before = idf.attention_reading(model.trace(words(20)), certify=False)
    assert text["reading"]["sentences"] == Reading(before).overview()
    assert not np.any(text["reading"]["certified"])
    done = client.wait(json.loads(client("POST", f"texts/{text['id']}/jobs", {"task": "read heads"})[1])["job"])["result"]
    reading = idf.read(model, words(20))
    for name in ("readable", "contributing", "certified", "sink_share"):
        assert np.array(done["numbers"][name]) == pytest.approx(reading.result[name].values, abs=1e-4), name
    assert np.all(done["certified"])
    assert done["sentences"] == reading.overview()
    assert done["categories"] == head_categories(reading.result).values.tolist()
    assert np.array(done["own"]) == pytest.approx(reading.result.self_contribution.values, abs=1e-4)


def test_certified_fractions_of_a_head(client, model):
    text = client.open(words(20))["id"]
    assert client("GET", f"texts/{text}/bounds/2/1")[0] == 422
    client.wait(json.loads(client("POST", f"texts/{text}/jobs", {"task": "read heads"})[1])["job"])
    sent = np.frombuffer(client("GET", f"texts/{text}/bounds/2/1")[1], np.uint8).reshape(22, 22) / 255
    result = idf.attention_reading(model.trace(words(20)), layers=2, heads=1).isel(layer=0, head=0)
    exact = (result.low / result.weight).values
    assert (sent <= exact + 1e-9).all(), "what the page calls certified is certified"
    assert sent == pytest.approx(exact, abs=1 / 255)


def test_a_canceled_reading_continues_where_it_stopped(model):
    reader = OpenText(idf.Passage.of(model, words(20))).reader
    seen = []

    class Bar:
        def expect(self, amount):
            pass

        def advance(self, amount):
            if amount and len(seen) == 3:
                raise KeyError("canceled")

    with pytest.raises(KeyError):
        reader.read(Bar(), seen.append)
    assert len(reader.fractions) == 3
    with work_bar("reading", False) as bar:
        reader.read(bar, seen.append)
    heads = len(reader.heads)
    assert len(seen) == heads, "no head is certified twice"


def test_the_head_shown_comes_first_and_then_the_cheapest(model, monkeypatch):
    reader = OpenText(idf.Passage.of(model, words(20))).reader
    order = []

    def certify_heads(heads, *_):
        order.extend(heads)
        yield from ()

    monkeypatch.setattr("identiformer.measures.heads.stream.certify_heads", certify_heads)
    with work_bar("reading", False) as bar:
        reader.read(bar, lambda _: None)
    first, *others = order
    assert (first.layer, first.head) == head_to_show(reader.reading.result)
    costs = [np.count_nonzero(job.weights.numpy() > 0.02) for job in others]
    assert costs == sorted(costs)


def test_a_row_is_certified_and_its_alternative_run(client, model):
    text = client.open(words(24))["id"]
    request = {"task": "certify", "layer": 2, "head": 1, "query": 3}
    found = client.wait(json.loads(client("POST", f"texts/{text}/jobs", request)[1])["job"])["result"]
    exact = idf.ambiguity(model.trace(words(24)), 2, 1, queries=3).isel(query=0)
    assert found["low"] == pytest.approx(exact.low.values, abs=1e-5)
    assert found["contribution"] == pytest.approx(exact.contribution.values, abs=1e-5)
    run = found["patched_run"]
    assert run["patched"] < run["control"]
    assert min(alternative["total_variation"] for alternative in found["alternatives"].values()) >= 0.005


def test_a_map_next_to_raw_attention(client, model):
    text = client.open(words(20))
    assert "contribution" in [choice["name"] for choice in text["maps"]]
    request = {"task": "map", "map": "contribution"}
    done = client.wait(json.loads(client("POST", f"texts/{text['id']}/jobs", request)[1])["job"])["result"]
    expected = idf.maps(model, words(20), kinds=["raw", "contribution"]).score
    for name, kind in (("raw", "raw"), ("other", "contribution")):
        shown, content = unpack(done[name], base64.b64decode(done[name]["content"])), expected.sel(map=kind).values
        np.testing.assert_allclose(shown, content, atol=np.abs(content).max() / 2**11)


def test_maps_the_page_cannot_show_are_rejected(client):
    text = client.open(words(20))["id"]
    done = client.wait(json.loads(client("POST", f"texts/{text}/jobs", {"task": "map", "map": "no such map"})[1])["job"])
    assert done["state"] == "failed"
    assert done["result"].startswith("expected maps among raw, ")


def test_own_content_of_a_decoder_is_unknown():
    model = load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    reader = OpenText(idf.Passage.of(model, words(9), words(5), kind="decoder")).reader
    with work_bar("reading", False) as bar:
        panel = reader.read(bar, lambda partial: None)
    assert set(panel["numbers"]) == {"contributing", "certified", "sink_share"}
    assert {category for row in panel["categories"] for category in row} <= {"contributing", "noncontributing", "undetermined"}


def test_corpus_medians_of_self_contribution(serving, model, tmp_path):
    corpus = idf.run([words(9), words(12)], model, ["token_attribution"], out=tmp_path / "run")["token_attribution"]
    client = Client(serving(model, words(20), corpus=corpus), model)
    text = client.open(words(20))["id"]
    attribution = client.wait(json.loads(client("POST", f"texts/{text}/jobs", {"task": "attribute", "target": 3})[1])["job"])[
        "result"
    ]
    assert attribution["corpus"]["medians"] == pytest.approx(
        corpus.self_contribution_quantiles.sel(quantile=0.5).values, abs=1e-4
    )
    foreign = corpus.assign_attrs(revision="another")
    with pytest.raises(InputError, match="expected a run of this model"):
        check_corpus(foreign, model.revision)
    with pytest.raises(InputError, match="use run"):
        check_corpus(corpus[["not_own_main"]], model.revision)


def test_only_rows_in_view_of_a_long_text_are_fetched(serving, monkeypatch):
    monkeypatch.setattr("identiformer.explorer.texts.ROWS_IN_VIEW", 16)
    model = load(build("llama", SERVED["llama"]), word_tokenizer(), memory=1)
    client = Client(serving(model, words(40)), model)
    summary = client.open(words(40))
    assert summary["window"] == 16
    truth = model.trace(words(40), form="factored").layer(2).effective()
    for first, rows in ((0, 16), (20, 16), (35, len(summary["queries"]["texts"]) - 35)):
        status, content, _ = client("GET", f"texts/{summary['id']}/layers/2/rows/{first}")
        assert status == 200
        computed = PackedLayer(content).maps(1, rows, len(summary["queries"]["texts"]))["effective"]
        expected = truth.rows(1, list(range(first, first + rows))).numpy()
        assert np.abs(computed - expected).max() < np.abs(expected).max() / 200
    assert client("GET", f"texts/{summary['id']}/layers/2/rows/999")[0] == 422


def test_the_attention_types_of_an_encoder_decoder(serving):
    model = load(build("t5", ENCODER_DECODERS["t5"]), word_tokenizer())
    client = Client(serving(model, words(20)), model)
    status, reply, _ = client("POST", "texts", {"text": words(9), "pair": words(5), "model": model.name})
    summary = json.loads(reply)
    assert (status, summary["kinds"], summary["kind"]) == (200, ["encoder", "decoder", "cross"], "encoder")
    cross = json.loads(client("POST", f"texts/{summary['id']}/kinds/cross")[1])
    assert cross["kind"] == "cross"
    assert len(cross["keys"]["texts"]) == len(summary["queries"]["texts"])
    assert client("GET", f"texts/{cross['id']}/layers/1")[0] == 200
    status, reply, _ = client("POST", f"texts/{summary['id']}/kinds/other")
    assert (status, b"expected one of the attention types" in reply) == (422, True)


def test_the_memory_of_a_text_is_freed_when_it_is_no_longer_open(model):
    texts = Texts(lambda name: model, [model.name], {model.name: model})
    first = texts.open(words(10), None, model.name)
    first.layer(1)
    trace = weakref.ref(first.passage.trace)
    del first
    for _ in range(MOST_TEXTS):
        texts.open(words(10), None, model.name)
    assert trace() is None
