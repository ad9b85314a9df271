"""``jeeves-reflexion run``: its options."""

from __future__ import annotations

import sys
from typing import Any

import click

from jeeves_reflexion.cli.bench_options import check_early
from jeeves_reflexion.cli.options import (
    COUNT,
    check_finite,
    check_text,
    credit_option,
    debug_option,
    embedder_option,
    endpoint_options,
    json_option,
    namespace_option,
    number_option,
    top_k_option,
    withhold_early_option,
)


@click.command(short_help="Try a task, learn from each attempt, try again.")
@click.argument("task", callback=check_text)
@click.option("--model", metavar="NAME", required=True, help="The model, by its name at the endpoint.")
@endpoint_options
@click.option(
    "--agent",
    metavar="MODULE:NAME",
    help="Your agent: a callable, or any agent; --model judges and writes lessons.  [default: ReAct over --model]",
)
@click.option("--evaluator-model", metavar="NAME", help="Another model as the judge, at the same endpoint.")
@click.option("--max-attempts", metavar="N", type=COUNT, default=3, show_default=True)
@click.option(
    "--threshold",
    metavar="X",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="The score from 0 to 1 that passes.",
)
@top_k_option(default=5, show_default=True, help="How many lessons an attempt may recall.")
@click.option(
    "--lessons",
    metavar="ADDRESS",
    help="The folder of the lessons, or a postgresql:// address.  [default: JEEVES_LESSONS, else among your data]",
)
@namespace_option
@click.option(
    "--no-lessons", is_flag=True, help="Recall none and keep none; within the run they still count."
)
@embedder_option
@credit_option
@number_option(
    "--withhold",
    "SHARE",
    click.FloatRange(0, 0.5),
    help="Withhold each lesson from this share of its recalls, so that what it does is known; means --credit.",
)
@withhold_early_option
@click.option("--budget-tokens", metavar="N", type=click.IntRange(min=1), help="Stop at so many tokens.")
@click.option(
    "--budget-seconds",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    help="Stop after so long, also in the middle of a call.",
)
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Don't show what happens; errors are still shown.")
@debug_option
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - one for each option
    """Try TASK until an attempt passes, with a lesson learned from each one that does not.

    The model answers, judges its answer, and writes the lessons. The best answer goes to stdout, what happens
    meanwhile to stderr. With "-" as TASK the task is read from stdin.
    """
    # Not before the command line has been read: --help and a typing error need none of it.
    from jeeves_reflexion.cli import run_service  # noqa: PLC0415
    from jeeves_reflexion.cli.endpoints import Endpoint  # noqa: PLC0415
    from jeeves_reflexion.cli.screen import Screen  # noqa: PLC0415
    from jeeves_reflexion.cli.stores import credit_of  # noqa: PLC0415
    from jeeves_reflexion.loop.lesson_address import default_place  # noqa: PLC0415
    from jeeves_reflexion.session import Budget  # noqa: PLC0415

    if options["lessons"] is not None and options["no_lessons"]:
        raise click.UsageError("--lessons and --no-lessons exclude each other")
    credit, withhold, early = options["credit"], options["withhold"], options["withhold_early"]
    if withhold is not None and credit is False:
        raise click.UsageError("--withhold and --no-credit exclude each other")
    if options["no_lessons"] and (credit or withhold is not None):
        raise click.UsageError(
            "--credit and --withhold are about lessons that are kept: they exclude --no-lessons"
        )
    check_early(withhold, early)
    task: str = _read_stdin() if options["task"] == "-" else options["task"]
    if not task.strip():
        raise click.UsageError("the task is empty: say what is asked")
    lessons = None
    if not options["no_lessons"]:
        place = default_place() if options["lessons"] is None else options["lessons"]
        settings = credit_of(credit, withhold=withhold, early=early)
        lessons = run_service.Place(place, options["namespace"], options["embedder"], settings)
    order = run_service.Order(
        task=task.strip(),
        endpoint=Endpoint(options["model"], options["base_url"], options["api_key_env"], options["timeout"]),
        judge=options["evaluator_model"],
        agent=options["agent"],
        lessons=lessons,
        max_attempts=options["max_attempts"],
        threshold=options["threshold"],
        top_k=options["k"],
        budget=Budget(max_tokens=options["budget_tokens"], max_seconds=options["budget_seconds"]),
    )
    ctx.exit(run_service.run(order, Screen(quiet=options["quiet"]), as_json=options["as_json"]))


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the task on stdin is no UTF-8 text: {error.reason}") from error
