"""The options that the benchmarks with a model share, and the objects they describe.

Options that ``bench my_tasks.jsonl`` has too are declared in :mod:`jeeves_reflexion.cli.bench_options`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import click

from jeeves_reflexion import ConfigurationError, LessonSettings, OpenAIModel, ReflexionError
from jeeves_reflexion.cli.bench_options import check_executor, check_folder, check_prices, tracked
from jeeves_reflexion.cli.stores import embedder_for
from jeeves_reflexion.experiments import (
    ARMS,
    ArmName,
    Expected,
    JudgedBy,
    Plan,
    Results,
    arm_names,
    figures,
    recall_settings,
)
from jeeves_reflexion.experiments.location import run_location
from jeeves_reflexion.models.prices import Prices
from jeeves_reflexion.types import JSON
from vectorstores import Embedder

from .runs import RunSetting

F = TypeVar("F", bound=Callable[..., Any] | click.Command)
T = TypeVar("T")

ARMS_HELP: Final = f"Arms: {'; '.join(f'{name}: {what}' for name, what in ARMS.items())}."


class MessageGroup(click.Group):
    """A group of commands that shows this package's errors as messages."""

    def invoke(self, ctx: click.Context) -> object:
        """Invoke the named command."""
        try:
            return super().invoke(ctx)
        except ReflexionError as error:
            raise click.ClickException(str(error)) from error


def _arms(_: click.Context, __: click.Parameter, value: str) -> tuple[ArmName, ...]:
    try:
        return arm_names(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def arms_option(default: str) -> Callable[[F], F]:
    """Return the decorator for ``--arms``, which gives a tuple of names."""
    return click.option(
        "--arms",
        metavar="A,B",
        callback=_arms,
        default=default,
        show_default=True,
        help="Names, separated by commas.",
    )


def endpoint_options(function: F) -> F:
    """Add ``--model`` and ``--base-url``; :func:`named_model` reads them."""
    add_url = click.option("--base-url", metavar="URL", help="That endpoint.  [default: OPENAI_BASE_URL]")
    add_model = click.option(
        "--model", metavar="NAME", help="The name of a language model at an OpenAI-compatible endpoint."
    )
    return add_model(add_url(function))


def key_option(function: F) -> F:
    """Add ``--key``."""
    return click.option(
        "--key",
        type=click.Choice(["task", "lesson", "both"]),
        default="task",
        show_default=True,
        help="The text by which a lesson is found.",
    )(function)


def named_model(options: Mapping[str, Any]) -> OpenAIModel | None:
    """Return the model that the options name, with its prices if they are given; None if no model is named.

    Raises ``click.UsageError`` for options that don't go together.
    """
    prices = prices_of(options)
    if options["model"]:
        return OpenAIModel(options["model"], base_url=options["base_url"], prices=prices)
    if options["base_url"]:
        raise click.UsageError("--base-url goes with --model")
    if prices is not None:
        raise click.UsageError("--price-in and --price-out go with --model")
    return None


def required_model(options: Mapping[str, Any], missing: str) -> OpenAIModel:
    """Return the model that the options name. Without one, raises ``ConfigurationError``: ``missing`` says why."""
    model = named_model(options)
    if model is None:
        raise ConfigurationError(f"{missing}: name a --model")
    return model


def prices_of(options: Mapping[str, Any]) -> Prices | None:
    """Return the prices that the options give, or None."""
    found = check_prices(options)
    return None if found is None else Prices(*found)


def setting_of(options: Mapping[str, Any], name: str, *, judged_by: JudgedBy = "oracle") -> dict[str, Any]:
    """Return the arguments of :class:`~benchmarks.runs.RunSetting` that the options give, all but the model."""
    check_executor(options)
    tokens, lessons = options["expected_tokens"], LessonSettings()
    if "order" in options:
        lessons = recall_settings(
            options["min_similarity"],
            withhold=options["withhold"],
            key=options["key"],
            order=options["order"],
        )
    plan = Plan(
        options["arms"],
        options["trials"],
        options["seeds"],
        options["workers"],
        options["k"],
        holdout=options.get("holdout", 0.0),
        judged_by=judged_by,
        max_cost_usd=options["max_cost"],
    )
    return {
        "plan": plan,
        "out": run_folder(options, name),
        "embedder": embedder_called(options["embedder"]),
        "resume": options["resume"],
        "settings": lessons,
        "prices": prices_of(options),
        "expected": None if tokens is None else Expected(*tokens),
        "runs_on": run_location(options),
    }


def run_folder(options: Mapping[str, Any], name: str) -> Path:
    """Return the folder of the run: ``--out``, or a new one below ``runs/`` with the time in its name."""
    check_folder(options)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    out: Path | None = options["out"]
    return out or Path("runs") / f"{name}-{stamp}"


def embedder_called(name: str) -> Embedder:
    """Return the embedder with that name or address; ``auto`` is the best one installed."""
    return embedder_for(name, None, "")


def run_command(
    options: Mapping[str, Any],
    name: str,
    setting: RunSetting,
    run: Callable[[], Awaitable[Results]],
    shown: tuple[Callable[[Results], str], Callable[[Results], dict[str, JSON]]],
) -> None:
    """Run, track, and print the results: the text of the first function of ``shown``, or JSON with the second's."""
    track = tracked(options["track"], name)
    results = anyio.run(closing, setting.model, run)
    track(results, setting.out)
    summary, more = shown
    report = str(setting.out / "report" / "report.html")
    if options["as_json"]:
        found = {"run": str(setting.out), "report": report, **figures(results), **more(results)}
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(f"\n{summary(results)}\n\nRun: {setting.out}\nReport: {report}")
    if results.interrupted:
        click.get_current_context().exit(1)


async def closing(model: object, run: Callable[[], Awaitable[T]]) -> T:
    """Run, and close the model at the end if it has a connection."""
    try:
        return await run()
    finally:
        if isinstance(model, OpenAIModel):
            await model.aclose()
