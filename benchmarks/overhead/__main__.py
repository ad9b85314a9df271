"""``python -m benchmarks.overhead``: measures, prints the page and writes it with its JSON beside it."""

from __future__ import annotations

from pathlib import Path

import anyio
import click

from benchmarks.overhead.measure import measure_memory, measure_speed
from benchmarks.overhead.ours import OURS
from benchmarks.overhead.peer import load_peer
from benchmarks.overhead.report import Report
from benchmarks.overhead.work import CASES, Side
from benchmarks.results import out_option, write_result
from jeeves_reflexion import ConfigurationError


@click.command()
@click.option(
    "--runs", type=click.IntRange(min=1), default=200, show_default=True, help="Runs per repetition."
)
@click.option("--repetitions", type=click.IntRange(min=1), default=25, show_default=True)
@click.option(
    "--memory-runs",
    type=click.IntRange(min=2),
    default=6000,
    show_default=True,
    help="Runs to watch memory for.",
)
@out_option("overhead.json and overhead.md")
def main(runs: int, repetitions: int, memory_runs: int, out: Path) -> None:
    """Measure what the loop costs per attempt, beside the peer where it is installed."""
    sides, missing = [OURS], ""
    try:
        sides.append(load_peer())
    except ConfigurationError as error:
        missing = str(error)
        click.echo(f"Ours alone: {missing}", err=True)
    report = anyio.run(_measure, sides, missing, (runs, repetitions, memory_runs))
    page = report.as_markdown()
    write_result(out, "overhead", report.as_json(), page)
    click.echo(page)


async def _measure(sides: list[Side], missing: str, size: tuple[int, int, int]) -> Report:
    runs, repetitions, memory_runs = size
    speeds = [await measure_speed(sides, case, runs=runs, repetitions=repetitions) for case in CASES]
    memories = [await measure_memory(side, CASES[0], runs=memory_runs) for side in sides]
    return Report({side.name: side.version for side in sides}, runs, speeds, memories, missing)


if __name__ == "__main__":
    main()
