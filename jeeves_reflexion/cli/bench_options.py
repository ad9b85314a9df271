"""Options that benchmark commands share: ``bench my_tasks.jsonl`` and those of other packages.

Only click is imported, so that ``--help`` and a usage error are quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jeeves_reflexion.cli import options

if TYPE_CHECKING:
    from jeeves_reflexion.experiments import Results


def numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    """Read whole numbers separated by commas; a click callback."""
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of whole numbers such as 0,1,2") from None


def _tokens(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    found = None if value is None else numbers(ctx, option, value)
    if found is not None and (len(found) != 2 or min(found) < 0):
        raise click.BadParameter(f"{value!r} is not two whole numbers such as 2000,300")
    return found


def cores() -> int:
    """Return the number of cores; the default of ``--workers`` for benchmarks that are bound by the processor."""
    return os.cpu_count() or 1


def plan_options(unit: str, *, k: int, workers: int | Callable[[], int]) -> Callable[[options.F], options.F]:
    """Return a decorator that adds ``--trials``, ``--seeds``, ``--top-k`` and ``--workers``; tasks are ``unit``."""
    return options.options_of(
        click.option("--trials", metavar="N", type=options.COUNT, default=4, help=f"Attempts per {unit}."),
        click.option(
            "--seeds",
            metavar="A,B",
            callback=numbers,
            default="0",
            help="Random seeds, separated by commas; each repeats the whole run.",
        ),
        options.top_k(default=k, help="The most lessons that an attempt recalls."),
        click.option(
            "--workers",
            metavar="N",
            type=options.COUNT,
            default=workers,
            show_default="one a core" if callable(workers) else None,
            help=f"{unit.capitalize()}s that run at the same time.",
        ),
    )


def holdout_option(unit: str) -> Callable[[options.F], options.F]:
    """Return a decorator that adds ``--holdout``."""
    return click.option(
        "--holdout",
        metavar="SHARE",
        type=options.Number(0, 1, max_open=True),
        default=0.0,
        help=f"The share of {unit}s to hold out: they teach nothing, and each is tried once at the end.",
    )


folder_options = options.options_of(
    click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        help="The run's folder.  [default: a new one below runs/]",
    ),
    click.option("--resume", is_flag=True, help="Continue the run in --out."),
)
track_option = click.option(
    "--track",
    type=click.Choice(["mlflow"]),
    help="Also send arms, trials and the report to the tracker at MLFLOW_TRACKING_URI.",
)
spending_options = options.options_of(
    click.option(
        "--max-cost",
        metavar="USD",
        type=options.Number(min=0, min_open=True),
        help="Stop the whole run at this cost; it can be resumed.",
    ),
    click.option(
        "--price-in", metavar="USD", type=options.Number(min=0), help="Price per million input tokens."
    ),
    click.option(
        "--price-out", metavar="USD", type=options.Number(min=0), help="Price per million output tokens."
    ),
    click.option(
        "--expected-tokens",
        metavar="IN,OUT",
        callback=_tokens,
        help="The tokens of one attempt, for the estimate before the run.",
    ),
)
recall_options = options.options_of(
    click.option(
        "--min-similarity",
        metavar="X",
        type=options.Number(-1, 1),
        default=0.3,
        help="The lowest cosine similarity of a recalled lesson.",
    ),
    click.option(
        "--order",
        type=click.Choice(["similarity", "own_first", "failures_first", "recency"]),
        default="similarity",
        help="Which lessons come first: the most similar, the task's own, those of failed attempts, or the newest.",
    ),
    options.withhold,
)
cluster_options = options.options_of(
    click.option(
        "--executor",
        type=click.Choice(["local", "ray"]),
        default="local",
        help="Where attempts run: in this process, or in worker processes of a Ray cluster.",
    ),
    click.option(
        "--ray-address",
        metavar="HOST:PORT",
        help="The head node of a cluster to which this machine belongs.  [default: a local node for this run]",
    ),
    click.option(
        "--ray-working-dir",
        metavar="DIR",
        type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
        help="A folder with your modules, which is copied to every worker.",
    ),
)
executor_options = options.options_of(
    cluster_options,
    click.option(
        "--lessons",
        metavar="ADDRESS",
        envvar="JEEVES_BENCH_LESSONS",
        show_envvar=True,
        help="A postgresql:// address for the lessons of the run.  [default: the run's folder]",
    ),
)


def check_executor(given: Mapping[str, Any]) -> None:
    """Raise ``click.UsageError`` for options of a cluster without ``--executor ray``."""
    if given["executor"] != "ray" and (given["ray_address"] or given["ray_working_dir"]):
        raise click.UsageError("--ray-address and --ray-working-dir go with --executor ray")


def check_folder(given: Mapping[str, Any]) -> None:
    """Raise ``click.UsageError`` for ``--resume`` without the folder of a run."""
    if given["resume"] and given["out"] is None:
        raise click.UsageError("--resume goes with --out, the folder of the run")


def check_prices(given: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the prices of input and output in US dollars per million tokens, or None if not given.

    Raises ``click.UsageError`` for one without the other.
    """
    first, second = given["price_in"], given["price_out"]
    if (first is None) != (second is None):
        raise click.UsageError("--price-in and --price-out go together")
    return None if first is None else (first, second)


def tracked(wanted: str | None, experiment: str) -> Callable[[Results, Path], None]:
    """Return a function that sends a run and its folder to the tracker ``wanted``; with None, one that does nothing.

    Call it before the run: it raises at once if the tracker can't be used.
    """
    if wanted is None:
        return lambda results, folder: None
    from jeeves_reflexion.experiments import MLflowTracker  # noqa: PLC0415 - not for --help

    tracker = MLflowTracker(experiment)
    return lambda results, folder: click.echo(
        f"tracked as run {tracker.write(results, folder)} of MLflow", err=True
    )
