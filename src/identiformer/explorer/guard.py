"""Who may ask: only pages that this server gave out, on this machine, by the address with its secret."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 128 * 1024
"""Of a request's body: a text of the longest length that is taken, however it is written."""
MOST_READ = 32 * MOST_BYTES
"""Of a body that is too large, before its client is cut off."""
MOST_IN_HEADERS = 16 * 1024
MOST_REQUESTS = 32
"""Answered at once."""
SECONDS_FOR_BODY = 10.0
OPEN = "open the address that the command printed"

HEADERS = {
    b"cache-control": b"no-store",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",  # the address holds the secret
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


class Guard:
    """Rejects a wrong Host (a name made to point here), a foreign Origin, a missing secret, and bodies too large or too slow."""

    def __init__(self, app: App, secret: str, port: int) -> None:
        self.app = app
        self.secret = secret
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
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
            [value.decode("latin-1") for name, value in scope["headers"] if name == wanted] for wanted in (b"host", b"origin")
        )
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_IN_HEADERS:
            raise _RejectedError(431, f"expected headers of at most {MOST_IN_HEADERS} bytes; {OPEN}.")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            raise _RejectedError(421, f"expected this machine's own address as the host; {OPEN}.")
        if not {f"http://{host}" for host in self.hosts}.issuperset(origins):
            raise _RejectedError(403, f"expected a request of the explorer's own page; {OPEN}.")
        first = scope["path"].removeprefix("/").split("/")[0]
        if not secrets.compare_digest(first.encode(), self.secret.encode()):
            raise _RejectedError(403, f"expected the secret of this server in the address; {OPEN}.")
        if self.running >= MOST_REQUESTS:
            raise _RejectedError(429, f"expected at most {MOST_REQUESTS} requests at once; wait for one to be answered.")


class _RejectedError(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


async def _read(receive: Receive) -> bytes | None:
    """The body of a request; None where the client has left.

    Of a body that is too large no more than that is kept, but more is read: a client that still sends misses the answer.
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
        raise _RejectedError(408, f"expected a whole request within {SECONDS_FOR_BODY:.0f} seconds; send it again.") from None
    if size > MOST_BYTES:
        raise _RejectedError(413, f"expected a request of at most {MOST_BYTES} bytes; shorten the text.")
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """What an application receives: the body that was read, then whatever comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


async def _reject(send: Send, status: int, sentence: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": sentence.encode()})
