"""``jeeves-reflexion lessons``: what the commands take that carry lessons to files, back, and to another embedder."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from jeeves_reflexion.cli.options import (
    NamedEmbedder,
    asking_options,
    by_option,
    common,
    embedder_option,
    everywhere,
    served_by,
)
from jeeves_reflexion.types import LessonState

_files = served_by("lessons.files:FileService")

state_option = click.option(
    "--state", type=click.Choice(get_args(LessonState)), help="Those of one state only."
)
create_option = click.option("--create", is_flag=True, help="Make a store where there is none.")


@click.command(short_help="Write lessons to a file or a folder.")
@click.argument("target", metavar="FILE|FOLDER|-")
@click.option(
    "--format",
    "form",
    type=click.Choice(("jsonl", "markdown")),
    default="jsonl",
    show_default=True,
    help="A line of JSON for each lesson, or a folder with a Markdown file for each.",
)
@state_option
@click.option(
    "--overwrite", is_flag=True, help="Replace a file, or files of a folder, that are there already."
)
@common
@_files
def export() -> None:
    """Write lessons to a file, or to a folder of Markdown files that people read and edit."""


@click.command("import", short_help="Take lessons in, after a look.")
@click.argument("source", metavar="FILE|FOLDER", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--approve", is_flag=True, help="Let new lessons be recalled at once.  [default: they wait for review]"
)
@click.option(
    "--restore",
    is_flag=True,
    help="Take your own lessons back as they were written: trust, state and support too.",
)
@click.option(
    "--force", is_flag=True, help="With --restore: undo what was done to these lessons since, forgetting too."
)
@create_option
@click.option("--skip-bad", is_flag=True, help="Pass over what is no lesson, instead of importing nothing.")
@embedder_option
@by_option
@asking_options
@common
@_files
def import_() -> None:
    """Take in lessons that "export" wrote: JSON lines, or a folder of Markdown files.

    Shows what is new, changed, the same and refused, and asks. Lessons of others are marked as imported, and are shown
    to agents as data. --restore leaves a lesson alone that was changed since it was exported, unless --force is given;
    one that was forgotten comes back with both alone.
    """


@click.command(short_help="Take over what was edited in a folder.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--holds",
    type=click.Choice(("lessons", "reflections")),
    help="What the folder holds.  [default: reflections if its files lie in folders of agents]",
)
@embedder_option
@by_option
@asking_options
@common
@served_by("lessons.sync:SyncService")
def sync() -> None:
    """Take over what people did to the Markdown files of a FOLDER: lessons that were exported, or reflections.

    Shows what was added, changed and removed, and asks. A lesson whose file was removed is retired.
    """


@click.command("reembed", short_help="Have lessons found by another embedder.")
@click.option(
    "--embedder",
    type=click.Choice(get_args(NamedEmbedder)),
    required=True,
    help="What is to find lessons from now on.",
)
@click.option(
    "--dry-run", is_flag=True, help="Say what would be embedded and what room it needs, and do nothing."
)
@everywhere
@served_by("lessons.reembedding:ReembeddingService")
def reembed() -> None:
    """Have everything in a place found by another embedder.

    All its namespaces move together. The store stays in use meanwhile, found by the old embedder, and a move that was
    stopped goes on where it was. Programs that have the store open have to open it again afterwards.
    """
