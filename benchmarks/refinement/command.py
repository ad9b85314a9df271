"""The command ``jeeves-reflexion bench refinement``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from jeeves_reflexion.cli.bench_options import numbers

from ..report import out_option, tell_quarters, write_result
from .report import page, page_json
from .setting import Setting, measure

_DEFAULTS = Setting("")
_GRID = ",".join(f"{one:g}" for one in _DEFAULTS.judges)


def _seeds(ctx: click.Context, option: click.Parameter, value: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers(ctx, option, value)))


def _axes(_: click.Context, __: click.Parameter, value: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    judges, _slash, revisers = value.partition("/")
    try:
        axes = _errors(judges), _errors(revisers or judges)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of errors from 0 to 1 such as 0,0.1,0.2") from None
    return axes


def _errors(listed: str) -> tuple[float, ...]:
    errors = tuple(sorted({float(part) for part in listed.split(",")}))
    if not all(0.0 <= one <= 1.0 for one in errors):
        raise ValueError(listed)
    return errors


@click.command("refinement")
@click.option(
    "--tasks",
    type=click.IntRange(min=2),
    default=_DEFAULTS.tasks,
    show_default=True,
    help="Problems for each seed.",
)
@click.option("--seeds", callback=_seeds, default="0,1,2,3,4", show_default=True, help="Seeds, by commas.")
@click.option(
    "--grid",
    callback=_axes,
    default=_GRID,
    show_default=True,
    help="Errors of the judge, and after a slash those of the reviser if they are others.",
)
@click.option(
    "--right",
    type=click.FloatRange(0, 1),
    default=_DEFAULTS.right,
    show_default=True,
    help="How often the offline writer gets a requirement right.",
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    default=_DEFAULTS.noise,
    show_default=True,
    help="Standard deviation of the offline judge's score.",
)
@click.option(
    "--max-iterations", type=click.IntRange(min=1), default=_DEFAULTS.max_revisions, show_default=True
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1, help="Runs at a time."
)
@out_option("refinement.md and refinement.json")
@click.option("--json", "as_json_", is_flag=True, help="Print the result as JSON.")
def refinement(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Find up to which errors of judge and reviser the success criteria of the inner loop hold.

    An offline writer, judge and reviser play, whose error rates are set.
    """
    setting = _setting(options)
    started = time.monotonic()
    found = replace(measure(setting, _tell), seconds=time.monotonic() - started)
    text, figures, out = page(found), page_json(found), options["out"]
    write_result(out, "refinement", figures, text)
    click.echo(json.dumps(figures, indent=1) if options["as_json_"] else text)
    click.echo(f"Written: {out / 'refinement'}.md and .json", err=True)


def _setting(options: dict[str, Any]) -> Setting:
    judges, revisers = options["grid"]
    setting = Setting(
        command="",
        tasks=options["tasks"],
        seeds=options["seeds"],
        judges=judges,
        revisers=revisers,
        right=options["right"],
        noise=options["noise"],
        max_revisions=options["max_iterations"],
        workers=options["workers"],
    )
    return replace(setting, command=_command(setting))


def _command(setting: Setting) -> str:
    """Write the command that makes this measurement again."""
    axes = [_listed(setting.judges), _listed(setting.revisers)]
    return (
        f"jeeves-reflexion bench refinement --tasks {setting.tasks} --seeds {_listed(setting.seeds)}"
        f" --max-iterations {setting.max_revisions} --grid {'/'.join(dict.fromkeys(axes))}"
        f" --right {setting.right:g} --noise {setting.noise:g}"
    )


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{one:g}" for one in numbers)


_tell = partial(tell_quarters, partial(click.echo, err=True))
