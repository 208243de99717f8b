"""No client can lock the user out: not by idling, nor by slow or numerous requests."""

import contextlib
import json
import select
import socket
import threading
import time

import pytest

from identiformer.explorer import connections, guard, server
from identiformer.explorer.texts import Texts
from identiformer.models import load
from tests.explorer.malformed import answer, http, is_a_sentence, parsed
from tests.models.families import SERVED, build, word_tokenizer, words


@pytest.fixture(scope="module")
def model():
    return load(build("bert", SERVED["bert"]), word_tokenizer())


@pytest.fixture
def served(serving, model):
    return serving(model, words(5))


@pytest.fixture
def connect(served):
    """Connections to the server, closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10))


def _page(served):
    """Seconds until the user has the page."""
    start = time.monotonic()
    status, _ = answer(served.port, http("GET", f"/{served.secret}/", served.port))
    assert status == 200
    return time.monotonic() - start


def _received(connection):
    """All that the server sends before it closes the connection."""
    reply = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(2**16):
            reply += more
    return reply


def _open_connections(served):
    return len(served._server.server_state.connections)


def _until(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the condition is not met in time")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n"])
def test_idle_connections_give_way_to_the_user(served, connect, sent):
    idle = [connect() for _ in range(2 * connections.MOST_CONNECTIONS)]
    for connection in idle:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(sent)
    assert _page(served) < 1
    assert _open_connections(served) <= connections.MOST_CONNECTIONS


def test_idle_connections_are_closed_without_an_answer(served, connect, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_ASK", 0.2)
    assert _received(connect()) == b""
    _until(lambda: _open_connections(served) == 0)


def test_headers_that_arrive_byte_by_byte_time_out(served, connect, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_ASK", 0.3)
    connection = connect()
    first = http("GET", f"/{served.secret}/", served.port).replace(b"Connection: close", b"Connection: keep-alive")
    connection.sendall(first)
    while select.select([connection], [], [], 0.2)[0]:  # the whole page: a connection with a completed request is like a new one
        connection.recv(2**16)
    start = time.monotonic()
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for byte in first:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
    assert time.monotonic() - start < 3
    reply = _received(connection)
    status, sentence = parsed(reply[reply.rindex(b"HTTP/1.1 ") :])
    assert (status, is_a_sentence(sentence.decode())) == (408, True)


def test_a_body_that_does_not_arrive_times_out(served, connect, monkeypatch):
    monkeypatch.setattr(guard, "SECONDS_FOR_BODY", 0.2)
    connection = connect()
    connection.sendall(http("POST", f"/{served.secret}/texts", served.port, headers=("Content-Length: 100",)) + b"{")
    status, sentence = parsed(_received(connection))
    assert (status, is_a_sentence(sentence.decode())) == (408, True)


def test_a_response_that_nobody_reads_is_dropped(served, connect, monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_READ", 0.3)
    request = http("GET", f"/{served.secret}/", served.port).replace(b"Connection: close", b"Connection: keep-alive")
    for _ in range(3):
        connect().sendall(request * 200)  # more pages than fit into the buffers of a connection
    _until(lambda: _open_connections(served) == 3)
    assert _page(served) < 1
    _until(lambda: _open_connections(served) == 0)


def test_half_closed_and_abandoned_connections_are_cleaned_up(served, connect):
    for sent in (b"", b"GET /", http("POST", f"/{served.secret}/texts", served.port, headers=("Content-Length: 9",)) + b"{"):
        half = connect()
        half.sendall(sent)
        half.shutdown(socket.SHUT_WR)
        closed = connect()
        closed.sendall(sent)
        closed.close()
    _until(lambda: _open_connections(served) == 0)
    assert _page(served) < 1


def test_pipelined_requests_are_answered_in_order(served, connect):
    page = http("GET", f"/{served.secret}/", served.port).replace(b"Connection: close", b"Connection: keep-alive")
    connection = connect()
    connection.sendall(page + page + http("GET", f"/{served.secret}/jobs/unknown", served.port))
    reply = _received(connection)
    assert [reply.count(status) for status in (b"HTTP/1.1 200", b"HTTP/1.1 404")] == [2, 1]


def test_too_many_requests_at_once(served, connect):
    post = http("POST", f"/{served.secret}/texts", served.port, headers=("Content-Length: 2",))
    for _ in range(guard.MOST_REQUESTS):
        connect().sendall(post)
    _until(lambda: _open_connections(served) == guard.MOST_REQUESTS)
    status, reply = answer(served.port, http("GET", f"/{served.secret}/", served.port))
    assert (status, is_a_sentence(reply.decode())) == (429, True)


def test_too_many_texts_at_once(served, model, monkeypatch):
    trace, released = model.trace, threading.Event()
    monkeypatch.setattr(model, "trace", lambda *texts, **options: released.wait(20) and trace(*texts, **options))
    request = http("POST", f"/{served.secret}/texts", served.port, json.dumps({"text": "w1", "model": model.name}).encode())
    statuses = []
    clients = [
        threading.Thread(target=lambda: statuses.append(answer(served.port, request)[0])) for _ in range(server.MOST_OPENING + 3)
    ]
    for client in clients:
        client.start()
    _until(lambda: statuses == [429] * 3)
    assert _page(served) < 1
    released.set()
    for client in clients:
        client.join()
    assert sorted(statuses) == [200] * server.MOST_OPENING + [429] * 3


def test_open_texts_are_served_while_a_model_loads(served, model, monkeypatch):
    texts = served.texts
    text = texts.open(words(5), None, model.name)
    released = threading.Event()
    monkeypatch.setattr(texts, "_load", lambda name: released.wait(20) and model)
    opening = threading.Thread(target=texts.open, args=(words(5), None, "another"))
    opening.start()
    start = time.monotonic()
    assert answer(served.port, http("GET", f"/{served.secret}/texts/{text.id}/layers/1", served.port))[0] == 200
    assert time.monotonic() - start < 1
    released.set()
    opening.join()


def test_a_stopped_server_leaves_no_connection_open(model):
    texts = Texts(lambda _: model, [model.name], {model.name: model})
    with contextlib.ExitStack() as clients, server.LocalServer(texts, {}) as served:
        request = http("GET", f"/{served.secret}/", served.port).replace(b"Connection: close", b"Connection: keep-alive")
        for sent in (b"", request[:5], request * 200):  # more pages than fit into the buffers of a connection
            clients.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10)).sendall(sent)
        _until(lambda: _open_connections(served) == 3)
        transports = [connection.transport for connection in served._server.server_state.connections]
        served.stop()
        served._thread.join()
        assert [transport.get_extra_info("socket").fileno() for transport in transports] == [-1] * 3
