"""Whatever a client sends, the response is one sentence and a 4xx status, and the server keeps running."""

import json
import logging

import pytest

from identiformer.explorer.jobs import INTERNAL
from identiformer.models import load
from tests.explorer.malformed import answer, everything, http, is_a_sentence, jobs
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture
def served(serving, model):
    """A server, and a function that sends it requests."""
    server = serving(model, words(5))

    def ask(method, path, body=None):
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        status, reply = answer(server.port, http(method, f"/{server.secret}/{path}", server.port, content))
        return status, reply.decode()

    return server, ask


def _opened(ask, model):
    status, reply = ask("POST", "texts", {"text": words(5), "model": model.name})
    assert status == 200, reply
    return json.loads(reply)["id"]


def test_malformed_requests_get_a_sentence(served, model):
    server, ask = served
    text = _opened(ask, model)
    wrong = []
    for name, request in everything(server.secret, text, server.port, model.name):
        status, reply = answer(server.port, request)
        if not (400 <= status < 500 and is_a_sentence(reply.decode())):
            wrong.append((name, status, reply[:200]))
    assert wrong == []
    assert ask("POST", f"texts/{text}/kinds/self")[0] == 200


def test_malformed_jobs_get_a_sentence(served, model, caplog):
    _, ask = served
    text = _opened(ask, model)
    wrong = []
    for name, body in jobs():
        status, reply = ask("POST", f"texts/{text}/jobs", body)
        while status == 202 and (state := json.loads(reply))["state"] in ("waiting", "running"):
            _, reply = ask("GET", f"jobs/{state['job']}")
        if status == 202:
            if not (state["state"] == "failed" and is_a_sentence(state["result"])):
                wrong.append((name, state))
        elif not (status == 422 and is_a_sentence(reply)):
            wrong.append((name, status, reply[:200]))
    assert wrong == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_an_internal_error_is_a_sentence_and_a_traceback_in_the_terminal(served, model, monkeypatch, caplog):
    _, ask = served
    monkeypatch.setattr(logging.getLogger("uvicorn"), "handlers", [caplog.handler])
    monkeypatch.setattr(model, "trace", lambda *texts, **options: 1 / 0)
    assert ask("POST", "texts", {"text": words(5), "model": model.name}) == (500, INTERNAL)
    assert [record.exc_info[0] for record in caplog.records if record.levelno >= logging.ERROR] == [ZeroDivisionError]
