"""``jeeves-reflexion tokens``: manage who may use the lessons of an address over HTTP."""

from __future__ import annotations

from dataclasses import asdict

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import Library
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.mcp.tokens import RIGHTS, Right, Tokens
from jeeves_reflexion.summary import when

_of_address = options.gathered("library", Library, options.lessons, options.json, options.debug)


@click.group()
def tokens() -> None:
    """Manage who may use the lessons of an address over HTTP, in which namespaces, and with which rights.

    The store keeps only a digest of each token: a token is shown once.
    """


@tokens.command(short_help="Make a token for a client.")
@click.argument("name")
@click.option(
    "--for",
    "namespaces",
    metavar="NS",
    multiple=True,
    default=("default",),
    help="A namespace that the token opens; may be repeated, the first is the default.",
)
@click.option(
    "--right",
    "rights",
    type=click.Choice(RIGHTS),
    multiple=True,
    default=("read", "propose"),
    help="A right of the token; may be repeated. read: recall and search. propose: write lessons that wait for review,"
    " report outcomes. review: approve, retire, edit, forget.",
)
@_of_address
async def make(library: Library, name: str, namespaces: tuple[str, ...], rights: tuple[Right, ...]) -> None:
    """Make a token for the client NAME, and print it. It can't be shown again.

    The history of lessons names the client for each of its changes.
    """
    async with library.open() as store:
        token = await Tokens(store.store).make(name, namespaces, rights)
    answer = {"name": name, "namespaces": namespaces, "rights": rights, "token": token}
    library.give(answer, token, note="keep this token: it can't be shown again")


@tokens.command("list", short_help="List the tokens.")
@_of_address
async def list_(library: Library) -> None:
    """List the tokens: name, date, rights and namespaces."""
    async with library.open() as store:
        found = await Tokens(store.store).all()
    rows = [
        {
            "name": each.name,
            "date": when(each.created_at),
            "rights": ", ".join(each.rights),
            "namespaces": ", ".join(each.namespaces),
        }
        for each in found
    ]
    shown = [{key: value for key, value in asdict(each).items() if key != "digest"} for each in found]
    library.give(
        {"tokens": shown}, rows=rows, note="" if found else f"there are no tokens in {library.shown}"
    )


@tokens.command(short_help="Refuse a token from now on.")
@click.argument("name")
@_of_address
async def revoke(library: Library, name: str) -> None:
    """Refuse the token NAME from the next call on, in running servers too."""
    async with library.open() as store:
        if not await Tokens(store.store).revoke(name):
            raise LessonStoreError(f"there is no token {name!r} in {library.shown}")
    library.give({"revoked": name}, f"revoked {name}")
