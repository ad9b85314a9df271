"""``jeeves-reflexion lessons reembed``: has lessons found by another embedder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, get_args

import click

from jeeves_reflexion.cli.options import NamedEmbedder, Where, debug_option, json_option, lessons_or_place

if TYPE_CHECKING:
    from vectorstores import Reembedding, ReembeddingEstimate


@click.command(short_help="Have lessons found by another embedder.")
@click.option(
    "--embedder",
    type=click.Choice(get_args(NamedEmbedder)),
    required=True,
    help="What is to find lessons from now on.",
)
@click.option(
    "--dry-run", is_flag=True, help="Say what would be embedded and what room it needs, and do nothing."
)
@lessons_or_place
@json_option
@debug_option
def reembed(embedder: NamedEmbedder, address: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Have everything at an address found by another embedder.

    All its namespaces move together. The store stays in use meanwhile, found by the old embedder, and a move that was
    stopped goes on where it was. Programs that have the store open have to open it again afterwards.
    """
    import anyio

    from jeeves_reflexion.cli.lessons.library import Library
    from jeeves_reflexion.cli.stores import embedder_for, existing, lesson_store_errors
    from vectorstores import estimate_reembedding
    from vectorstores import reembed as move

    library = Library(Where(address, "", as_json=as_json))
    existing(library.address)
    new, screen, tenths = embedder_for(embedder, None, library.address), library.screen, {-1}

    def show(step: Reembedding) -> None:
        text, tenth = f"embedded {step.done} of {step.total}", 10 * step.done // max(step.total, 1)
        screen.waiting_for(text)
        if screen.plain and tenth not in tenths:
            tenths.add(tenth)
            screen.note(text)

    about = {"place": library.shown, "address": library.shown, "embedder": embedder}
    with lesson_store_errors():
        if dry_run:
            found = anyio.run(partial(estimate_reembedding, library.address, embedder=new))
            answer, said = {**about, **_estimate_document(found)}, _estimate_words(library.shown, found)
        else:
            with screen.busy():
                done = anyio.run(partial(move, library.address, embedder=new, on_progress=show))
            answer = {**about, "embedded": done.total}
            said = f"all {done.total} entries of {library.shown} are found by {embedder} now"
    if as_json:
        screen.document(answer)
    else:
        screen.result(said)


def _estimate_document(found: ReembeddingEstimate) -> dict[str, object]:
    return {
        "dry_run": True,
        "texts": found.texts,
        "total": found.total,
        "begun": found.begun,
        "from": {"embedder": found.before.embedder_name, "dim": found.before.dim},
        "to": {"embedder": found.after.embedder_name, "dim": found.after.dim},
        "bytes_needed": found.bytes_needed,
        "bytes_free": found.bytes_free,
    }


def _estimate_words(address: str, found: ReembeddingEstimate) -> str:
    before, after = found.before, found.after
    if not found.texts and not found.begun:
        return f"nothing to do: all {found.total} entries of {address} are found by {after.embedder_name} already"
    goes_on = f", {found.total - found.texts} of which were embedded by a move that was stopped"
    free = "what is free there only the server knows"
    if found.bytes_free is not None:
        free = f"{_size(found.bytes_free)} are free"
    return (
        f"{found.texts} texts would be embedded with {after.embedder_name}: {address} holds {found.total} entries in"
        f" all its namespaces{goes_on if found.begun else ''}\n"
        f"from {before.embedder_name}, {before.dim} dimensions, to {after.embedder_name}, {after.dim} dimensions\n"
        f"about {_size(found.bytes_needed)} of disk are needed meanwhile; {free}"
    )


def _size(number: int) -> str:
    unit, each = next(
        ((unit, each) for unit, each in (("GB", 1e9), ("MB", 1e6)) if number >= each), ("kB", 1e3)
    )
    return f"{number / each:.1f} {unit}"
