"""Only the server's own page, on this machine, gets responses, within limits."""

import base64
import http.client
import json
import socket
import sys
import time
import weakref

import numpy as np
import pytest

import identiformer as idf
from identiformer.errors import InputError, MissingPackageError
from identiformer.explorer import jobs as jobs_module
from identiformer.explorer.guard import MOST_BYTES
from identiformer.explorer.jobs import MOST_JOBS, Jobs
from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import MOST_CHARACTERS, MOST_TEXTS, OpenText, Texts
from identiformer.models import load
from identiformer.page.panels import check_corpus
from identiformer.progress import work_bar
from identiformer.readings.heads import head_categories
from identiformer.readings.reading import reading_of
from tests.models.families import ENCODER_DECODERS, SERVED, build, word_tokenizer, words
from tests.page.packed_layer import PackedLayer, unpack


@pytest.fixture(scope="module")
def model():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


class Client:
    def __init__(self, server):
        self.server = server

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        reply = response.read()
        connection.close()
        return response.status, reply, response.headers

    def __call__(self, method, path, body=None, **headers):
        return self.ask(method, f"/{self.server.secret}/{path}", body, **headers)

    def open(self, text):
        status, reply, _ = self("POST", "texts", {"text": text, "pair": None, "model": self.server_model})
        assert status == 200, reply
        return json.loads(reply)

    def wait(self, job):
        for _ in range(600):
            reply = json.loads(self("GET", f"jobs/{job}")[1])
            if reply["state"] not in ("waiting", "running"):
                return reply
            time.sleep(0.05)
        raise AssertionError("the job does not end in time")


@pytest.fixture
def client(serving, model):
    client = Client(serving(model, words(20)))
    client.server_model = model.name
    return client


def test_it_listens_on_this_machine_only(client):
    assert client.server.address.startswith(f"http://127.0.0.1:{client.server.port}/{client.server.secret}/")
    assert len(client.server.secret) >= 32
    assert client.server._socket.getsockname()[0] == "127.0.0.1"


def test_the_page_has_a_strict_policy(client):
    status, reply, headers = client("GET", "")
    assert status == 200
    assert b"identiformer-server" in reply
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("", {"Host": "example.org"}, 421),
        ("", {"Host": "127.0.0.1:1"}, 421),
        ("", {"Origin": "http://example.org"}, 403),
        ("", {"Origin": "null"}, 403),
    ],
)
def test_wrong_hosts_and_origins_are_rejected(client, path, headers, status):
    rejected, reply, _ = client("GET", path, **headers)
    assert rejected == status
    assert b"open the address that the command printed" in reply


@pytest.mark.parametrize("path", ["/", "/texts", "/wrong/", "//", "/%00/"])
def test_the_secret_is_needed(client, path):
    status, reply, _ = client.ask("POST" if path == "/texts" else "GET", path)
    assert status == 403
    assert b"secret" in reply


def test_a_megabyte_of_text_is_rejected(client):
    status, reply, _ = client("POST", "texts", b"x" * 1_000_000)
    assert status == 413
    assert str(MOST_BYTES).encode() in reply
    status, reply, _ = client("POST", "texts", {"text": "x" * (MOST_CHARACTERS + 1), "model": client.server_model})
    assert (status, b"shorten it" in reply) == (422, True)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"text": 3, "model": "x"}', b"\xff"])
def test_malformed_bodies_are_rejected(client, body):
    status, reply, _ = client("POST", "texts", body)
    assert status == 422
    assert reply.startswith(b"expected")


def test_texts_too_long_for_the_model_are_rejected_with_a_sentence(client):
    status, reply, _ = client("POST", "texts", {"text": words(500), "model": client.server_model})
    assert status == 422
    assert b"expected at most 64 tokens" in reply


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


@pytest.mark.parametrize(
    "job",
    [
        {"task": "delete everything"},
        {"task": "certify", "layer": "2", "head": 0, "query": 0},
        {"task": "patch", "layer": 1, "head": 0, "query": 0, "row": "x"},
    ],
)
def test_malformed_jobs_are_rejected(client, job):
    text = client.open(words(20))["id"]
    status, reply, _ = client("POST", f"texts/{text}/jobs", job)
    assert (status, reply[:8]) == (422, b"expected")


def test_a_failed_job_gives_the_reason(client):
    text = client.open(words(20))["id"]
    job = {"task": "certify", "layer": 1, "head": 99, "query": 0}
    reply = client.wait(json.loads(client("POST", f"texts/{text}/jobs", job)[1])["job"])
    assert reply["state"] == "failed"
    assert "expected a head from 0 to 3" in reply["result"]


def test_only_the_latest_texts_stay_open(client):
    first = client.open(words(10))["id"]
    for _ in range(MOST_TEXTS):
        client.open(words(10))
    status, reply, _ = client("GET", f"texts/{first}/layers/1")
    assert (status, b"open it again" in reply) == (422, True)


def _endless(bar):
    bar.expect(1000)
    while True:
        time.sleep(0.01)
        bar.advance(0)


