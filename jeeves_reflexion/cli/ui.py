"""``jeeves-reflexion ui``: the page on which people look at lessons and runs."""

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
    help="The folder of runs of experiments, or one of them.",
)
@click.option("--host", metavar="HOST", default="127.0.0.1", help="Where to listen.")
@click.option(
    "--port", metavar="PORT", type=click.IntRange(0, 65535), default=8770, help="0: any that is free."
)
@click.option(
    "--public",
    "names",
    metavar="NAME",
    multiple=True,
    help="Let other machines in, which know this one by NAME; may be repeated.",
)
@options.gathered(
    "library",
    Library,
    options.lessons,
    options.namespace,
    options.embedder,
    click.option(
        "--by", metavar="NAME", default="the page", help="Who changes lessons here; kept in the history."
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
    """Show the lessons of an address, and runs, on a page of this machine, until Ctrl-C.

    The address that is printed has a token: whoever has it may read and change the lessons. JEEVES_UI_TOKEN, of at
    least 16 ASCII characters, is used where it is set. Other machines are let in with --public alone.
    """
    try:
        from jeeves_reflexion.cli.listener import listen, server_of, url_of  # noqa: PLC0415 - optional packages
        from jeeves_reflexion.web.access import Access, is_loopback  # noqa: PLC0415
        from jeeves_reflexion.web.app import Shown, make_app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingDependencyError("the page", "web") from error
    if not is_loopback(host) and not names:
        raise ConfigurationError(
            f"--host {host} lets other machines in: say by which name they know this one, with --public NAME"
        )
    address, namespace = library.store_address, library.namespace
    if library.address is not None or runs is None:
        existing(address)  # a slip is told here, and not by the page
    opening = partial(open_existing, address, namespace, library.embedder)
    shown = Shown(opening, library.shown, namespace, runs, one_line(library.by))
    own = f"[{host}]" if ":" in host else host
    access = Access(names or (own,))
    with closing(listen(host, port)) as listening:
        # Live pages never end by themselves, and nobody waits for another answer once the server is to end.
        server = server_of(make_app(shown, access, stopping=lambda: server.should_exit))
        library.screen.result(f"{url_of(listening, access.names[0])}/?{urlencode({'token': access.token})}")
        library.screen.note("Open this address in a browser. Ctrl-C ends it.")
        anyio.run(server.serve, [listening])
