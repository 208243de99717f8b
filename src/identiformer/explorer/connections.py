"""How long one client may take, and how many may be connected, so that none of them locks the user out."""

import asyncio
import socket
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from identiformer.explorer.guard import App

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

MOST_CONNECTIONS = 150
"""Open at once; of more than these, the one that has been idle longest is closed."""
ACCEPTED = 50
"""Connections accepted in one turn of the event loop: a new one is read within three turns, before as many could replace it."""
WAITING = 1024
"""Connections that the kernel holds until they are accepted; with a full queue, a client tries again only after a second."""
SECONDS_TO_ASK = 10.0
"""From the first moment of a connection, or from the first byte of a later request, to the end of the headers."""
SECONDS_TO_READ = 30.0
"""For a client to take a response in; on one machine, the largest takes a fraction of a second."""


class Server(uvicorn.Server):
    """uvicorn with such connections, which says nothing of what its clients do wrong."""

    def __init__(self, app: App) -> None:
        # Of malformed requests, about which uvicorn warns, any local process can send as many as it likes.
        silence = {"log_level": "error", "access_log": False, "server_header": False}
        options = {"lifespan": "off", "ws": "none", "backlog": ACCEPTED, "timeout_graceful_shutdown": 2}
        super().__init__(uvicorn.Config(app, http=Connection, **silence, **options))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(WAITING)  # asyncio takes one number for the queue and for what it accepts in a turn


class Connection(H11Protocol):
    """A connection that ends when its client is slow, and gives way to newer ones while nothing runs for it.

    uvicorn by itself waits for headers without end, and rejects every request while too many connections are open.
    """

    _deadline: "TimerHandle | None" = None
    _flush: "TimerHandle | None" = None
    _idle_since = 0.0

    @property
    def busy(self) -> bool:
        """Whether a request has come and its response has not yet been made."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: "Transport") -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._deadline = self.loop.call_later(SECONDS_TO_ASK, self._give_up)
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [each for each in self.connections if isinstance(each, Connection) and not each.busy]
            oldest = min(idle, key=lambda each: each._idle_since)
            self.connections.discard(oldest)  # now, as many may come before it hears that it is lost
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
            self._reject(408, f"expected a whole request within {SECONDS_TO_ASK:.0f} seconds, got a part of one; send it again.")
        else:
            self.transport.close()  # browsers keep a connection in reserve, and expect no answer to a question they did not ask

    def _drop_unread(self) -> None:
        self._flush = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._reject(400, "expected an HTTP request with short headers, got something else; open the address that was printed.")

    def _reject(self, status: int, sentence: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # in the middle of another response
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        events = [h11.Response(status_code=status, headers=headers), h11.Data(data=sentence.encode()), h11.EndOfMessage()]
        # In one piece: a client that goes on sending resets the connection, and would lose what comes later.
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def _canceled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
