"""Requests that no page sends, as raw bytes; the server must answer each with one sentence and a 4xx status."""

import json
import socket
from collections.abc import Iterator
from typing import Any

LONG = "x" * 4000
DEEP = 20_000
NUMBERS = (
    "1" + "0" * 30,
    "1" + "0" * 400,
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "-1",
    "0.5",
    "true",
    "null",
    '"1"',
    "[1]",
    "{}",
)
"""Valid JSON, and what some libraries write instead."""


def http(method: str, path: str, port: int, body: bytes = b"", headers: tuple[str, ...] = (), host: str | None = None) -> bytes:
    """One HTTP/1.1 request; the server closes the connection after its response."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def bodies(model: str) -> Iterator[tuple[str, bytes]]:
    """Bodies that must not open a text."""
    name = json.dumps(model).encode()
    yield "nothing", b""
    yield "no JSON", b"{"
    yield "a list", b"[]"
    yield "a string", b'"text"'
    yield "undecodable bytes", b"\xff\xfe\xff"
    yield "null bytes", b"\0" * 64
    yield "lists in lists", b"[" * DEEP + b"]" * DEEP
    yield "lists in a field", b'{"text": "w1", "model": ' + b"[" * 900 + b"]" * 900 + b"}"
    yield "lists in lists in a field", b'{"text": ' + b"[" * DEEP + b"]" * DEEP + b', "model": ' + name + b"}"
    yield "objects in objects", b'{"text":' * DEEP + b"1" + b"}" * DEEP
    yield "lone surrogate in the text", b'{"text": "w1 \\ud800", "model": ' + name + b"}"
    yield "lone surrogate in raw bytes", b'{"text": "w1 \xed\xa0\x80", "model": ' + name + b"}"
    yield "lone surrogate in the pair", b'{"text": "w1", "pair": "\\udfff", "model": ' + name + b"}"
    yield "lone surrogate in the model", b'{"text": "w1", "model": "\\ud83d"}'
    yield "lone surrogate in a name", b'{"text": "w1", "\\ud83d": 1, "model": ' + name + b"}"
    yield "a number of 5,000 digits", b'{"text": ' + b"9" * 5000 + b', "model": ' + name + b"}"
    yield "an unknown model", json.dumps({"text": "w1", "model": LONG}).encode()
    yield "a model that is a path", b'{"text": "w1", "model": "../../etc/passwd"}'
    yield "a model that is an object", b'{"text": "w1", "model": {"name": ' + name + b"}}"
    yield "an empty text", b'{"text": "", "model": ' + name + b"}"
    yield "a text too long for the page", b'{"text": "' + b"w1 " * 12_000 + b'", "model": ' + name + b"}"
    yield "a text too long for the model", b'{"text": "' + b"w1 " * 500 + b'", "model": ' + name + b"}"
    yield "a pair of the wrong type", b'{"text": "w1", "pair": [], "model": ' + name + b"}"
    for number in NUMBERS:
        if number.startswith('"'):
            continue
        yield f"a text that is {number[:12]}", b'{"text": ' + number.encode() + b', "model": ' + name + b"}"


def jobs() -> Iterator[tuple[str, bytes]]:
    """Bodies that must not start a job, or only one that fails."""
    yield "no task", b"{}"
    yield "an unknown task", json.dumps({"task": LONG}).encode()
    yield "a task with a lone surrogate", b'{"task": "\\ud800"}'
    yield "a task that is a list", b'{"task": ' + b"[" * 900 + b"]" * 900 + b"}"
    for task in ("certify", "patch"):
        for field in ("layer", "head", "query"):
            for number in NUMBERS:
                values = {"layer": b"1", "head": b"0", "query": b"0", field: number.encode()}
                fields = b", ".join(b'"%s": %s' % (name.encode(), value) for name, value in values.items())
                yield f"{task} with {field} {number[:12]}", b'{"task": "%s", "row": [1], %s}' % (task.encode(), fields)
    for number in (*NUMBERS, "0", "1e308, 1e308", "1" * 4000):
        row = number.encode()
        yield f"a row of {number[:12]}", b'{"task": "patch", "layer": 1, "head": 0, "query": 0, "row": [%s]}' % row
        whole = b",".join([row] * 7)  # as many as the text has tokens
        yield f"a whole row of {number[:12]}", b'{"task": "patch", "layer": 1, "head": 0, "query": 0, "row": [%s]}' % whole
    yield "a row that sums to zero", b'{"task": "patch", "layer": 1, "head": 0, "query": 0, "row": [1, -1, 0, 0, 0, 0, 0]}'
    yield "a row that is an object", b'{"task": "patch", "layer": 1, "head": 0, "query": 0, "row": {}}'


def addresses(secret: str, text: str, port: int) -> Iterator[tuple[str, bytes]]:
    """Requests with addresses, methods and headers that no page sends."""
    home = f"/{secret}"
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST", "BREW"):
        yield f"{method} of the page", http(method, f"{home}/", port)
    yield "GET of what is posted to", http("GET", f"{home}/texts", port)
    yield "POST to a layer", http("POST", f"{home}/texts/{text}/layers/1", port, b"{}")
    paths = (
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/\\..\\x",
        "/%00",
        "/texts/%ED%A0%80/layers/1",
    )
    for path in (
        *paths,
        "/nothing",
        f"/texts/{LONG}/layers/1",
        "/texts/unknown/layers/1",
        "/jobs/unknown",
        "/jobs/%FF",
    ):
        yield f"address {path[:30]}", http("GET", home + path, port)
    for number in ("-1", "0", "3", "1" + "0" * 30, "9" * 5000, "1e3", "NaN", "true", "%31%30%30", "1%0A", "%D9%A3"):
        yield f"layer {number[:12]}", http("GET", f"{home}/texts/{text}/layers/{number}", port)
        yield f"row {number[:12]}", http("GET", f"{home}/texts/{text}/layers/1/rows/{number}", port)
    yield "an unknown attention type", http("POST", f"{home}/texts/{text}/kinds/%FF{LONG}", port)
    yield "an attention type of an unknown text", http("POST", f"{home}/texts/unknown/kinds/self", port)
    yield "a form", http("POST", f"{home}/texts", port, b"text=w1&model=x", ("Content-Type: application/x-www-form-urlencoded",))
    yield (
        "a body of many parts",
        http("POST", f"{home}/texts", port, b"--a\r\n\r\nx\r\n--a--", ("Content-Type: multipart/form-data; boundary=a",)),
    )
    yield "a packed body", http("POST", f"{home}/texts", port, b"\x1f\x8b\x08\0\0", ("Content-Encoding: gzip",))
    yield "a megabyte", http("POST", f"{home}/texts", port, b"x" * 1_000_000)
    yield "no secret", http("GET", "/", port)
    yield "another secret", http("GET", f"/{'x' * len(secret)}/", port)
    yield "part of the secret", http("GET", f"{home[:-1]}/", port)
    yield "a star for an address", http("OPTIONS", "*", port)
    yield "an authority for an address", http("CONNECT", f"127.0.0.1:{port}", port)
    yield "an absolute address", http("GET", f"http://example.org{home}/", port)
    for host in (
        "example.org",
        f"example.org:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1:{port}.example.org",
        f"[::1]:{port}",
        "",
    ):
        yield f"host {host}", http("GET", f"{home}/", port, host=host or " ")
    for origin in (
        "null",
        "http://example.org",
        "file://",
        f"https://127.0.0.1:{port}",
        f"http://127.0.0.1:{port}.example.org",
        "\xff",
    ):
        yield f"origin {origin}", http("GET", f"{home}/", port, headers=(f"Origin: {origin}",))
    origin = f"Origin: http://127.0.0.1:{port}"
    yield "two origins", http("GET", f"{home}/", port, headers=("Origin: http://example.org", origin))


def broken(secret: str, port: int) -> Iterator[tuple[str, bytes]]:
    """Bytes that are not HTTP, or violate it."""
    home = f"GET /{secret}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode()
    post = home.replace(b"GET", b"POST").replace(b"/ HTTP", b"/texts HTTP")
    yield "not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n"
    yield "a word", b"hello\r\n\r\n"
    yield "HTTP/1.0 without a host", b"GET / HTTP/1.0\r\n\r\n"
    yield "no host", f"GET /{secret}/ HTTP/1.1\r\n\r\n".encode()
    yield "two hosts", home + b"Host: example.org\r\n\r\n"
    yield "a header of 100,000 bytes", home + b"X: " + b"x" * 100_000 + b"\r\n\r\n"
    yield "an address of 100,000 bytes", b"GET /" + b"x" * 100_000
    yield "ten thousand headers", home + b"X: 1\r\n" * 10_000 + b"\r\n"
    yield "a header without a name", home + b": x\r\n\r\n"
    yield "a null in a header", home + b"X: \0\r\n\r\n"
    yield "a folded header", home + b"Content-Length: 1\r\n 2\r\n\r\n"
    yield "a negative length", post + b"Content-Length: -1\r\n\r\n"
    yield "a length that is not a number", post + b"Content-Length: x\r\n\r\n"
    yield "an absurd length", post + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + b"x" * 200_000
    yield "two lengths", post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"
    yield "a chunk of an absurd size", post + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n"
    yield "a chunk without a size", post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    yield "an unknown encoding", post + b"Transfer-Encoding: x\r\n\r\n"


def everything(secret: str, text: str, port: int, model: str) -> Iterator[tuple[str, bytes]]:
    """All of the above, except jobs that may start and then fail."""
    yield from addresses(secret, text, port)
    yield from broken(secret, port)
    yield from ((f"text: {name}", http("POST", f"/{secret}/texts", port, body)) for name, body in bodies(model))


def answer(port: int, request: bytes, timeout: float = 20.0) -> tuple[int, bytes]:
    """Send bytes and return the status and body of the response; status 0 if there is none."""
    reply = b""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        try:
            connection.sendall(request)
            while more := connection.recv(2**16):
                reply += more
        except (ConnectionResetError, BrokenPipeError):
            pass
    return parsed(reply)


def parsed(reply: bytes) -> tuple[int, bytes]:
    """Status and body of one response."""
    head, _, body = reply.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0
    return status, _joined(body) if b"transfer-encoding: chunked" in head.lower() else body


def _joined(body: bytes) -> bytes:
    size, _, rest = body.partition(b"\r\n")
    length = int(size or b"0", 16)
    return rest[:length] + _joined(rest[length + 2 :]) if length else b""


def is_a_sentence(text: Any) -> bool:
    """Whether a page can show it: one line of plain words, without the name of a Python error."""
    return isinstance(text, str) and 10 < len(text) < 400 and "\n" not in text and "Error" not in text and "Traceback" not in text
