"""``jeeves-reflexion bench my_tasks.jsonl``: its options."""

from __future__ import annotations

from pathlib import Path

import click

from jeeves_reflexion.cli.options import check_finite, debug_option, endpoint_options, json_option

ARMS_HELP = (
    "react, retry, last-attempt, reflexion (or own), monotonic, selective, irrelevant; with a k: selective@1"
)


def _numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of whole numbers such as 0,1,2") from None


def _tokens(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    try:
        first, second = (int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not two whole numbers such as 2000,300") from None
    return first, second


@click.command("TASKS.jsonl", short_help="Your own tasks: JSON lines with a prompt each.")
@click.argument("tasks", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--agent",
    metavar="MODULE:NAME",
    help="Your agent: a callable, any agent, or a function of (seed) that makes one.  [default: ReAct over --model]",
)
@click.option(
    "--evaluator",
    metavar="WHO",
    default="exact",
    show_default=True,
    help="exact: the output is the reference (case and white space aside). judge: --model judges, without the "
    "reference. Or MODULE:NAME, a callable of (task, attempt) or (output).",
)
@click.option(
    "--judged-by",
    type=click.Choice(["oracle", "self"]),
    help="Whether your own evaluator knows the gold answer.  [default: oracle; self for judge]",
)
@click.option(
    "--scorer",
    metavar="WHO",
    help="Judges every try for the results alone, unheard by the loop: exact or MODULE:NAME, as for --evaluator.",
)
@click.option(
    "--reflector",
    metavar="MODULE:NAME",
    help="Writes the lessons: a callable of (task, trials).  [default: --model]",
)
@click.option(
    "--model", metavar="NAME", help="The model that answers, judges and reflects where nothing else does."
)
@endpoint_options
@click.option(
    "--arms", metavar="A,B", default="retry,selective", show_default=True, help=f"By commas: {ARMS_HELP}."
)
@click.option(
    "--trials", metavar="N", type=click.IntRange(min=1), default=4, show_default=True, help="Tries per task."
)
@click.option(
    "--seeds",
    metavar="A,B",
    callback=_numbers,
    default="0",
    show_default=True,
    help="By commas; each repeats it all.",
)
@click.option(
    "-k", "k", type=click.IntRange(min=1), default=3, show_default=True, help="Lessons recalled per try."
)
@click.option(
    "--holdout",
    metavar="SHARE",
    type=click.FloatRange(0, 1, max_open=True),
    callback=check_finite,
    default=0.0,
    show_default=True,
    help="Tasks to hold out: no lesson is learned from them, and each is tried once with what was learned.",
)
@click.option(
    "--split-seed", type=int, default=0, show_default=True, help="Draws the tasks that are held out."
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Tasks at a time.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The run's folder.  [default: a new one below runs/]",
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out where it was stopped.")
@click.option(
    "--max-cost",
    metavar="USD",
    type=click.FloatRange(min=0, min_open=True),
    callback=check_finite,
    help="Stop the whole run when so much is spent; it can be resumed.",
)
@click.option(
    "--price-in",
    metavar="USD",
    type=click.FloatRange(min=0),
    callback=check_finite,
    help="Per million input tokens.",
)
@click.option(
    "--price-out",
    metavar="USD",
    type=click.FloatRange(min=0),
    callback=check_finite,
    help="Per million output tokens.",
)
@click.option(
    "--expected-tokens",
    metavar="IN,OUT",
    callback=_tokens,
    help="What one try takes, for the estimate before the run.",
)
@click.option("--dry-run", is_flag=True, help="Read everything, say what it would cost, and try nothing.")
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@click.option(
    "--min-similarity", type=click.FloatRange(-1, 1), default=0.3, show_default=True, help="Floor of recall."
)
@json_option
@debug_option
@click.pass_context
def bench_tasks(ctx: click.Context, /, **options: object) -> None:
    """Try your own tasks in every arm and see whether lessons help.

    TASKS is a file of JSON lines: prompt, and where wanted id, kind, tools, reference, expected_output, metadata. The
    reference reaches evaluators alone. The run's folder holds everything that happened, and a run that was stopped
    goes on with --resume.
    """
    # Not before the command line has been read: --help and a typing error need none of it.
    from jeeves_reflexion.cli import bench_running  # noqa: PLC0415

    ctx.exit(bench_running.run(bench_running.order_of(options), as_json=bool(options["as_json"])))
