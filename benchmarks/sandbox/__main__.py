"""``python -m benchmarks.sandbox``: measures, prints the page and writes it with its JSON beside it."""

from __future__ import annotations

from pathlib import Path

import anyio
import click

from benchmarks.results import out_option, write_result
from benchmarks.sandbox.measure import Measurement, measure


@click.command()
@click.option("--repetitions", type=click.IntRange(min=1), default=25, show_default=True)
@out_option("sandbox.json and sandbox.md")
def main(repetitions: int, out: Path) -> None:
    """Measure what a sandboxed evaluation costs, cold and warm, beside a bare process."""
    measured = anyio.run(measure, repetitions)
    page = _page(measured, repetitions)
    write_result(out, "sandbox", measured.as_json(), page)
    click.echo(page)


def _page(measured: Measurement, repetitions: int) -> str:
    bare = measured.sides[0].median
    rows = [
        f"| {side.name} | {1000 * side.median:.1f} ({1000 * min(side.seconds):.1f} to {1000 * max(side.seconds):.1f})"
        f" | {side.median / bare:.2f} |"
        for side in measured.sides
    ]
    intro = (
        f"Measured by `python -m benchmarks.sandbox` on {measured.machine}, isolation by {measured.way}:"
        f" {repetitions} evaluations of each kind, one at a time, the kinds taking turns. The Python evaluator is the"
        " same on all sides: it reads a JSON profile and scores it. The bare process is"
        ' `subprocess.run([python, "-c", ...])`: the interpreter as it is installed, without isolation and limits.'
        " A warm evaluation finds an interpreter that waits; between two of them there is time for the next to start."
    )
    head = [
        "| | milliseconds, median (smallest to largest) | ratio to the bare process |",
        "| --- | --- | --- |",
    ]
    end = "Each time is a whole evaluation: from the call until the value is there and all its processes are gone."
    return "\n".join(["# What a sandboxed evaluation costs", "", intro, "", *head, *rows, "", end, ""])


if __name__ == "__main__":
    main()
