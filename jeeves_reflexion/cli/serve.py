"""``jeeves-reflexion serve``: share the lessons of an address with other programs."""

from __future__ import annotations

from dataclasses import dataclass

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import Library
from jeeves_reflexion.cli.stores import credit_of
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.lessons import LessonSettings, VectorLessonStore


@dataclass(frozen=True, slots=True)
class Reach:
    """The options of a server over HTTP: who may reach it, and how often."""

    http: str | None = None
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    rate: int = 600


@click.group()
def serve() -> None:
    """Share the lessons with other programs."""


@serve.command(short_help="For MCP clients: editors, coding agents, chat applications.")
@options.gathered(
    "reach",
    Reach,
    click.option(
        "--http",
        metavar="HOST:PORT",
        help='Serve streamable HTTP at /mcp on this host and port; every call needs a token (see "tokens").'
        "  [default: standard input and output, for the client that starts this command]",
    ),
    click.option(
        "--allow-host",
        metavar="NAME",
        multiple=True,
        help="Another host name by which clients reach the server; may be repeated.",
    ),
    click.option(
        "--allow-origin",
        metavar="ORIGIN",
        multiple=True,
        help="The origin of a web page that may call the server; may be repeated.  [default: none]",
    ),
    click.option(
        "--rate",
        metavar="N",
        type=options.COUNT,
        default=600,
        help="The most requests of each token per minute.",
    ),
)
@click.option(
    "--review",
    is_flag=True,
    help="Let the client approve, retire, edit and forget. With --http the token's rights decide instead.",
)
@options.create
@options.credit
@options.withhold
@options.gathered("library", Library, options.embedder, options.lessons, options.namespace, options.debug)
async def mcp(
    library: Library,
    reach: Reach,
    *,
    review: bool,
    credit: bool,
    withhold: float,
) -> None:
    """Share the lessons with MCP clients, which recall lessons, report outcomes and propose lessons.

    A proposed lesson is recalled once a person has approved it (see "lessons review"). The server ends with its client,
    or by Ctrl-C.
    """
    if reach.http is None and (reach.allow_host or reach.allow_origin):
        raise click.UsageError("--allow-host and --allow-origin need --http")
    if reach.http is not None and review:
        raise click.UsageError('with --http a token\'s rights decide: use "tokens make --right review"')
    if reach.http is not None and library.namespace != "default":
        raise click.UsageError('with --http a token names the namespaces: use "tokens make --for NS"')
    settings = LessonSettings(credit=credit_of(asked=bool(credit), withhold=withhold))
    if reach.http is None:
        await _over_stdio(library, settings, review=review)
    else:
        await _over_http(library, settings, reach)


async def _over_stdio(library: Library, settings: LessonSettings, *, review: bool) -> None:
    try:
        from jeeves_reflexion.mcp.server import build_server  # noqa: PLC0415 - an optional package
        from jeeves_reflexion.mcp.tools import LessonTools  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("an MCP server", "mcp") from error
    from jeeves_reflexion.mcp.tokens import RIGHTS, Caller  # noqa: PLC0415

    caller = Caller("mcp", (library.namespace,), RIGHTS if review else RIGHTS[:2])
    async with library.open(create=library.create) as store:
        lessons = VectorLessonStore(store.store, settings=settings)
        await build_server(LessonTools(lessons, lambda: caller), review=review).run_stdio_async()


async def _over_http(library: Library, settings: LessonSettings, reach: Reach) -> None:
    try:
        from jeeves_reflexion.cli.listener import listen, server_of, url_of  # noqa: PLC0415 - optional packages
        from jeeves_reflexion.mcp.http import PATH, hosts_at, http_app  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError("an MCP server", "mcp") from error
    from jeeves_reflexion.mcp.tokens import Tokens  # noqa: PLC0415

    host, _, port = str(reach.http).rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"{reach.http!r} is not HOST:PORT, such as 127.0.0.1:8765")
    listening = listen(bare, int(port))
    hosts = hosts_at(listening, host, reach.allow_host)
    async with library.open(create=library.create) as store:
        tokens = Tokens(store.store)
        if not await tokens.all():
            library.screen.note('nobody has a token yet: "jeeves-reflexion tokens make NAME" makes one')
        library.screen.note(f"serving {library.shown} at {url_of(listening)}{PATH}")
        lessons = VectorLessonStore(store.store, settings=settings)
        app = http_app(lessons, tokens, hosts=hosts, origins=reach.allow_origin, per_minute=reach.rate)
        await server_of(app).serve(sockets=[listening])
