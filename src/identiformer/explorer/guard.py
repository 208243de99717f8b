"""Accept requests only from pages of this server, on this machine, at the address with its secret."""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from identiformer.errors import InputError, require_package

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"
MOST_BYTES = 128 * 1024
"""Of a request body: the longest text that is accepted, in any encoding of JSON."""
MOST_READ = 32 * MOST_BYTES
"""Of a body that is too large, before the connection is closed."""
MOST_IN_HEADERS = 16 * 1024
MOST_REQUESTS = 32
"""Processed at once."""
SECONDS_FOR_BODY = 10.0
OPEN = "open the address that the command printed"

HEADERS = {
    b"cache-control": b"no-store",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",  # the address contains the secret
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


def listen(port: int) -> socket.socket:
    """A socket on this machine only; port 0 stands for any free one."""
    for package in ("starlette", "uvicorn"):
        require_package(package, "explorer", "the explorer needs a web server")
    try:
        if not 0 <= port < 2**16:
            raise OSError("there is no such port")
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise InputError(f"port {port} cannot be used ({error}); choose another with --port, or omit it.") from None


class Guard:
    """Rejects a wrong Host (DNS rebinding), a foreign Origin, a missing secret, and bodies that are too large or too slow."""

    def __init__(self, app: App, secret: str, port: int) -> None:
        self.app = app
        self.secret = secret
        self.hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS.items()]
            await send(message)

        try:
            self._check(scope)
            self.running += 1
            try:
                body = await _read(receive)
                if body is not None:
                    await self.app(scope, _replay(body, receive), send_guarded)
            finally:
                self.running -= 1
        except _RejectedError as rejected:
            await _reject(send_guarded, rejected.status, str(rejected))

    def _check(self, scope: Scope) -> None:
        hosts, origins = (
            [value.decode("latin-1") for name, value in scope["headers"] if name == header] for header in (b"host", b"origin")
        )
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_IN_HEADERS:
            raise _RejectedError(431, f"expected headers of at most {MOST_IN_HEADERS} bytes, got more; {OPEN}.")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            raise _RejectedError(421, f"expected this machine as the host, got another; {OPEN}.")
        if not {f"http://{host}" for host in self.hosts}.issuperset(origins):
            raise _RejectedError(403, f"expected a request from the explorer's page, got one from elsewhere; {OPEN}.")
        secret = scope["path"].removeprefix("/").split("/")[0]
        if not secrets.compare_digest(secret.encode(), self.secret.encode()):
            raise _RejectedError(403, f"expected the secret of this server in the address, got another; {OPEN}.")
        if self.running >= MOST_REQUESTS:
            raise _RejectedError(429, f"expected at most {MOST_REQUESTS} requests at once, got more; wait for a response.")


class _RejectedError(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


async def _read(receive: Receive) -> bytes | None:
    """The body of a request; None if the client has disconnected.

    A body that is too large is read further, without keeping it: a client that is still sending would miss the response.
    """
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(SECONDS_FOR_BODY):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                size += len(message.get("body", b""))
                if size <= MOST_BYTES:
                    body += message.get("body", b"")
                if size > MOST_READ or not message.get("more_body"):
                    break
    except TimeoutError:
        raise _RejectedError(
            408, f"expected a whole request within {SECONDS_FOR_BODY:.0f} seconds, got part of one; send it again."
        ) from None
    if size > MOST_BYTES:
        raise _RejectedError(413, f"expected a request of at most {MOST_BYTES} bytes, got more; shorten the text.")
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body that was read, then later messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


async def _reject(send: Send, status: int, sentence: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": sentence.encode()})
