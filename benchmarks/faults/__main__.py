"""``python -m benchmarks.faults``: kills writers, counts what was lost, and writes it down."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.faults.report import as_json, write
from benchmarks.faults.rounds import Plan, run_rounds
from vectorstores import new_id

_PER_STORE: Final = 20
_PRELOAD: Final = 12_000
_EMBEDDED: Final = "postgresql+embedded://"


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--store", type=click.Choice(["faiss", "postgres"]), default="faiss", show_default=True)
@click.option("--dsn", help="The PostgreSQL server; by default one is started in a temporary folder.")
@click.option("--kill-server", is_flag=True, help="Kill the embedded PostgreSQL too, while it is written to.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("docs/results/faults.json"),
    show_default=True,
    help="The result is put into this file under the store's name; a page of all results is written beside it.",
)
def main(rounds: int, store: str, dsn: str | None, kill_server: bool, seed: int, out: Path) -> None:  # noqa: FBT001
    """Kill writing processes at random moments, and check that nothing acknowledged was lost.

    Every twenty rounds a new store is begun, every other of them with 12,000 chunks in it.
    """
    if kill_server and (dsn or store != "postgres"):
        raise click.UsageError(
            "--kill-server is for --store postgres without --dsn: it kills a server of its own"
        )
    name = f"{store}, server killed" if kill_server else store
    command = f"python -m benchmarks.faults --rounds {rounds} --store {store} --seed {seed}"
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, _server(store, dsn) as server:
        scratch = Path(folder)
        places = _folders(scratch) if server is None else _namespaces(server)
        plan = Plan(places, scratch, seed=seed, rounds=rounds, per_store=_PER_STORE, preload=_PRELOAD)
        if kill_server and server is not None:
            plan.between = partial(_kill_server, Path(server.removeprefix(_EMBEDDED)), random.Random(seed))
            command += " --kill-server"
        outcome = anyio.run(lambda: run_rounds(plan, say=lambda line: click.echo(line, err=True)))
    click.echo(write(out, name, as_json(outcome, command)))
    if outcome.verdict.faults:
        sys.exit(1)


def _folders(scratch: Path) -> Callable[[int], tuple[str, str]]:
    return lambda number: (str(scratch / f"store-{number}"), "faults")


def _namespaces(url: str) -> Callable[[int], tuple[str, str]]:
    """Return places in one database, which other runs may have used before."""
    run = new_id()
    return lambda number: (url, f"faults-{run}-{number}")


@contextmanager
def _server(store: str, dsn: str | None) -> Iterator[str | None]:
    """Give the address of a PostgreSQL server if one is needed; stop it at the end if it is our own."""
    if store != "postgres" or dsn:
        yield dsn
        return
    from vectorstores.postgres.embedded import leave  # noqa: PLC0415 - for those with the extra

    with tempfile.TemporaryDirectory(prefix="faults-server-") as folder:
        try:
            yield f"{_EMBEDDED}{folder}"
        finally:
            leave(Path(folder))


def _kill_server(folder: Path, chance: random.Random) -> None:
    """Kill the server at once, as an immediate stop does or harder; its supervisor starts it again."""
    process = int((folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    os.kill(process, chance.choice([signal.SIGQUIT, signal.SIGKILL]))


if __name__ == "__main__":
    main()