def test_fifty_jobs_at_once_are_bounded_and_a_canceled_one_ends():
    jobs = Jobs()
    started, rejected = [], 0
    for _ in range(50):
        try:
            started.append(jobs.start("text", _endless))
        except jobs_module.TooManyRequestsError:
            rejected += 1
    assert (len(started), rejected) == (MOST_JOBS, 50 - MOST_JOBS)
    for job in started:
        job.cancel()
    jobs.close()
    assert [job.state for job in started] == ["canceled"] * MOST_JOBS


def test_opening_a_text_cancels_only_the_jobs_of_the_one_before(client, monkeypatch):
    monkeypatch.setattr("identiformer.explorer.server.task", lambda text, request: _endless)
    mine, others = (client.open(words(20))["id"] for _ in range(2))
    jobs = [json.loads(client("POST", f"texts/{text}/jobs", {})[1])["job"] for text in (mine, others)]
    client("POST", "texts", {"text": words(10), "model": client.server_model, "before": mine})
    assert client.wait(jobs[0])["state"] == "canceled"
    assert json.loads(client("GET", f"jobs/{jobs[1]}")[1])["state"] in ("waiting", "running")
    client("DELETE", f"jobs/{jobs[1]}")


def test_reading_of_every_head(client, model):
    text = client.open(words(20))
    before = idf.attention_reading(model.trace(words(20)), certify=False)
    assert text["reading"]["sentences"] == reading_of(before).overview()
    assert not np.any(text["reading"]["certified"])
    done = client.wait(json.loads(client("POST", f"texts/{text['id']}/jobs", {"task": "read heads"})[1])["job"])["result"]
    reading = idf.read(model, words(20), agreement=False)
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
    reader = OpenText(model, model.trace(words(20)), None).reader
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
    heads = sum(layer.heads for layer in reader.stack.layers)
    assert len(seen) == heads, "no head is certified twice"


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
    reader = OpenText(model, model.trace(words(9), words(5)), None, "decoder").reader
    with work_bar("reading", False) as bar:
        panel = reader.read(bar, lambda partial: None)
    assert set(panel["numbers"]) == {"contributing", "certified", "sink_share"}
    assert {category for row in panel["categories"] for category in row} <= {"contributing", "sink", "undetermined"}


def test_corpus_medians_of_self_contribution(serving, model, tmp_path):
    corpus = idf.run([words(9), words(12)], model, ["token_attribution"], out=tmp_path / "run")["token_attribution"]
    client = Client(serving(model, words(20), corpus=corpus))
    client.server_model = model.name
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
    monkeypatch.setattr("identiformer.models.model.WEIGHTS_BUDGET", 0)
    monkeypatch.setattr("identiformer.explorer.texts.ROWS_IN_VIEW", 16)
    model = load(build("llama", SERVED["llama"]), word_tokenizer())
    client = Client(serving(model, words(40)))
    client.server_model = model.name
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
    client = Client(serving(model, words(20)))
    status, reply, _ = client("POST", "texts", {"text": words(9), "pair": words(5), "model": model.name})
    summary = json.loads(reply)
    assert (status, summary["kinds"], summary["kind"]) == (200, ["encoder", "decoder", "cross"], "encoder")
    cross = json.loads(client("POST", f"texts/{summary['id']}/kinds/cross")[1])
    assert cross["kind"] == "cross"
    assert len(cross["keys"]["texts"]) == len(summary["queries"]["texts"])
    assert client("GET", f"texts/{cross['id']}/layers/1")[0] == 200
    status, reply, _ = client("POST", f"texts/{summary['id']}/kinds/other")
    assert (status, b"expected one of the attention types" in reply) == (422, True)


def test_a_job_is_canceled_when_no_page_polls_it(monkeypatch):
    monkeypatch.setattr(jobs_module, "PATIENCE", 0.2)
    jobs = Jobs()
    job = jobs.start("text", _endless)
    for _ in range(100):
        if job.state == "canceled":
            break
        time.sleep(0.05)
    assert job.state == "canceled"
    jobs.close()


def test_too_many_jobs_get_a_status(client, monkeypatch):
    text = client.open(words(20))["id"]
    monkeypatch.setattr("identiformer.explorer.server.task", lambda text, request: _endless)
    answers = [client("POST", f"texts/{text}/jobs", {"task": "certify"}) for _ in range(MOST_JOBS + 1)]
    assert [status for status, _, _ in answers] == [202] * MOST_JOBS + [429]
    assert b"wait for one to end" in answers[-1][1]
    numbers = [json.loads(reply)["job"] for _, reply, _ in answers[:-1]]
    for number in numbers:
        client("DELETE", f"jobs/{number}")
    assert client.wait(numbers[0])["state"] == "canceled"


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_package_is_reported_with_the_command_that_installs_it(model, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=r"pip install 'identiformer\[explorer\]'"):
        LocalServer(Texts(lambda name: model, [], {}), {})


def test_the_memory_of_a_text_is_freed_when_it_is_no_longer_open(model):
    texts = Texts(lambda name: model, [model.name], {model.name: model})
    first = texts.open(words(10), None, model.name)
    first.layer(1)
    trace = weakref.ref(first.trace)
    del first
    for _ in range(MOST_TEXTS):
        texts.open(words(10), None, model.name)
    assert trace() is None


def test_a_port_in_use_is_reported(model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="choose another with --port"):
            LocalServer(Texts(lambda name: model, [], {}), {}, port=taken.getsockname()[1])
