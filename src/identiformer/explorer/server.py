"""The explorer's local server: a page, texts to look at, and jobs. Bound to this machine, behind a secret address."""

import secrets
import socket
from collections.abc import Callable
from typing import Any

from identiformer.errors import IdentiformerError, InputError, MissingPackageError
from identiformer.explorer.guard import OPEN, App, Guard
from identiformer.explorer.jobs import INTERNAL, Jobs, TooManyJobsError
from identiformer.explorer.parsing import read_object, shown, whole_in_address
from identiformer.explorer.tasks import task_of
from identiformer.explorer.texts import MOST_CHARACTERS, OpenText, Texts
from identiformer.page.html import json_element, policy, render

LOOPBACK = "127.0.0.1"
MOST_OPENING = 8
"""Texts that run through a model or wait for it at once."""


class TooManyTextsError(IdentiformerError):
    """More texts were to be opened at once than are accepted."""


class LocalServer:
    """A server that listens on this machine alone; its address holds a secret."""

    def __init__(self, texts: Texts, first: dict[str, Any], port: int = 0) -> None:
        try:
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401

            from identiformer.explorer.connections import Server
        except ImportError:
            raise MissingPackageError("the explorer needs a web server; pip install 'identiformer[explorer]'.") from None
        self._socket = _listen(port)
        self.port = self._socket.getsockname()[1]
        self.secret = secrets.token_urlsafe(24)
        self.address = f"http://{LOOPBACK}:{self.port}/{self.secret}/"
        self.texts, self.jobs = texts, Jobs()
        guarded = Guard(application(texts, self.jobs, self.secret, first), self.secret, self.port)
        self._server = Server(guarded)

    def run(self) -> None:
        """Serve until interrupted or stopped."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.jobs.close()
            self._socket.close()

    def stop(self) -> None:
        """End the serving, from another thread."""
        self._server.should_exit = True


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(f"port {port} cannot be used ({error}); choose another with --port, or leave it out.") from None
    listening.listen()
    return listening


def application(texts: Texts, jobs: Jobs, secret: str, first: dict[str, Any]) -> App:
    """The routes, without the guard that stands before them."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    opening = 0
    about = {"models": texts.names, "most_characters": MOST_CHARACTERS, **first}

    async def page(_: Request) -> Response:
        content = render("identiformer", json_element("identiformer-server", about))
        return HTMLResponse(content, headers={"content-security-policy": f"{policy()}; frame-ancestors 'none'"})

    async def asked(request: Request) -> dict[str, Any]:
        return read_object(await request.body())

    async def opened(open_one: Callable[[], OpenText]) -> Response:
        nonlocal opening
        if opening >= MOST_OPENING:
            raise TooManyTextsError(f"expected at most {MOST_OPENING} texts to be opened at once; wait for one of them.")
        opening += 1
        try:
            return JSONResponse(await run_in_threadpool(lambda: open_one().summary()))
        finally:
            opening -= 1

    async def open_text(request: Request) -> Response:
        given = await asked(request)
        if isinstance(given.get("before"), str):
            jobs.cancel(given["before"])  # what the page asked of the text before is no longer looked at
        return await opened(lambda: texts.open(given.get("text"), given.get("pair"), given.get("model")))

    async def open_kind(request: Request) -> Response:
        number, kind = request.path_params["text"], request.path_params["kind"]
        jobs.cancel(number)
        return await opened(lambda: texts.open_kind(number, kind))

    async def layer(request: Request) -> Response:
        text = texts.find(request.path_params["text"])
        content = await run_in_threadpool(text.layer, whole_in_address(request.path_params["layer"], "layer"))
        return Response(content, media_type="application/octet-stream")

    async def rows(request: Request) -> Response:
        text = texts.find(request.path_params["text"])
        number, first = (whole_in_address(request.path_params[name], name) for name in ("layer", "row"))
        content = await run_in_threadpool(text.rows, number, first)
        return Response(content, media_type="application/octet-stream")

    async def start_job(request: Request) -> Response:
        number = request.path_params["text"]
        job = jobs.start(number, task_of(texts.find(number), await asked(request)))
        return JSONResponse(job.told(), status_code=202)

    async def job(request: Request) -> Response:
        found = jobs.find(request.path_params["job"])
        if found is None:
            return PlainTextResponse("this job is not known any more; start it again.", status_code=404)
        if request.method == "DELETE":
            found.cancel()
        return JSONResponse(found.told())

    async def rejected(_: Request, error: Exception) -> Response:
        status = 429 if isinstance(error, TooManyJobsError | TooManyTextsError) else 422
        return PlainTextResponse(str(error), status_code=status)

    async def not_served(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        sentence = f"expected what the explorer's page asks for, got {shown(request.method)} of another address; {OPEN}."
        return PlainTextResponse(sentence, status_code=error.status_code, headers=error.headers)

    async def internal(_: Request, error: Exception) -> Response:
        return PlainTextResponse(INTERNAL, status_code=500)  # uvicorn writes the traceback to the terminal

    return Starlette(
        routes=[
            Route(f"/{secret}/", page),
            Route(f"/{secret}/texts", open_text, methods=["POST"]),
            Route(f"/{secret}/texts/{{text}}/kinds/{{kind}}", open_kind, methods=["POST"]),
            Route(f"/{secret}/texts/{{text}}/layers/{{layer}}", layer),
            Route(f"/{secret}/texts/{{text}}/layers/{{layer}}/rows/{{row}}", rows),
            Route(f"/{secret}/texts/{{text}}/jobs", start_job, methods=["POST"]),
            Route(f"/{secret}/jobs/{{job}}", job, methods=["GET", "DELETE"]),
        ],
        exception_handlers={IdentiformerError: rejected, HTTPException: not_served, Exception: internal},
    )
