"""Who may ask: only pages that this server gave out, on this machine, by the address with its secret."""

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

HEADERS = {
    b"cache-control": b"no-store",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",  # the address holds the secret
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


class Guard:
    """Refuses a wrong Host (a name that was made to point here), a foreign Origin, a missing secret and a body too large."""

    def __init__(self, app: App, secret: str, port: int) -> None:
        self.app = app
        self.secret = secret
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS.items()]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send_guarded, *refusal)
            return
        body = await _read(receive)
        if body is None:
            await _refuse(send_guarded, 413, f"expected a request of at most {MOST_BYTES} bytes; shorten the text.")
            return
        given = False

        async def receive_again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, receive_again, send_guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get(b"host") not in self.hosts:
            return 421, "expected this machine's own address as the host; open the address that the command printed."
        origin = headers.get(b"origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            return 403, "expected a request of the explorer's own page; open the address that the command printed."
        first = scope["path"].split("/")[1]
        if not secrets.compare_digest(first.encode(), self.secret.encode()):
            return 403, "expected the secret of this server in the address; open the address that the command printed."
        return None


async def _read(receive: Receive) -> bytes | None:
    """The body of a request; None where it is too large, of which no more than that is kept."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return body
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            return None
        if not message.get("more_body"):
            return body


async def _refuse(send: Send, status: int, sentence: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": sentence.encode()})
