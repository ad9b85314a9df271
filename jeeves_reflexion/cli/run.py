"""``jeeves-reflexion run``: try a task, learn from each attempt, try again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any

import anyio
import click

from jeeves_reflexion.agents import ReAct, mcp_tools
from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.failures import Interrupted
from jeeves_reflexion.cli.models import ProvenModel, model_at
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.cli.stores import credit_of, open_or_make
from jeeves_reflexion.cli.user_code import load, of_user
from jeeves_reflexion.lessons import LessonSettings, ModelCheck
from jeeves_reflexion.loop.factory import LoopOptions
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.loop.trace import Trace
from jeeves_reflexion.models.names import kind_and_name
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Budget, logger
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import RunResult


def result_document(result: RunResult, address: str | None, namespace: str) -> dict[str, object]:
    """Return the result of a run for JSON: the summary first, then every trial."""
    return {
        "run_id": result.run_id,
        "passed": result.passed,
        "stop_reason": result.stop_reason,
        "detail": result.detail,
        "escalated": result.escalated,
        "score": result.score,
        "output": result.text,
        "best_attempt": result.best.number if result.best else None,
        "attempts": len(result.trials),
        "seconds": result.seconds,
        "usage": {**{str(role): spent for role, spent in result.usage.items()}, "total": result.total_usage},
        "lessons": result.lessons,
        "store": None if address is None else {"address": address, "namespace": namespace},
        "task": result.task.public(),
        "trials": result.trials,
    }


def _check(given: Mapping[str, Any], priced: Collection[str]) -> None:
    if given["address"] is not None and given["no_lessons"]:
        raise click.UsageError("--lessons and --no-lessons exclude each other")
    if given["no_lessons"] and (given["credit"] or given["withhold"] or given["check"]):
        raise click.UsageError(
            "--credit, --withhold and --check need stored lessons: they exclude --no-lessons"
        )
    if given["agent"] is not None and given["mcp"]:
        raise click.UsageError("--mcp is for the default agent; an --agent brings its own tools")
    if not given["task"].strip():
        raise click.UsageError("the task is empty: describe what the agent must do")
    if given["quiet"] and given["verbose"]:
        raise click.UsageError("--quiet and --verbose exclude each other")
    asked = (given["model"], given["evaluator_model"] or given["model"])
    unpriced = {kind_and_name(name)[1] for name in asked} - set(priced)
    if given["budget_usd"] is not None and unpriced:
        raise click.UsageError(f"--budget-usd needs --prices with {' and '.join(sorted(unpriced))}")


def _task(ctx: click.Context, __: click.Parameter, value: str) -> str:
    if value != "-" or ctx.resilient_parsing:
        return value
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the task on stdin is not UTF-8 text: {error.reason}") from error


@click.command()
@click.argument("task", callback=_task)
@click.option("--model", metavar="NAME", required=True, help="The name of the model at the endpoint.")
@click.option(
    "--agent",
    metavar="MODULE:NAME",
    help="Your agent: a function or an agent object; --model then judges and writes lessons.  [default: ReAct over"
    " --model]",
)
@click.option(
    "--mcp",
    metavar="COMMAND_OR_URL",
    multiple=True,
    help="An MCP server whose tools the default agent may use; may be repeated.",
)
@click.option("--evaluator-model", metavar="NAME", help="Another model of the endpoint as the judge.")
@click.option("--max-attempts", metavar="N", type=options.COUNT, default=3, help="The most attempts.")
@click.option(
    "--threshold",
    metavar="X",
    type=options.Number(0, 1),
    default=0.8,
    help="The lowest score that passes, from 0 to 1.",
)
@options.top_k(default=5, help="The most lessons that an attempt recalls.")
@options.lessons
@options.namespace
@click.option(
    "--no-lessons",
    is_flag=True,
    help="Neither recall nor store lessons; attempts of this run still share theirs.",
)
@options.embedder
@options.credit
@options.withhold
@options.check
@click.option("--budget-tokens", metavar="N", type=click.IntRange(min=1), help="Stop at this many tokens.")
@click.option(
    "--budget-usd",
    metavar="USD",
    type=options.Number(min=0, min_open=True),
    help="Stop before a call that might exceed this cost; needs --prices.",
)
@click.option(
    "--budget-seconds",
    metavar="S",
    type=options.Number(min=0, min_open=True),
    help="Stop after this time, even in the middle of a call.",
)
@options.endpoint
@options.json
@options.quiet
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also show steps, similarities and the judge's reasons.",
)
@options.debug
@click.pass_context
def run(
    ctx: click.Context,
    /,
    endpoint: options.Endpoint,
    **given: Any,  # noqa: ANN401 - one for each option
) -> None:
    """Try TASK until an attempt passes, and learn a lesson from each attempt that fails.

    The model answers, judges its answer, and writes the lessons. The best answer goes to stdout, progress to stderr.
    If TASK is "-", the task is read from stdin.
    """
    _check(given, endpoint.prices)
    # The trace shows warnings already; the log would show them twice.
    logger.addHandler(logging.NullHandler())
    address = default_place() if given["address"] is None else given["address"]
    if given["no_lessons"]:
        address = None
    shown, screen = None if address is None else redact(address), Screen(quiet=given["quiet"])
    trace = Trace(screen.note, verbose=given["verbose"])
    try:
        with of_user(given["agent"]):
            agent = None if given["agent"] is None else load("--agent", given["agent"])
            result = anyio.run(_run, given, endpoint, address, agent, trace)
    except KeyboardInterrupt:
        said = "the run was stopped"
        if shown is not None:
            kept = f"; what it learned is kept ({counted(trace.kept, 'lesson')} in {shown})"
            said += kept if trace.kept else " before it learned anything"
        raise Interrupted(said) from None
    if shown is not None:
        # "lessons outcome" takes this id, to correct the verdict later.
        screen.note(f"run: {result.run_id}", "dim")
    if given["as_json"]:
        screen.document(result_document(result, shown, given["namespace"]))
    else:
        screen.result(result.text)
    ctx.exit(0 if result.passed else 1)


async def _run(
    given: Mapping[str, Any],
    endpoint: options.Endpoint,
    address: str | None,
    agent: Any,  # noqa: ANN401 - whatever a user wrote
    trace: Trace,
) -> RunResult:
    async with AsyncExitStack() as opened:

        async def model_called(name: str) -> ProvenModel:
            return ProvenModel(await opened.enter_async_context(model_at(endpoint, name)))

        model = await model_called(given["model"])
        judge = await model_called(given["evaluator_model"]) if given["evaluator_model"] is not None else None
        store = None
        if address is not None:
            credit = credit_of(asked=given["credit"], withhold=given["withhold"])
            check = ModelCheck(judge or model) if given["check"] else None
            settings = LessonSettings(credit=credit, check=check)
            store = await opened.enter_async_context(
                open_or_make(address, given["namespace"], given["embedder"], settings)
            )
            # Counting finds an unusable store before any model call costs money.
            trace.note(f"lessons: {redact(address)} ({await store.count()} so far)", "dim")
        if given["mcp"]:
            tools = [await opened.enter_async_context(mcp_tools(server)) for server in given["mcp"]]
            agent = ReAct(model, list(chain.from_iterable(tools)))
        budget = Budget(given["budget_tokens"], given["budget_usd"], given["budget_seconds"])
        loop = Reflexion(
            agent,
            model=model,
            evaluator=judge,
            lesson_store=store,
            max_attempts=given["max_attempts"],
            threshold=given["threshold"],
            top_k_lessons=given["k"],
            options=LoopOptions(budget=budget),
        )
        return await loop.run(given["task"].strip(), session=loop.session(listener=trace))
