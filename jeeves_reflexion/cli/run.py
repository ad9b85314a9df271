"""``jeeves-reflexion run``: tries a task, learns from each attempt, tries again."""

from __future__ import annotations

import logging
import sys
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from jeeves_reflexion.cli.bench_options import check_early
from jeeves_reflexion.cli.options import (
    COUNT,
    EmbedderChoice,
    Endpoint,
    Number,
    credit_option,
    debug_option,
    embedder_option,
    endpoint_options,
    gathered,
    json_option,
    lessons_option,
    namespace_option,
    quiet_option,
    top_k_option,
    withhold_early_option,
)

if TYPE_CHECKING:
    from jeeves_reflexion.cli.watch import Watch
    from jeeves_reflexion.lessons import VectorLessonStore
    from jeeves_reflexion.types import RunResult


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for, option by option."""

    task: str
    model: str
    agent: str | None
    evaluator_model: str | None
    max_attempts: int
    threshold: float
    k: int
    address: str | None
    namespace: str
    no_lessons: bool
    embedder: EmbedderChoice
    credit: bool | None
    withhold: float | None
    withhold_early: float | None
    budget_tokens: int | None
    budget_seconds: float | None

    def __post_init__(self) -> None:
        if self.address is not None and self.no_lessons:
            raise click.UsageError("--lessons and --no-lessons exclude each other")
        if self.withhold is not None and self.credit is False:
            raise click.UsageError("--withhold and --no-credit exclude each other")
        if self.no_lessons and (self.credit or self.withhold is not None):
            raise click.UsageError(
                "--credit and --withhold are about lessons that are kept: they exclude --no-lessons"
            )
        check_early(self.withhold, self.withhold_early)
        if not self.task.strip():
            raise click.UsageError("the task is empty: say what is asked")


def _task(ctx: click.Context, __: click.Parameter, value: str) -> str:
    if value != "-" or ctx.resilient_parsing:
        return value
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the task on stdin is no UTF-8 text: {error.reason}") from error


@click.command(short_help="Try a task, learn from each attempt, try again.")
@gathered(
    "order",
    Order,
    click.argument("task", callback=_task),
    click.option("--model", metavar="NAME", required=True, help="The model, by its name at the endpoint."),
    click.option(
        "--agent",
        metavar="MODULE:NAME",
        help="Your agent: a callable, or any agent; --model judges and writes lessons.  [default: ReAct over --model]",
    ),
    click.option(
        "--evaluator-model", metavar="NAME", help="Another model as the judge, at the same endpoint."
    ),
    click.option("--max-attempts", metavar="N", type=COUNT, default=3, show_default=True),
    click.option(
        "--threshold",
        metavar="X",
        type=click.FloatRange(0, 1),
        default=0.8,
        show_default=True,
        help="The score from 0 to 1 that passes.",
    ),
    top_k_option(default=5, show_default=True, help="How many lessons an attempt may recall."),
    lessons_option,
    namespace_option,
    click.option(
        "--no-lessons", is_flag=True, help="Recall none and keep none; within the run they still count."
    ),
    embedder_option,
    credit_option,
    click.option(
        "--withhold",
        metavar="SHARE",
        type=Number(0, 0.5),
        help="Withhold each lesson from this share of its recalls, so that what it does is known; means --credit.",
    ),
    withhold_early_option,
    click.option("--budget-tokens", metavar="N", type=click.IntRange(min=1), help="Stop at so many tokens."),
    click.option(
        "--budget-seconds",
        metavar="S",
        type=Number(min=0, min_open=True),
        help="Stop after so long, also in the middle of a call.",
    ),
)
@endpoint_options
@json_option
@quiet_option
@debug_option
@click.pass_context
def run(ctx: click.Context, /, order: Order, endpoint: Endpoint, *, as_json: bool, quiet: bool) -> None:
    """Try TASK until an attempt passes, with a lesson learned from each one that does not.

    The model answers, judges its answer, and writes the lessons. The best answer goes to stdout, what happens
    meanwhile to stderr. With "-" as TASK the task is read from stdin.
    """
    import anyio

    from jeeves_reflexion.cli.failures import Interrupted
    from jeeves_reflexion.cli.screen import Screen
    from jeeves_reflexion.cli.user_code import load, of_user
    from jeeves_reflexion.cli.watch import Watch, result_document
    from jeeves_reflexion.loop.lesson_address import default_place
    from jeeves_reflexion.redaction import redact
    from jeeves_reflexion.session import logger

    # The watch shows warnings as what they are; the log would show them a second time.
    logger.addHandler(logging.NullHandler())
    address = None if order.no_lessons else order.address if order.address is not None else default_place()
    shown, screen = None if address is None else redact(address), Screen(quiet=quiet)
    watch = Watch(screen, shown)
    try:
        with screen.busy(), nullcontext() if order.agent is None else of_user(order.agent):
            agent = None if order.agent is None else load("--agent", order.agent)
            result = anyio.run(_run, order, endpoint, address, agent, watch)
    except KeyboardInterrupt:
        raise Interrupted(watch.farewell()) from None
    if as_json:
        screen.document(result_document(result, shown, order.namespace))
    else:
        screen.gap()
        screen.result(result.text)
    ctx.exit(0 if result.passed else 1)


async def _run(
    order: Order,
    endpoint: Endpoint,
    address: str | None,
    agent: Any,  # noqa: ANN401 - whatever a user wrote
    watch: Watch,
) -> RunResult:
    from jeeves_reflexion.cli.endpoints import ProvenModel, model_at
    from jeeves_reflexion.loop.factory import LoopOptions
    from jeeves_reflexion.loop.reflexion import Reflexion
    from jeeves_reflexion.session import Budget

    async with AsyncExitStack() as open_things:
        answering = await open_things.enter_async_context(model_at(endpoint, order.model))
        judging = None
        if order.evaluator_model is not None:
            judging = await open_things.enter_async_context(model_at(endpoint, order.evaluator_model))
        store = None if address is None else await open_things.enter_async_context(_lessons(order, address))
        if store is not None:
            # A store that can't be used is found out here, before a model has been paid.
            watch.opened(await store.count())
        budget = Budget(max_tokens=order.budget_tokens, max_seconds=order.budget_seconds)
        loop = Reflexion(
            agent,
            model=ProvenModel(answering),
            evaluator=None if judging is None else ProvenModel(judging),
            lesson_store=store,
            max_attempts=order.max_attempts,
            threshold=order.threshold,
            top_k_lessons=order.k,
            options=LoopOptions(budget=budget),
        )
        return await loop.run(order.task.strip(), session=loop.session(listener=watch))


def _lessons(order: Order, address: str) -> VectorLessonStore:
    from jeeves_reflexion.cli.stores import credit_of, open_or_make
    from jeeves_reflexion.lessons import LessonSettings

    credit = credit_of(order.credit, withhold=order.withhold, early=order.withhold_early)
    return open_or_make(address, order.namespace, order.embedder, LessonSettings(credit=credit))
