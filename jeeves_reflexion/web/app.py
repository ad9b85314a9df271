"""The web application: its routes and its error pages."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from jeeves_reflexion.errors import ExperimentError, ReflexionError, UnknownLessonError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.web.access import Access, Guard
from jeeves_reflexion.web.lesson_pages import LessonPages
from jeeves_reflexion.web.library import Library, StoreGoneError
from jeeves_reflexion.web.renderer import page
from jeeves_reflexion.web.run_pages import RunPages
from jeeves_reflexion.web.runs import Runs
from vectorstores.base import VectorStoreError

_HANDLED: Final = (ReflexionError, VectorStoreError, StoreGoneError, HTTPException, Exception)
_POLL_SECONDS: Final = 0.5
_RETRY: Final = {"Refresh": "5", "Retry-After": "5"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What the pages show. ``by`` is the name that the history of a lesson gives to changes made there.

    ``address`` is the lessons' address without secrets, to be shown. ``open_store`` may block.
    """

    open_store: Callable[[], VectorLessonStore]
    address: str
    namespace: str
    runs: Path | None = None
    by: str = "the page"


def make_app(shown: Shown, access: Access, *, stopping: Callable[[], bool] = lambda: False) -> Guard:
    """Return the application. Live pages end their streams once ``stopping`` returns true."""
    library = Library(shown.open_store)
    runs = None if shown.runs is None else Runs(shown.runs)
    lessons = LessonPages(library, access.form, by=shown.by)
    routes: list[BaseRoute] = [
        Route("/", lessons.index),
        Route("/lesson", lessons.show),
        Route("/lesson/{operation}", lessons.change, methods=["POST"]),
        Route("/review", lessons.review),
        Route("/why", lessons.why),
        Route("/live", _live),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    if runs is not None:
        pages = RunPages(runs)
        routes += [Route("/runs", pages.index), Route("/run", pages.show), Route("/story", pages.story)]
    app = Starlette(
        routes=routes, exception_handlers=dict.fromkeys(_HANDLED, _error_page), lifespan=_lifespan
    )
    app.state.library, app.state.runs, app.state.stopping = library, runs, stopping
    app.state.about = {
        "address": shown.address,
        "namespace": shown.namespace,
        "has_runs": runs is not None,
        "form_token": access.form_token,
    }
    # The guard is outermost, so that error pages get the security headers too.
    return Guard(app, access)


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(app.state.library.watch)
        yield
        group.cancel_scope.cancel()
    await app.state.library.close()


async def _live(request: Request) -> Response:
    """Tell the browser by server-sent events when its page has changed; it then fetches the page itself."""
    state, name = request.app.state, request.query_params.get("run")
    shows_run = name is not None and state.runs is not None
    run = await anyio.to_thread.run_sync(state.runs.get, name) if shows_run else None

    async def events() -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        last = None
        while not state.stopping():
            now = state.library.changes if run is None else await anyio.to_thread.run_sync(run.current)
            if last is not None and now != last:
                yield "event: changed\ndata: -\n\n"
            last = now
            await anyio.sleep(_POLL_SECONDS)

    return StreamingResponse(events(), media_type="text/event-stream")


async def _error_page(request: Request, error: Exception) -> Response:
    """Return the page that says what went wrong, with a status that fits the error."""
    headers: dict[str, Any] = {}
    message, status, head = redact(str(error)), 500, "Something went wrong"
    if isinstance(error, StoreGoneError) or await request.app.state.library.lost(error):
        status, head = 503, "The lessons can't be reached"
        # A browser must not send a form again by itself: the change may have been made already.
        headers = _RETRY if request.method == "GET" else {}
    elif isinstance(error, HTTPException):
        status, head, message = error.status_code, "That can't be shown", error.detail
    elif isinstance(error, UnknownLessonError | ExperimentError):
        status, head = 404, "Not found"
    elif isinstance(error, ReflexionError | VectorStoreError):
        status, head = 422, "That can't be done"
    elif not message:
        message = type(error).__name__
    response = await page(
        request, "message", status, head=head, message=message, again=status == 503, method=request.method
    )
    response.headers.update(headers)
    return response
