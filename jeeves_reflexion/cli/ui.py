"""``jeeves-reflexion ui``: web pages that show lessons and runs."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import anyio
import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.lessons.library import Library
from jeeves_reflexion.cli.stores import existing, open_existing
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.text import one_line


@click.command(short_help="Look at lessons and runs in a browser.")
@click.option(
    "--runs",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of experiment runs, or one run.",
)
@click.option("--host", metavar="HOST", default="127.0.0.1", help="The host to listen on.")
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=8770,
    help="The port to listen on; 0: any free one.",
)
@click.option(
    "--public",
    "names",
    metavar="NAME",
    multiple=True,
    help="Allow other machines, which reach this one as NAME; may be repeated.",
)
@options.gathered(
    "library",
    Library,
    options.lessons,
    options.namespace,
    options.embedder,
    click.option(
        "--by",
        metavar="NAME",
        default="the page",
        help="Your name, kept in the history of lessons that you change.",
    ),
    options.debug,
)
def ui(
    library: Library,
    runs: Path | None,
    *,
    host: str,
    port: int,
    names: tuple[str, ...],
) -> None:
    """Show lessons and runs in a browser, until Ctrl-C.

    The printed address contains a token. Whoever has it may read and change the lessons. Set JEEVES_UI_TOKEN, at least
    16 ASCII characters, to choose the token. Only --public lets other machines in.
    """
    try:
        from jeeves_reflexion.cli.listener import listen, server_of, url_of  # noqa: PLC0415 - optional packages
        from jeeves_reflexion.web.access import Access, is_loopback  # noqa: PLC0415
        from jeeves_reflexion.web.app import Shown, make_app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingDependencyError("the page", "web") from error
    if not is_loopback(host) and not names:
        raise ConfigurationError(
            f"--host {host} lets other machines in: add --public NAME, the name by which they reach this one"
        )
    address, namespace = library.store_address, library.namespace
    if library.address is not None or runs is None:
        existing(address)  # reports a mistyped address now instead of on the page
    opening = partial(open_existing, address, namespace, library.embedder)
    shown = Shown(opening, library.shown, namespace, runs, one_line(library.by))
    own = f"[{host}]" if ":" in host else host
    access = Access(names or (own,))
    with closing(listen(host, port)) as listening:
        # Live pages never end by themselves, so they ask whether the server is stopping.
        server = server_of(make_app(shown, access, stopping=lambda: server.should_exit))
        library.screen.result(f"{url_of(listening, access.names[0])}/?{urlencode({'token': access.token})}")
        library.screen.note("Open this address in a browser. Ctrl-C ends it.")
        anyio.run(server.serve, [listening])
