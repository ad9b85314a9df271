"""``jeeves-reflexion lessons consolidate``: small changes over lessons that speak of the same thing, shown first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from jeeves_reflexion.cli.endpoints import Endpoint, model_at
from jeeves_reflexion.cli.lessons.service import LessonService, all_lessons
from jeeves_reflexion.cli.lessons.views import change_of, short
from jeeves_reflexion.cli.options import Asking, EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.run_service import ProvenModel
from jeeves_reflexion.cli.service import counted
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.consolidation.consolidators import (
    Known,
    LLMConsolidator,
    RuleConsolidator,
)
from jeeves_reflexion.lessons.consolidation.planning import (
    MOST,
    Applied,
    Consolidator,
    Plan,
    Step,
    apply,
    clusters,
    plan,
)
from jeeves_reflexion.types import JSON, Lesson, Lift

_AGAIN: Final = (
    f"more than {MOST} lessons that are alike are looked at in parts: what is left of these may be merged further, "
    "until nothing is left to consolidate"
)


_REVIEW: Final = (
    'lessons to review are near one another and may say the same: "lessons merge" merges them, --model has '
    "a model judge them"
)


class ConsolidationService(LessonService):
    """Plans a consolidation, and makes it."""

    _in_parts = False

    def consolidate(
        self,
        model: str | None,
        base_url: str | None,
        api_key_env: str | None,
        timeout: float,
        embedder: EmbedderChoice,
        by: str,
        asking: Asking,
    ) -> None:
        """Show what the rules, or a model, would do; ask; and do it."""
        if model is None and (base_url is not None or api_key_env is not None):
            raise click.UsageError("--base-url and --api-key-env need --model")
        endpoint = None if model is None else Endpoint(model, base_url, api_key_env, timeout)
        found = self._change(lambda store: self._plan(store, endpoint), embedder)
        if not self._as_json:
            self._show(found)
        number = counted(len(found.steps), "operation")
        if not found.steps:
            if self._as_json:
                self._document({"dry_run": asking.dry_run, **_answer(found)})
            else:
                self._screen.note("nothing to consolidate")
        elif not self._go(asking, f"Make {number}?"):
            self._answer_dry(_answer(found))
        else:
            self._tell(found, self._change(lambda store: apply(found, store.repository, by=by), embedder))
        if found.stopped is not None:
            raise found.stopped

    def _show(self, found: Plan) -> None:
        for step in found.steps:
            for row in _rows(step):
                self._screen.entry(row)
        for number, group in enumerate(found.review, 1):
            about = f"to review {number}"
            for lesson in group:
                self._screen.entry({"id": short(lesson.id), "operation": about, "lesson": lesson.text})
        if found.review:
            self._screen.note(_REVIEW, "dim")
        for refused in found.refused:
            self._screen.note(f"refused: {refused.proposal}: {refused.why}")

    def _tell(self, found: Plan, applied: Applied) -> None:
        if self._as_json:
            counts = {"done": len(applied.done), "already": len(applied.already)}
            skipped: JSON = [{"operation": str(step.operation), "why": why} for step, why in applied.skipped]
            self._document({"dry_run": False, **_answer(found), **counts, "skipped": skipped})
            return
        for step, why in applied.skipped:
            self._screen.note(f"skipped: {step.operation}: {why}")
        self._screen.result(f"made {counted(len(applied.done), 'operation')}")
        if self._in_parts and any(step.operation.kind == "merge" for step in applied.done):
            self._screen.note(_AGAIN, "dim")

    async def _plan(self, store: VectorLessonStore, endpoint: Endpoint | None) -> Plan:
        with self._screen.busy():
            self._screen.waiting_for("reading lessons")
            lessons = await all_lessons(store)
            known_of = await store.ledger.credits(max_age=0.0)

        def known(lesson: Lesson) -> Lift:
            return known_of.lift(lesson.id)

        groups = await clusters(store.repository, lessons)
        self._in_parts = any(len(group) == MOST for group in groups)
        with self._screen.busy():
            self._screen.waiting_for("consolidating")
            if endpoint is None:
                alone = _alone(lessons, groups)
                return await plan([*groups, *alone], RuleConsolidator(known=known))
            return await _ask(endpoint, groups, known)


async def _ask(endpoint: Endpoint, groups: Sequence[Sequence[Lesson]], known: Known) -> Plan:
    async with model_at(endpoint) as model:
        consolidator: Consolidator = LLMConsolidator(ProvenModel(model), known=known)
        return await plan(groups, consolidator)


def _alone(lessons: Sequence[Lesson], groups: Sequence[Sequence[Lesson]]) -> list[tuple[Lesson]]:
    """The active lessons that are like no other: the rules look at their use alone."""
    grouped = {lesson.id for group in groups for lesson in group}
    return [(each,) for each in lessons if each.state == "active" and each.id not in grouped]


def _rows(step: Step) -> list[dict[str, str]]:
    operation = step.operation
    rows = []
    for delta in step.deltas:
        before, after = delta.before, delta.after
        rows.append(
            {
                "id": short(after.id),
                "operation": operation.kind,
                "change": "-" if before is None else change_of(before, after, told=operation.reason),
                "reason": operation.reason or "-",
                "lesson": after.text if before is None else before.text,
            }
        )
    return rows


def _answer(found: Plan) -> dict[str, JSON]:
    return {
        "operations": [plain(step.operation) for step in found.steps],
        "review": [[lesson.id for lesson in group] for group in found.review],
        "refused": [plain(refused) for refused in found.refused],
    }
