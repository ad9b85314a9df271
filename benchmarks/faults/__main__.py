"""``python -m benchmarks.faults``: kills writers, counts what was lost, and writes the result."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.faults.rounds import WRITERS, Outcome, Plan, run_rounds
from benchmarks.report import machine, table, write_result
from benchmarks.servers import SCHEME, embedded_postgres
from vectorstores import JSON

_PER_STORE: Final = 20
_PRELOAD: Final = 12_000


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--store", type=click.Choice(["faiss", "postgres"]), default="faiss", show_default=True)
@click.option(
    "--kill-server", is_flag=True, help="Kill the embedded PostgreSQL too, while the writers write."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("docs/results/faults.json"),
    show_default=True,
    help="Adds the result to this file, under the store's name, and writes a page of all results beside it.",
)
def main(rounds: int, store: str, kill_server: bool, seed: int, out: Path) -> None:  # noqa: FBT001
    """Kill writing processes at random moments, and check that nothing acknowledged was lost.

    A new store is made every twenty rounds; every other store starts with 12,000 chunks.
    """
    if kill_server and store != "postgres":
        raise click.UsageError("--kill-server is for --store postgres")
    name = f"{store}, server killed" if kill_server else store
    command = f"python -m benchmarks.faults --rounds {rounds} --store {store} --seed {seed}"
    with (
        tempfile.TemporaryDirectory(prefix="faults-") as folder,
        embedded_postgres() if store == "postgres" else nullcontext("") as server,
    ):
        scratch = Path(folder)

        def place(number: int) -> tuple[str, str]:
            return (server, f"faults-{number}") if server else (str(scratch / f"store-{number}"), "faults")

        plan = Plan(place, scratch, seed=seed, rounds=rounds, per_store=_PER_STORE, preload=_PRELOAD)
        if kill_server:
            plan.between = partial(_kill_server, Path(server.removeprefix(SCHEME)), random.Random(seed))
            command += " --kill-server"
        outcome = anyio.run(lambda: run_rounds(plan, say=lambda line: click.echo(line, err=True)))
    results: dict[str, Mapping[str, JSON]] = {}
    if out.exists():
        results = json.loads(out.read_text(encoding="utf-8"))
    results[name] = as_json(outcome, command)
    text = page(results)
    write_result(out.parent, out.stem, results, text)
    click.echo(text)
    if outcome.verdict.faults:
        sys.exit(1)


def as_json(outcome: Outcome, command: str) -> dict[str, JSON]:
    """Return an outcome as JSON."""
    figures = asdict(outcome)
    counts = figures.pop("verdict")
    figures |= {"seconds": round(outcome.seconds), **counts, "notes": counts["notes"][:20]}
    return {"command": command, "machine": machine(), **figures}


_COLUMNS: Final = {
    "rounds": "rounds",
    "killed": "processes killed",
    "calls": "calls acknowledged",
    "items": "chunks and records left by them",
    "kept": "unacknowledged calls found whole",
    "searched": "chunks searched by vector",
    "lost": "**lost**",
    "torn": "**torn**",
    "wrong": "**wrong answers**",
    "seconds": "seconds",
}
_PAGE: Final = """# Killed while writing

In each round {writers} processes write to one store, three streams each: chunks alone and in batches with records,
replacements, updates, deletions, records appended and swapped, a counter and races in which all take part. At a random
moment they are killed (`kill -9`): all at once, one by one, some while the others continue, or while they still open
the store. Then the store is opened and compared with the calls that were acknowledged.

*Lost*: a chunk or record of an acknowledged call is missing or different, or a deleted one is back. *Torn*: a call was
carried out in part. *Wrong*: count, scan and search contradict each other, a chunk is not found by its own vector, or
a call returned a wrong result.

{table}

{notes}
"""


def page(results: Mapping[str, Mapping[str, JSON]]) -> str:
    """Return the results of all stores as a page."""
    rows = [[name, *(f"{result[key]:,}" for key in _COLUMNS)] for name, result in results.items()]
    notes: list[str] = []
    for name, result in results.items():
        notes.append(f"- {name}: `{result['command']}` on {result['machine']}")
        if result["refused"]:
            notes.append(f"  ({result['refused']} calls were refused while there was no server)")
        for key, before in (("reasons", "refused: "), ("notes", "")):
            texts = result.get(key)
            notes += [f"  - {before}{each}" for each in texts] if isinstance(texts, list) else []
    return _PAGE.format(
        writers=WRITERS, table=table(["store", *_COLUMNS.values()], rows), notes="\n".join(notes)
    )


def _kill_server(folder: Path, chance: random.Random) -> None:
    """Kill the server, by an immediate stop or by SIGKILL; its next user starts it again."""
    process = int((folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    os.kill(process, chance.choice([signal.SIGQUIT, signal.SIGKILL]))


if __name__ == "__main__":
    main()
