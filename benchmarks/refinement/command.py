"""The command ``jeeves-reflexion bench refinement``."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio
import click

from jeeves_reflexion import ConfigurationError, OpenAIModel
from jeeves_reflexion.cli.bench_options import numbers
from jeeves_reflexion.types import JSON

from ..report import out_option, tell_quarters, write_result
from .figures import figures
from .real import Cast, errors_of, play_real
from .report import model_json, model_page, page, page_json
from .setting import MeasuredModel, Setting, measure
from .tasks import keys

_DEFAULTS = Setting("")
_GRID = ",".join(f"{one:g}" for one in _DEFAULTS.judges)
_MODEL_TASKS = 12


def _seeds(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(dict.fromkeys(numbers(ctx, option, value)))


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
    help=f"Problems for each seed; {_DEFAULTS.tasks}, with a model {_MODEL_TASKS}.",
)
@click.option("--seeds", callback=_seeds, help="Seeds, by commas; 0,1,2,3,4, with a model 0.")
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
@click.option("--model", help="A language model as all three, by its name at an OpenAI-compatible endpoint.")
@click.option("--base-url", help="That endpoint; by default OPENAI_BASE_URL.")
@click.option("--reflection-model", help="Another model there as the judge.")
@out_option("refinement.md and refinement.json; with a model its name is added")
@click.option("--json", "as_json_", is_flag=True, help="Print the result as JSON.")
def refinement(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Find up to which errors of judge and reviser the success criteria of the inner loop hold.

    Without --model, an offline writer, judge and reviser play, whose error rates are set.
    """
    if not options["model"] and (options["base_url"] or options["reflection_model"]):
        raise ConfigurationError("--base-url and --reflection-model go with --model")
    setting = _setting(options)
    if options["model"]:
        name, text, figures_ = anyio.run(_with_model, setting, options)
    else:
        name, text, figures_ = _offline(setting)
    out: Path = options["out"]
    write_result(out, name, figures_, text)
    click.echo(json.dumps(figures_, indent=1) if options["as_json_"] else text)
    click.echo(f"Written: {out / name}.md and .json", err=True)


def _offline(setting: Setting) -> tuple[str, str, dict[str, JSON]]:
    started = time.monotonic()
    found = replace(measure(setting, _tell), seconds=time.monotonic() - started)
    return "refinement", page(found), page_json(found)


async def _with_model(setting: Setting, options: dict[str, Any]) -> tuple[str, str, dict[str, JSON]]:
    started = time.monotonic()
    async with OpenAIModel(options["model"], base_url=options["base_url"]) as model:
        other = options["reflection_model"]
        cast = Cast(model, model.named(other) if other else None, setting.max_revisions, setting.workers)
        played = await play_real(keys(setting.tasks, setting.seeds), cast, _tell)
    for failure in played.failures:
        click.echo(failure, err=True)
    found = MeasuredModel(
        setting,
        model=options["model"],
        judge=other or options["model"],
        figures=figures(played.records),
        errors=errors_of(played.records),
        reasons=Counter(record.reason for record in played.records),
        failures=played.failures,
        tokens=fmean(record.tokens for record in played.records),
        seconds=time.monotonic() - started,
    )
    return f"refinement-{_file_name(found)}", model_page(found), model_json(found)


def _file_name(found: MeasuredModel) -> str:
    names = [found.model] if found.judge == found.model else [found.model, found.judge]
    return "-judged-by-".join(re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model" for name in names)


def _setting(options: dict[str, Any]) -> Setting:
    judges, revisers = options["grid"]
    real = bool(options["model"])
    setting = Setting(
        command="",
        tasks=options["tasks"] or (_MODEL_TASKS if real else _DEFAULTS.tasks),
        seeds=options["seeds"] or ((0,) if real else _DEFAULTS.seeds),
        judges=judges,
        revisers=revisers,
        right=options["right"],
        noise=options["noise"],
        max_revisions=options["max_iterations"],
        workers=options["workers"],
    )
    return replace(setting, command=_command(setting, options))


def _command(setting: Setting, options: dict[str, Any]) -> str:
    """Write the command that makes this measurement again; an address is left out, it may hold a password."""
    words = ["jeeves-reflexion bench refinement", f"--tasks {setting.tasks}"]
    words.append(f"--seeds {_listed(setting.seeds)}")
    words.append(f"--max-iterations {setting.max_revisions}")
    if options["model"]:
        words.append(f"--model {options['model']}")
        if options["reflection_model"]:
            words.append(f"--reflection-model {options['reflection_model']}")
    else:
        axes = [_listed(setting.judges), _listed(setting.revisers)]
        words.append(f"--grid {'/'.join(dict.fromkeys(axes))}")
        words.append(f"--right {setting.right:g} --noise {setting.noise:g}")
    return " ".join(words)


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{one:g}" for one in numbers)


_tell = partial(tell_quarters, partial(click.echo, err=True))
