"""Limits on slow and numerous clients, so that none of them can lock the user out."""

import asyncio
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from identiformer.explorer.guard import OPEN, App

MOST_CONNECTIONS = 150
"""Open at once; when one more arrives, the connection that has been idle longest is closed."""
ACCEPTED = 50
"""Connections accepted per turn of the event loop: a new one is read within three turns, before as many others displace it."""
WAITING = 1024
"""Length of the kernel's queue of connections; when it is full, a client retries only after a second."""
SECONDS_TO_ASK = 10.0
"""From the start of a connection, or the first byte of a later request, to the end of the headers."""
SECONDS_TO_READ = 30.0
"""For a client to read a response; on one machine, the largest takes a fraction of a second."""


class Server(uvicorn.Server):
    """uvicorn with these limits, without log messages about what its clients do wrong."""

    def __init__(self, app: App) -> None:
        # uvicorn warns about malformed requests, and any local process can send as many as it likes.
        silence = {"log_level": "error", "access_log": False, "server_header": False}
        options = {"lifespan": "off", "ws": "none", "backlog": ACCEPTED, "timeout_graceful_shutdown": 2}
        super().__init__(uvicorn.Config(app, http=Connection, **silence, **options))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(WAITING)  # asyncio uses one number for the queue and for how many it accepts per turn

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        # uvicorn leaves those open whose client does not read its response, or that arrived while it closed the others.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the event loop closes them in its next turn


class Connection(H11Protocol):
    """A connection that ends when its client is slow, and gives way to newer ones while it is idle.

    By default, uvicorn waits for headers forever, and rejects every request while too many connections are open.
    """

    _deadline: asyncio.TimerHandle | None = None
    _flush: asyncio.TimerHandle | None = None
    _idle_since = 0.0

    @property
    def busy(self) -> bool:
        """Whether a request has arrived and its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._deadline = self.loop.call_later(SECONDS_TO_ASK, self._give_up)
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [other for other in self.connections if isinstance(other, Connection) and not other.busy]
            oldest = min(idle, key=lambda other: other._idle_since)
            self.connections.discard(oldest)  # now, because many may arrive before connection_lost is called
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.busy:
            self._deadline = _canceled(self._deadline)
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(SECONDS_TO_ASK, self._give_up)

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        self._deadline = _canceled(self._deadline)
        if self._flush is None and self.transport.get_write_buffer_size():
            self._flush = self.loop.call_later(SECONDS_TO_READ, self._drop_unread)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline, self._flush = _canceled(self._deadline), _canceled(self._flush)
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self._deadline = None
        if self.busy or self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            self._reject(408, f"expected a whole request within {SECONDS_TO_ASK:.0f} seconds, got part of one; send it again.")
        else:
            self.transport.close()  # browsers keep an unused connection open, and expect no response on it

    def _drop_unread(self) -> None:
        self._flush = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._reject(400, f"expected an HTTP request with short headers, got something else; {OPEN}.")

    def _reject(self, status: int, sentence: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # in the middle of another response
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        events = [h11.Response(status_code=status, headers=headers), h11.Data(data=sentence.encode()), h11.EndOfMessage()]
        # In one piece: a client that continues to send resets the connection, and would lose the rest.
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def _canceled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
