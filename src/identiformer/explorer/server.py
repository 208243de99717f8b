"""The explorer's local server: the page, open texts and jobs, on this machine only, at an address with a secret."""

import secrets
import threading
from collections.abc import Callable
from reprlib import repr as short  # of a value that may be large or deep
from typing import Any

from identiformer.errors import IdentiformerError, TextTooLongError
from identiformer.explorer.guard import LOOPBACK, OPEN, App, Guard, listen
from identiformer.explorer.jobs import INTERNAL, Jobs, TooManyRequestsError
from identiformer.explorer.requests import BACKGROUND, read_integer_in_address, read_object, task
from identiformer.explorer.texts import MOST_CHARACTERS, OpenText, Texts
from identiformer.page.html import PAGE, content_security_policy, json_element, render
from identiformer.texts import PASSAGE

EXAMPLES = [
    {"title": "A story: some weights are certain, some are not", "text": PASSAGE, "pair": None},
    {"title": "A short sentence: every weight is determined", "text": "He said that the pie was his.", "pair": None},
    {
        "title": "A pair of sentences: what crosses from one to the other",
        "text": "The company that runs the ferry closed its winter route last week, and the islanders wrote to the minister.",
        "pair": "Because the route is closed in winter, people on the island complained to the government about the ferry.",
    },
]
"""Three texts: longer than a head is wide, shorter, and a pair."""
MOST_OPENING = 8
"""Texts that are run through a model, or wait for it, at once."""


class LocalServer:
    """A server that listens on this machine only; its address contains a secret. In a `with` statement, it runs in a thread."""

    def __init__(self, texts: Texts, first: dict[str, Any], port: int = 0) -> None:
        self._socket = listen(port)
        from identiformer.explorer.connections import Server

        self.port = self._socket.getsockname()[1]
        self.secret = secrets.token_urlsafe(24)
        self.address = f"http://{LOOPBACK}:{self.port}/{self.secret}/"
        self.texts, self.jobs = texts, Jobs()
        self._server = Server(Guard(application(texts, self.jobs, self.secret, first), self.secret, self.port))
        self._thread = threading.Thread(target=self.run)

    def run(self) -> None:
        """Serve until interrupted or stopped."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.jobs.close()
            self._socket.close()

    def stop(self) -> None:
        """Stop serving; called from another thread."""
        self._server.should_exit = True

    def __enter__(self) -> "LocalServer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._thread.join()


def application(texts: Texts, jobs: Jobs, secret: str, first: dict[str, Any]) -> App:
    """The routes, without the guard in front of them; `first` is the text, pair and model that the page opens with."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    opening = 0
    about = {"models": texts.names, "most_characters": MOST_CHARACTERS, "examples": EXAMPLES, **first}

    async def page(_: Request) -> Response:
        content = render(PAGE, title="identiformer", first=json_element("server", about), rest="")
        return HTMLResponse(content, headers={"content-security-policy": f"{content_security_policy()}; frame-ancestors 'none'"})

    async def opened(open_one: Callable[[], OpenText]) -> Response:
        nonlocal opening
        if opening >= MOST_OPENING:
            raise TooManyRequestsError(f"expected at most {MOST_OPENING} texts to be opened at once, got more; wait for one.")
        opening += 1
        try:
            return JSONResponse(await run_in_threadpool(lambda: open_one().summary()))
        finally:
            opening -= 1

    async def open_text(request: Request) -> Response:
        content = read_object(await request.body())
        if isinstance(content.get("before"), str):
            jobs.cancel(content["before"])  # the page no longer shows the text before
        text, pair, model = (content.get(name) for name in ("text", "pair", "model"))
        return await opened(lambda: texts.open(text, pair, model, truncate=content.get("truncate") is True))

    async def open_kind(request: Request) -> Response:
        text_id, kind = request.path_params["text"], request.path_params["kind"]
        jobs.cancel(text_id)
        return await opened(lambda: texts.open_kind(text_id, kind))

    async def layer(request: Request) -> Response:
        text = texts.find(request.path_params["text"])
        number, *row = (read_integer_in_address(value, name) for name, value in request.path_params.items() if name != "text")
        pack: Callable[..., bytes] = text.rows if row else text.layer
        content = await run_in_threadpool(pack, number, *row)
        return Response(content, media_type="application/octet-stream")

    async def bounds(request: Request) -> Response:
        text = texts.find(request.path_params["text"])
        layer, head = (read_integer_in_address(request.path_params[name], name) for name in ("layer", "head"))
        return Response(text.certified(layer, head), media_type="application/octet-stream")

    async def start_job(request: Request) -> Response:
        text_id = request.path_params["text"]
        content = read_object(await request.body())
        job = jobs.start(text_id, task(texts.find(text_id), content), background=content.get("task") == BACKGROUND)
        return JSONResponse(job.poll(), status_code=202)

    async def poll_job(request: Request) -> Response:
        job = jobs.find(request.path_params["job"])
        if job is None:
            return PlainTextResponse("this job is no longer known; start it again.", status_code=404)
        if request.method == "DELETE":
            job.cancel()
        return JSONResponse(job.poll())

    async def rejected(_: Request, error: Exception) -> Response:
        status = 429 if isinstance(error, TooManyRequestsError) else 422
        offer = {"identiformer-offer": "truncate"} if isinstance(error, TextTooLongError) else None
        return PlainTextResponse(str(error), status_code=status, headers=offer)

    async def unknown_address(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        sentence = f"expected a request of the explorer's page, got {short(request.method)} of an unknown address; {OPEN}."
        return PlainTextResponse(sentence, status_code=error.status_code, headers=error.headers)

    async def internal(_: Request, error: Exception) -> Response:
        return PlainTextResponse(INTERNAL, status_code=500)  # uvicorn writes the traceback to the terminal

    return Starlette(
        routes=[
            Route(f"/{secret}/", page),
            Route(f"/{secret}/texts", open_text, methods=["POST"]),
            Route(f"/{secret}/texts/{{text}}/kinds/{{kind}}", open_kind, methods=["POST"]),
            Route(f"/{secret}/texts/{{text}}/layers/{{layer}}", layer),
            Route(f"/{secret}/texts/{{text}}/layers/{{layer}}/rows/{{row}}", layer),
            Route(f"/{secret}/texts/{{text}}/bounds/{{layer}}/{{head}}", bounds),
            Route(f"/{secret}/texts/{{text}}/jobs", start_job, methods=["POST"]),
            Route(f"/{secret}/jobs/{{job}}", poll_job, methods=["GET", "DELETE"]),
        ],
        exception_handlers={IdentiformerError: rejected, HTTPException: unknown_address, Exception: internal},
    )
