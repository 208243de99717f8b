"""The explorer's local server: a page, texts to look at, and jobs. Bound to this machine, behind a secret address."""

import json
import secrets
import socket
from typing import Any

from identiformer.errors import IdentiformerError, InputError, MissingPackageError
from identiformer.explorer.guard import App, Guard
from identiformer.explorer.jobs import Jobs, TooManyJobsError
from identiformer.explorer.page import json_element, policy, render
from identiformer.explorer.tasks import task_of
from identiformer.explorer.texts import MOST_CHARACTERS, Texts

LOOPBACK = "127.0.0.1"


class LocalServer:
    """A server that listens on this machine alone; its address holds a secret."""

    def __init__(self, texts: Texts, first: dict[str, Any], port: int = 0) -> None:
        try:
            import starlette  # noqa: F401
            import uvicorn
        except ImportError:
            raise MissingPackageError("the explorer needs a web server; pip install 'identiformer[explorer]'.") from None
        self._socket = _listen(port)
        self.port = self._socket.getsockname()[1]
        self.secret = secrets.token_urlsafe(24)
        self.address = f"http://{LOOPBACK}:{self.port}/{self.secret}/"
        self.jobs = Jobs()
        guarded = Guard(application(texts, self.jobs, self.secret, first), self.secret, self.port)
        options = {"access_log": False, "server_header": False, "limit_concurrency": 64, "timeout_graceful_shutdown": 2}
        self._server = uvicorn.Server(uvicorn.Config(guarded, log_level="warning", lifespan="off", **options))

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
    listening.listen(64)
    return listening


def application(texts: Texts, jobs: Jobs, secret: str, first: dict[str, Any]) -> App:
    """The routes, without the guard that stands before them."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    about = {"models": texts.names, "most_characters": MOST_CHARACTERS, **first}

    async def page(_: Request) -> Response:
        content = render("identiformer", json_element("identiformer-server", about))
        return HTMLResponse(content, headers={"content-security-policy": f"{policy()}; frame-ancestors 'none'"})

    async def asked(request: Request) -> dict[str, Any]:
        try:
            given = json.loads(await request.body())
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise InputError("expected an object in JSON.")
        return given

    async def open_text(request: Request) -> Response:
        given = await asked(request)
        if isinstance(given.get("before"), str):
            jobs.cancel(given["before"])  # what the page asked of the text before is no longer looked at
        text = await run_in_threadpool(texts.open, given.get("text"), given.get("pair"), given.get("model"))
        return JSONResponse(await run_in_threadpool(text.summary))

    async def open_part(request: Request) -> Response:
        number = request.path_params["text"]
        jobs.cancel(number)
        text = await run_in_threadpool(texts.open_part, number, request.path_params["part"])
        return JSONResponse(await run_in_threadpool(text.summary))

    async def layer(request: Request) -> Response:
        text = texts.find(request.path_params["text"])
        content = await run_in_threadpool(text.layer, request.path_params["layer"])
        return Response(content, media_type="application/octet-stream")

    async def rows(request: Request) -> Response:
        asked_for = request.path_params
        content = await run_in_threadpool(texts.find(asked_for["text"]).rows, asked_for["layer"], asked_for["first"])
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

    async def refused(_: Request, error: Exception) -> Response:
        status = 429 if isinstance(error, TooManyJobsError) else 422
        return PlainTextResponse(str(error), status_code=status)

    return Starlette(
        routes=[
            Route(f"/{secret}/", page),
            Route(f"/{secret}/texts", open_text, methods=["POST"]),
            Route(f"/{secret}/texts/{{text}}/parts/{{part}}", open_part, methods=["POST"]),
            Route(f"/{secret}/texts/{{text}}/layers/{{layer:int}}", layer),
            Route(f"/{secret}/texts/{{text}}/layers/{{layer:int}}/rows/{{first:int}}", rows),
            Route(f"/{secret}/texts/{{text}}/jobs", start_job, methods=["POST"]),
            Route(f"/{secret}/jobs/{{job}}", job, methods=["GET", "DELETE"]),
        ],
        exception_handlers={IdentiformerError: refused},
    )
