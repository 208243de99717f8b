"""Only the server's own page, on this machine, gets responses, within limits."""

import json
import socket
import sys

import pytest

from identiformer.errors import InputError, MissingPackageError
from identiformer.explorer.guard import MOST_BYTES
from identiformer.explorer.jobs import MOST_JOBS
from identiformer.explorer.server import LocalServer
from identiformer.explorer.texts import MOST_CHARACTERS, Texts
from identiformer.models import load
from tests.explorer.client import Client, endless
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture
def client(serving, model):
    return Client(serving(model, words(20)), model)


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
    status, reply, _ = client("POST", "texts", {"text": "x" * (MOST_CHARACTERS + 1), "model": client.model.name})
    assert (status, b"shorten it" in reply) == (422, True)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"text": 3, "model": "x"}', b"\xff"])
def test_malformed_bodies_are_rejected(client, body):
    status, reply, _ = client("POST", "texts", body)
    assert status == 422
    assert reply.startswith(b"expected")


def test_texts_too_long_for_the_model_are_rejected_with_a_sentence(client):
    status, reply, _ = client("POST", "texts", {"text": words(500), "model": client.model.name})
    assert status == 422
    assert b"expected at most 64 tokens" in reply


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


def test_opening_a_text_cancels_only_the_jobs_of_the_one_before(client, monkeypatch):
    monkeypatch.setattr("identiformer.explorer.server.task", lambda text, request: endless)
    mine, others = (client.open(words(20))["id"] for _ in range(2))
    jobs = [json.loads(client("POST", f"texts/{text}/jobs", {})[1])["job"] for text in (mine, others)]
    client("POST", "texts", {"text": words(10), "model": client.model.name, "before": mine})
    assert client.wait(jobs[0])["state"] == "canceled"
    assert json.loads(client("GET", f"jobs/{jobs[1]}")[1])["state"] in ("waiting", "running")
    client("DELETE", f"jobs/{jobs[1]}")


def test_too_many_jobs_get_a_status(client, monkeypatch):
    text = client.open(words(20))["id"]
    monkeypatch.setattr("identiformer.explorer.server.task", lambda text, request: endless)
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


def test_a_port_in_use_is_reported(model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="choose another with --port"):
            LocalServer(Texts(lambda name: model, [], {}), {}, port=taken.getsockname()[1])
