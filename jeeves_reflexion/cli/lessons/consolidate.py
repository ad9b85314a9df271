"""``jeeves-reflexion lessons consolidate``: propose merges and retirements, show them, and make them."""

from __future__ import annotations

from typing import Final

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import Library, brief, change_of, over_lessons
from jeeves_reflexion.cli.screen import interruptible
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.consolidation.consolidators import LLMConsolidator, RuleConsolidator
from jeeves_reflexion.lessons.consolidation.plans import Plan, apply, clusters, plan
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import Lesson, Lift

_REVIEW: Final = (
    'lessons to review are similar and may say the same: merge them with "lessons merge", or let a model judge them'
    " with --model"
)


@click.command(short_help="Merge duplicates and retire lessons that harm.")
@click.option(
    "--model",
    metavar="NAME",
    help="Ask this model of the endpoint.  [default: rules without a model]",
)
@options.endpoint
@over_lessons(options.embedder, options.by, options.yes, options.dry_run)
async def consolidate(library: Library, model: str | None, endpoint: options.Endpoint) -> None:
    """Merge lessons that say the same, and retire those that harm.

    With --model a language model makes the proposals, and also finds contradictions; each proposal is checked.
    """
    if model is None and (endpoint.base_url is not None or endpoint.api_key_env is not None):
        raise click.UsageError("--base-url and --api-key-env need --model")
    async with library.open() as store:
        found = await _plan(store, model, endpoint)
    answer: dict[str, object] = {
        "operations": [step.operation for step in found.steps],
        "review": [[lesson.id for lesson in group] for group in found.review],
        "refused": found.refused,
    }
    if not library.as_json:
        _show(library, found)
    if not found.steps:
        library.give({"dry_run": library.dry_run, **answer}, note="nothing to consolidate")
    elif library.agreed(f"Make {counted(len(found.steps), 'operation')}?", answer):
        async with library.open() as store:
            applied = await apply(found, store.repository, by=library.by)
        skipped = [{"operation": str(step.operation), "why": why} for step, why in applied.skipped]
        for each in skipped:
            library.screen.note(f"skipped: {each['operation']}: {each['why']}")
        counts = {"done": len(applied.done), "skipped": skipped}
        said = f"made {counted(len(applied.done), 'operation')}"
        library.give({"dry_run": False, **answer, **counts}, said)
    if found.stopped is not None:
        raise found.stopped


async def _plan(store: VectorLessonStore, model: str | None, endpoint: options.Endpoint) -> Plan:
    """Return what a model, or the rules, would change."""
    # The lessons as stored, because those are changed; active ones as the reader of the store sees them.
    seen = store.repository.reader.seen
    lessons = [each async for each in store.repository.each() if seen(each).state == "active"]
    known_of = await store.ledger.credits(max_age=0.0)

    def known(lesson: Lesson) -> Lift:
        return known_of.lift(lesson.id)

    groups = await clusters(store.repository, lessons)
    if model is None:
        grouped = {lesson.id for group in groups for lesson in group}
        # Lessons that resemble no other: the rules look only at their effect.
        alone = [(each,) for each in lessons if each.id not in grouped]
        return await plan([*groups, *alone], RuleConsolidator(known=known))
    from jeeves_reflexion.cli.models import ProvenModel, model_at  # noqa: PLC0415 - no other command here needs a model

    async with model_at(endpoint, model) as asked:
        return await plan(groups, LLMConsolidator(ProvenModel(asked), known=known))


@interruptible()
def _show(library: Library, found: Plan) -> None:
    for step in found.steps:
        operation, reason = step.operation, step.operation.reason
        for before, after in zip(step.lessons, step.after, strict=True):
            change = change_of(before, after, told=reason)
            about = {"operation": operation.kind, "change": change, "reason": reason or "-"}
            library.screen.entry(brief(before, **about))
    for number, group in enumerate(found.review, 1):
        for lesson in group:
            library.screen.entry(brief(lesson, operation=f"to review {number}"))
    if found.review:
        library.screen.note(_REVIEW, "dim")
    for refused in found.refused:
        library.screen.note(f"refused: {refused.proposal}: {refused.why}")
