"""The pages of lessons: the library, one lesson and its history, the review, and what a task would recall."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, get_args
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons import Credit, Curator, LessonPage, VectorLessonStore
from jeeves_reflexion.lessons.records import RECALLED, readable
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.types import JSON, Lesson, LessonState, Outcome, Recall, RecalledLesson, Task
from jeeves_reflexion.web.library import Library
from jeeves_reflexion.web.renderer import number_of, page
from vectorstores.base import Filter

_PAGE: Final = 50
_MAX_FOUND: Final = 30
_MAX_NEAR: Final = 6
_MAX_RECALLED: Final = 20
_STATES: Final = get_args(LessonState)
_FILTERS: Final = {"kind": "task_kind", "tool": "tool", "outcome": "outcome", "state": "state"}
_DONE: Final = {
    "edit": "The lesson has its new text.",
    "approve": "The lesson is approved.",
    "reject": "The lesson is rejected.",
    "retire": "The lesson is retired.",
    "restore": "The lesson is recalled again.",
    "merge": "The lessons are merged.",
    "rollback": "The lesson is rolled back.",
}

Fields: TypeAlias = Mapping[str, list[str]]


class ConflictError(Exception):
    """Somebody else changed the lesson after it was shown."""


class LessonPages:
    """The pages of one library. ``by`` names the author of its changes in a lesson's history."""

    def __init__(self, library: Library, form: Callable[[Request], Awaitable[Fields]], *, by: str) -> None:
        self._library = library
        self._form = form
        self._by = by

    # -- the library

    async def index(self, request: Request) -> Response:
        """Show a page of the library, or the lessons nearest to a text."""
        store, asked = await self._library.store(), _asked(request, "q", *_FILTERS)
        where = {name: asked[key] for key, name in _FILTERS.items() if asked[key]}
        rows: list[tuple[Lesson, float | None]]
        following = None
        if asked["q"]:
            narrowed: Filter = {name: value for name, value in where.items() if name != "state"}
            state = next((each for each in _STATES if each == where.get("state")), None)
            found = await store.search(asked["q"], k=_MAX_FOUND, where=narrowed or None, state=state)
            rows = [(each.lesson, each.similarity) for each in found]
        else:
            listed = await _listed(store, request, where)
            rows = [(each, None) for each in listed.lessons]
            if listed.next is not None:
                kept = {key: value for key, value in asked.items() if value}
                following = urlencode({**kept, "after": listed.next})
        return await page(
            request,
            "library",
            rows=rows,
            following=following,
            asked=asked,
            later="after" in request.query_params,
            states=_STATES,
            outcomes=get_args(Outcome),
            most=_MAX_FOUND,
        )

    # -- one lesson

    async def show(
        self, request: Request, *, problem: str = "", draft: str | None = None, status: int = 200
    ) -> Response:
        """Show one lesson, and why a change was not made: its ``problem``, with the text of its form."""
        store, lesson_id = await self._library.store(), request.query_params.get("id", "")
        held = await store.quarantine.get(lesson_id)
        lesson = await store.get(lesson_id) if held is None else held.lesson
        if lesson is None:
            raise UnknownLessonError(f"there is no lesson {lesson_id!r}")
        stored = None if held else await store.repository.known(lesson_id)
        known = await store.ledger.credits()
        entries = [] if held else await Curator(store.repository).history(lesson_id)
        near = await _near(store, lesson) if "near" in request.query_params else None
        return await page(
            request,
            "lesson",
            status,
            lesson=lesson,
            held=held,
            mark=mark_of(lesson),
            tasks=held.tasks if held else stored.tasks if stored else (),
            lift=known.lift(lesson_id),
            judgement=known.judge(lesson_id),
            entries=entries,
            near=near,
            problem=problem,
            draft=lesson.text if draft is None else draft,
            done=_DONE.get(request.query_params.get("done", ""), ""),
        )

    async def change(self, request: Request) -> Response:
        """Change a lesson as a form asks, unless somebody changed it after the form was shown."""
        fields, operation = await self._form(request), request.path_params["operation"]
        if operation not in _DONE:
            raise HTTPException(404, "There is no such change.")
        lesson_id = request.query_params.get("id", "")
        store = await self._library.store()
        try:
            async with self._library.turn:
                await _check_unchanged(store, lesson_id, fields)
                curator = Curator(store.repository, by=self._by)
                reason = " ".join(_one(fields, "reason").split())
                match operation:
                    case "edit":
                        await curator.edit(lesson_id, _one(fields, "text"), reason=reason)
                    case "merge":
                        others = (*fields.get("other", ()), *_one(fields, "others").split())
                        await curator.merge(lesson_id, [each for each in others if each], reason=reason)
                    case "rollback":
                        await curator.rollback(lesson_id, to=number_of(_one(fields, "to"), -1), reason=reason)
                    case _:
                        await getattr(curator, operation)(lesson_id, reason=reason)
        except (ConflictError, ConfigurationError, LessonStoreError) as error:
            if await self._library.lost(error):
                raise
            draft = _one(fields, "text") or None
            status = 409 if isinstance(error, ConflictError) else 422
            return await self.show(request, problem=str(error), draft=draft, status=status)
        if _one(fields, "back") == "review" or operation == "reject":
            return RedirectResponse(f"/review?{urlencode({'done': operation})}", 303)
        return RedirectResponse(f"/lesson?{urlencode({'id': lesson_id, 'done': operation})}", 303)

    # -- review

    async def review(self, request: Request) -> Response:
        """Show the proposed lessons and the texts in quarantine, which wait for a person."""
        store, following = await self._library.store(), None
        everything = "all" in request.query_params
        if everything:
            proposed: Sequence[Lesson] = (await Curator(store.repository).waiting()).proposed
        else:
            listed = await _listed(store, request, {"state": "proposed"})
            proposed, following = listed.lessons, listed.next
        return await page(
            request,
            "review",
            held=[] if request.query_params.get("after") else await store.quarantine.all(),
            proposed=proposed,
            mark_of=mark_of,
            everything=everything,
            following=following and urlencode({"after": following}),
            done=_DONE.get(request.query_params.get("done", ""), ""),
        )

    # -- what a task would recall

    async def why(self, request: Request) -> Response:
        """Show what a task would recall and why, and whether it would recall a given lesson."""
        asked = _asked(request, "task", "kind", "tool", "k", "credit", "lesson")
        asked["k"] = str(min(max(number_of(asked["k"], 5), 1), _MAX_RECALLED))
        recall, about = None, None
        store = await self._library.store()
        if asked["task"].strip():
            task = Task(asked["task"], kind=asked["kind"] or None, tools=tuple(asked["tool"].split()))
            if asked["credit"]:
                settings = replace(store.settings, credit=Credit())
                store = VectorLessonStore(store.store, settings=settings)
            recall = await store.explain(task, k=int(asked["k"]))
        lesson = await store.get(asked["lesson"]) if asked["lesson"] else None
        if asked["lesson"] and lesson is None:
            raise UnknownLessonError(f"there is no lesson {asked['lesson']!r}")
        if lesson is not None and recall is not None:
            about = await _about(store, lesson, recall, asked["task"])
        return await page(request, "why", asked=asked, recall=recall, lesson=lesson, about=about)


