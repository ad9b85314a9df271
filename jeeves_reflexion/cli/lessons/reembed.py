"""``jeeves-reflexion lessons reembed``: has lessons found by another embedder."""

from __future__ import annotations

from functools import partial
from typing import get_args

import anyio
import click

from jeeves_reflexion.cli.connections import embedder_for, existing, lesson_store_errors
from jeeves_reflexion.cli.lessons.library import Library
from jeeves_reflexion.cli.options import NamedEmbedder, Where, debug_option, json_option, lessons_or_place
from vectorstores import Reembedding
from vectorstores import reembed as move


@click.command(short_help="Have lessons found by another embedder.")
@click.option(
    "--embedder",
    type=click.Choice(get_args(NamedEmbedder)),
    required=True,
    help="What is to find lessons from now on.",
)
@lessons_or_place
@json_option
@debug_option
def reembed(embedder: NamedEmbedder, address: str | None, *, as_json: bool) -> None:
    """Have everything at an address found by another embedder.

    All its namespaces move together. The store stays in use meanwhile, found by the old embedder, and a move that was
    stopped goes on where it was. Programs that have the store open have to open it again afterwards.
    """
    library = Library(Where(address, "", as_json=as_json))
    existing(library.address)
    new, screen, tenths = embedder_for(embedder, None, library.address), library.screen, {-1}

    def show(step: Reembedding) -> None:
        text, tenth = f"embedded {step.done} of {step.total}", 10 * step.done // max(step.total, 1)
        screen.waiting_for(text)
        if screen.plain and tenth not in tenths:
            tenths.add(tenth)
            screen.note(text)

    with lesson_store_errors(), screen.busy():
        done = anyio.run(partial(move, library.address, embedder=new, on_progress=show))
    if as_json:
        about = {"place": library.shown, "address": library.shown, "embedder": embedder}
        screen.document(about | {"embedded": done.total})
    else:
        screen.result(f"all {done.total} entries of {library.shown} are found by {embedder} now")
