"""Serves the page of a run: one thread with a small web server, which the run never waits for."""

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.page.address import is_loopback, listening, parse_address
from penstock.page.document import SCRIPTS, STYLES, live_page, part
from penstock.page.story import Bookmark, Story

#: Seconds between two looks for news, for each reader.
EVERY = 0.5
#: Seconds without news after which a reader is told that the server is still there.
SIGN_OF_LIFE = 5.0

#: Nothing comes from elsewhere, nothing goes elsewhere, and no other site may show the page inside its own.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Pausable(Protocol):
    """What the page can pause: a controller."""

    @property
    def paused(self) -> bool:
        """Whether it is paused."""

    def pause(self) -> None:
        """Change nothing from now on."""

    def resume(self) -> None:
        """Change things again."""


class PageServer:
    """Serves a story at ``HOST:PORT``.

    On loopback anybody on the machine may look; pausing needs the token that stands in :attr:`address`. On any other
    host everything does.

    Parameters
    ----------
    address
        ``HOST:PORT``; port 0 takes a free one.
    story
        What is shown; who fills it is somebody else's business.
    control
        What pause and resume go to; None for a journal that is only looked at.
    """

    def __init__(self, address: str, story: Story, control: Pausable | None = None) -> None:
        self._host, port = parse_address(address)
        self._story, self._control = story, control
        self.token = secrets.token_urlsafe(16)
        self._open = is_loopback(self._host)
        self._socket = listening(self._host, port)
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            self._app(), log_level="critical", lifespan="off", timeout_graceful_shutdown=2, access_log=False
        )
        self._server = uvicorn.Server(config)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="penstock-page", daemon=True)

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/?token={self.token}"

    def start(self) -> "PageServer":
        """Begin to answer."""
        self._thread.start()
        return self

    def close(self, run_ended: bool = True) -> None:
        """Answer no more; readers are told that the run has ended, unless it is only the server that goes."""
        if run_ended:
            self._story.told("ended")
        self._over.set()
        if self._thread.is_alive():
            self._server.should_exit = True
            self._thread.join(timeout=10)
        self._socket.close()

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def _app(self) -> Starlette:
        parts = [Route(f"/{name}", _static(name)) for name in (*STYLES, *SCRIPTS)]
        return Starlette(
            routes=[
                *parts,
                Route("/", self._guarded(self._page)),
                Route("/data", self._guarded(self._data)),
                Route("/events", self._guarded(self._events)),
                Route("/pause", self._guarded(self._switch, always=True), methods=["POST"]),
                Route("/resume", self._guarded(self._switch, always=True), methods=["POST"]),
            ]
        )

    def _guarded(
        self, answer: Callable[[Request], Awaitable[Response]], always: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Ask for the token where it is needed, and for a host name that is ours (else any site could be us)."""

        async def guarded(request: Request) -> Response:
            given = request.query_params.get("token", "")
            known = secrets.compare_digest(given.encode(), self.token.encode())
            if self._open and not is_loopback(request.url.hostname or ""):
                return _refused("Open this page by a loopback address.")
            if not known and (always or not self._open):
                return _refused("Open this page by the whole address that the run told, with its token.")
            return await answer(request)

        return guarded

    async def _page(self, request: Request) -> Response:
        return Response(live_page(), media_type="text/html", headers=_HEADERS)

    async def _data(self, request: Request) -> Response:
        self._tell_state()
        news, _ = self._story.since(Bookmark())
        return JSONResponse({**(news or {}), **self._controls()}, headers=_HEADERS)

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._news(), media_type="text/event-stream", headers=_HEADERS)

    async def _switch(self, request: Request) -> Response:
        if self._control is None:
            return PlainTextResponse("There is nothing to pause.", status_code=409)
        self._control.pause() if request.url.path == "/pause" else self._control.resume()
        self._tell_state()
        return JSONResponse(self._controls(), headers=_HEADERS)

    def _tell_state(self) -> None:
        """Others may pause and resume too."""
        if self._control is not None and not self._over.is_set():
            self._story.told("paused" if self._control.paused else "running")

    def _controls(self) -> dict[str, Any]:
        return {"pausable": self._control is not None}

    async def _news(self) -> AsyncIterator[str]:
        """All there is, then what is new, until the run has ended."""
        place, silent = Bookmark(), 0.0
        while True:
            over = self._over.is_set()
            self._tell_state()
            news, place = self._story.since(place)
            if news is not None:
                yield _event({**news, **self._controls()})
            elif silent >= SIGN_OF_LIFE:
                yield ": still here\n\n"
            silent = 0.0 if news is not None or silent >= SIGN_OF_LIFE else silent + EVERY
            if over:
                return
            await asyncio.sleep(EVERY)


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n"


def _static(name: str) -> Callable[[Request], Awaitable[Response]]:
    kind = "text/css" if name.endswith(".css") else "text/javascript"

    async def answer(request: Request) -> Response:
        return Response(part(name), media_type=kind, headers=_HEADERS)

    return answer


def _refused(why: str) -> Response:
    return PlainTextResponse(why, status_code=403, headers=_HEADERS)
