"""``python -m benchmarks.workflows``: measures, prints the page and writes it with its JSON beside it."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import click
from jsonschema import Draft202012Validator

from benchmarks.results import out_option, write_result
from benchmarks.workflows.work import CASES, Case
from jeeves_reflexion.workflows import SchemaCheck


@dataclass(frozen=True, slots=True)
class Row:
    """Evaluations per second of each repetition, ours and jsonschema's, taking turns."""

    case: Case
    ours: tuple[float, ...]
    raw: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Ours by jsonschema's, repetition by repetition: neighbours in time share the machine's mood."""
        return [a / b for a, b in zip(self.ours, self.raw, strict=True)]


@click.command()
@click.option("--repetitions", type=click.IntRange(min=1), default=15, show_default=True)
@out_option("workflows.json and workflows.md")
def main(repetitions: int, out: Path) -> None:
    """Measure the schema evaluator against raw jsonschema, in one run."""
    rows = [_measure(case, repetitions) for case in CASES]
    page = _page(rows, repetitions)
    figures = [{"case": row.case.title, "ours": row.ours, "jsonschema": row.raw} for row in rows]
    write_result(out, "workflows", figures, page)
    click.echo(page)


def _measure(case: Case, repetitions: int) -> Row:
    check = SchemaCheck(case.schema)
    validator = Draft202012Validator(case.schema)

    def ours() -> bool:
        return check(case.output).valid

    def raw() -> bool:
        return not list(validator.iter_errors(case.plain))

    if ours() != raw():
        raise SystemExit(f"the two disagree on {case.title}")
    rates: dict[Callable[[], bool], list[float]] = {ours: [], raw: []}
    for repetition in range(repetitions):
        # Each goes first in every other round, so that neither always has the warmer machine.
        for judge in (ours, raw) if repetition % 2 == 0 else (raw, ours):
            rates[judge].append(_rate(judge, case.per_round))
    return Row(case, tuple(rates[ours]), tuple(rates[raw]))


def _rate(judge: Callable[[], bool], rounds: int) -> float:
    gc.collect()
    started = time.perf_counter()
    for _ in range(rounds):
        judge()
    return rounds / (time.perf_counter() - started)


def _page(rows: Sequence[Row], repetitions: int) -> str:
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    lines = [
        "# The schema evaluator",
        "",
        (
            f"Measured by `python -m benchmarks.workflows` on {machine}, jsonschema {version('jsonschema')}:"
            f" {repetitions} repetitions, the two taking turns in one process, both with the schema prepared. Ours also"
            " finds the JSON in a text, coerces, asserts formats, and writes path, message and suggestion of errors."
            " Raw `jsonschema` is given the parsed value and only collects its errors. Median, and in brackets the"
            " smallest and the largest."
        ),
        "",
        "| output | ours, evaluations per second | jsonschema | ours : jsonschema |",
        "| --- | --- | --- | --- |",
        *(
            f"| {r.case.title} | {_spread(r.ours, 0)} | {_spread(r.raw, 0)} | {_spread(r.ratios, 2)} |"
            for r in rows
        ),
    ]
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
