"""``jeeves-reflexion lessons add``: a lesson that a person writes, through the gate that all lessons pass."""

from __future__ import annotations

import click

from jeeves_reflexion.cli.lesson_options import Where, by_option, common
from jeeves_reflexion.cli.options import EmbedderChoice, check_text, embedder_option


@click.command(short_help="Write a lesson yourself.")
@click.argument("text", callback=check_text)
@click.option(
    "--task", metavar="TEXT", required=True, callback=check_text, help="The task that it is recalled for."
)
@click.option("--kind", metavar="KIND", help="The kind of that task.")
@click.option("--create", is_flag=True, help="Make a store where there is none.")
@embedder_option
@by_option
@common
def add(
    *,
    text: str,
    task: str,
    kind: str | None,
    create: bool,
    embedder: EmbedderChoice,
    by: str,
    where: Where,
) -> None:
    """Store TEXT, one sentence of advice, as a lesson for tasks like --task.

    It is checked and redacted as any lesson is. A text that gives orders waits in quarantine, for approve or reject.
    """
    from jeeves_reflexion.cli.lesson_addition import Addition, AdditionDesk  # noqa: PLC0415 - not for --help

    if not task.strip():
        raise click.UsageError("the task is empty: say what the lesson is to be recalled for")
    AdditionDesk(where).add(Addition(text, task, kind, embedder, create, by))