async def _listed(store: VectorLessonStore, request: Request, where: Filter) -> LessonPage:
    try:
        return await store.list(after=request.query_params.get("after"), limit=_PAGE, where=where or None)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


async def _near(store: VectorLessonStore, lesson: Lesson) -> list[RecalledLesson]:
    """Return the active lessons whose tasks are near to those of a lesson, without embedding anything."""
    async with store_errors("find near lessons"):
        own = await store.store.get_by_ids([f"{lesson.id}:0"], vectors=True)
        if not own or own[0].vector is None:
            return []
        hits = await store.store.search(own[0].vector, k=4 * _MAX_NEAR, filter=RECALLED)
    found = [(each, hit.score) for hit, each in readable(hits) if each.id != lesson.id]
    near = [each for each in found if each[1] >= store.settings.min_similarity]
    return [RecalledLesson(each, score, "near") for each, score in near[:_MAX_NEAR]]


async def _about(store: VectorLessonStore, lesson: Lesson, recall: Recall, task: str) -> tuple[bool, str]:
    """Return whether a lesson is recalled, and the reason."""
    for items, offered in ((recall.offered, True), (recall.left_out, False)):
        for item in items:
            if item.lesson.id == lesson.id:
                return offered, f"{item.reason}; similarity {item.similarity:.2f}"
    own: Mapping[str, JSON] = {"lesson_id": lesson.id}
    alone = await store.search(task, k=1, where=own, state=lesson.state)
    similarity = f"its similarity is {alone[0].similarity:.2f}" if alone else "its similarity is not known"
    state = "" if lesson.state == "active" else f"it is {lesson.state}, and "
    return False, f"{state}others are nearer to the task: {similarity}"


def mark_of(lesson: Lesson) -> str:
    """Return a digest of a lesson's text and state, by which a form notices a change made meanwhile."""
    seen = [lesson.text, lesson.state, lesson.state_reason]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]


async def _check_unchanged(store: VectorLessonStore, lesson_id: str, fields: Fields) -> None:
    """Raise :class:`ConflictError` if a lesson changed after its form was made."""
    held = await store.quarantine.get(lesson_id)
    lesson = await store.get(lesson_id) if held is None else held.lesson
    if lesson is None:
        raise UnknownLessonError(f"there is no lesson {lesson_id!r} any more")
    if mark_of(lesson) != _one(fields, "mark"):
        raise ConflictError(
            "Somebody changed this lesson after you opened it. Your change was not made: read the lesson as it is now,"
            " and make your change again if it is still right."
        )
    last = _one(fields, "last")
    if last and held is None and last != str((await store.repository.known(lesson_id)).changes):
        raise ConflictError("The lesson has changes that this page did not show. Nothing was rolled back.")


def _asked(request: Request, *names: str) -> dict[str, str]:
    return {name: request.query_params.get(name, "").strip() for name in names}


def _one(fields: Fields, name: str) -> str:
    return fields.get(name, [""])[0]
