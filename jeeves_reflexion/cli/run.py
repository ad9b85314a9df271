"""``jeeves-reflexion run``: its options."""

from __future__ import annotations

import sys

import click

from jeeves_reflexion.cli.bench_options import check_early, check_finite_number
from jeeves_reflexion.cli.options import (
    COUNT,
    EmbedderChoice,
    check_finite,
    check_text,
    credit_option,
    debug_option,
    embedder_option,
    endpoint_options,
    json_option,
    namespace_option,
)


@click.command(short_help="Try a task, learn from each attempt, try again.")
@click.argument("task", callback=check_text)
@click.option("--model", metavar="NAME", required=True, help="The model, by its name at the endpoint.")
@endpoint_options
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
@click.option(
    "--top-k",
    metavar="N",
    type=COUNT,
    default=5,
    show_default=True,
    help="How many lessons an attempt may recall.",
)
@click.option(
    "--lessons",
    metavar="PLACE",
    help="The folder that the lessons are kept in.  [default: JEEVES_LESSONS, else among your data]",
)
@namespace_option
@click.option(
    "--no-lessons", is_flag=True, help="Recall none and keep none; within the run they still count."
)
@embedder_option
@credit_option
@click.option(
    "--withhold",
    metavar="SHARE",
    type=click.FloatRange(0, 0.5),
    callback=check_finite_number,
    help="Withhold each lesson from this share of its recalls, so that what it does is known; means --credit.",
)
@click.option(
    "--withhold-early",
    metavar="SHARE",
    type=click.FloatRange(0, 0.5),
    callback=check_finite_number,
    help="With --withhold: a larger share for a lesson of which nothing is known, halved the more is known.",
)
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
def run(  # noqa: PLR0913 - one parameter for each option
    ctx: click.Context,
    task: str,
    *,
    model: str,
    base_url: str | None,
    api_key_env: str | None,
    timeout: float,
    evaluator_model: str | None,
    max_attempts: int,
    threshold: float,
    top_k: int,
    lessons: str | None,
    namespace: str,
    no_lessons: bool,
    embedder: EmbedderChoice,
    credit: bool | None,
    withhold: float | None,
    withhold_early: float | None,
    budget_tokens: int | None,
    budget_seconds: float | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Try TASK until an attempt passes, with a lesson learned from each one that does not.

    The model answers, judges its answer, and writes the lessons. The best answer goes to stdout, what happens
    meanwhile to stderr. With "-" as TASK the task is read from stdin.
    """
    # Not before the command line has been read: --help and a typing error need none of it.
    from jeeves_reflexion.cli import running  # noqa: PLC0415
    from jeeves_reflexion.cli.endpoints import Endpoint  # noqa: PLC0415
    from jeeves_reflexion.cli.lesson_credit import credit_of  # noqa: PLC0415
    from jeeves_reflexion.cli.screen import Screen  # noqa: PLC0415
    from jeeves_reflexion.loop.lesson_address import default_place  # noqa: PLC0415

    if lessons is not None and no_lessons:
        raise click.UsageError("--lessons and --no-lessons exclude each other")
    if withhold is not None and credit is False:
        raise click.UsageError("--withhold and --no-credit exclude each other")
    if no_lessons and (credit or withhold is not None):
        raise click.UsageError(
            "--credit and --withhold are about lessons that are kept: they exclude --no-lessons"
        )
    check_early(withhold, withhold_early)
    if task == "-":
        task = _read_stdin()
    if not task.strip():
        raise click.UsageError("the task is empty: say what is asked")
    place = default_place() if lessons is None else lessons
    settings = credit_of(credit, withhold=withhold, early=withhold_early)
    order = running.Order(
        task=task.strip(),
        endpoint=Endpoint(model, base_url, api_key_env, timeout),
        judge=evaluator_model,
        loop=running.Loop(max_attempts, threshold, top_k, budget_tokens, budget_seconds),
        lessons=None if no_lessons else running.Place(place, namespace, embedder, settings),
    )
    ctx.exit(running.run(order, Screen(quiet=quiet), as_json=as_json))


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the task on stdin is no UTF-8 text: {error.reason}") from error
