"""The command ``jeeves-reflexion bench refinement``."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path

import click

from jeeves_reflexion.cli.bench_options import numbers

from ..report import out_option, tell_quarters, write_result
from .measure import ERRORS, Setting, measure
from .report import page, page_json


def _axes(_: click.Context, __: click.Parameter, value: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    judges, _slash, revisers = value.partition("/")
    try:
        return _errors(judges), _errors(revisers or judges)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of errors from 0 to 1 such as 0,0.1,0.2") from None


def _errors(listed: str) -> tuple[float, ...]:
    errors = tuple(sorted({float(part) for part in listed.split(",")}))
    if not all(0.0 <= one <= 1.0 for one in errors):
        raise ValueError(listed)
    return errors


@click.command("refinement")
@click.option(
    "--tasks", type=click.IntRange(min=2), default=60, show_default=True, help="Problems for each seed."
)
@click.option("--seeds", callback=numbers, default="0,1,2,3,4", show_default=True, help="Seeds, by commas.")
@click.option(
    "--grid",
    callback=_axes,
    default=",".join(f"{one:g}" for one in ERRORS),
    show_default=True,
    help="Errors of the judge and, after a slash, those of the reviser if they differ.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1, help="Runs at a time."
)
@out_option("refinement.md and refinement.json")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def refinement(
    *,
    tasks: int,
    seeds: tuple[int, ...],
    grid: tuple[tuple[float, ...], tuple[float, ...]],
    workers: int,
    out: Path,
    as_json: bool,
) -> None:
    """Find up to which errors of judge and reviser the success criteria of the inner loop hold.

    The writer, judge and reviser are offline simulations with given error rates.
    """
    setting = Setting(tasks, tuple(dict.fromkeys(seeds)), *grid, workers)
    started = time.monotonic()
    found = measure(setting, partial(tell_quarters, partial(click.echo, err=True), "jobs"))
    seconds = time.monotonic() - started
    text, figures = page(setting, *found, seconds), page_json(setting, *found, seconds)
    write_result(out, "refinement", figures, text)
    click.echo(json.dumps(figures, indent=1) if as_json else text)
    click.echo(f"Written: {out / 'refinement'}.md and .json", err=True)
