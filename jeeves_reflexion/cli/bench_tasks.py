"""``jeeves-reflexion bench my_tasks.jsonl``: its options."""

from __future__ import annotations

from pathlib import Path

import click

from jeeves_reflexion.cli.bench_options import (
    embedder_option,
    executor_options,
    folder_options,
    holdout_option,
    plan_options,
    recall_options,
    spending_options,
)
from jeeves_reflexion.cli.options import debug_option, endpoint_options, json_option

ARMS_HELP = (
    "react, retry, last-attempt, reflexion (or own), monotonic, selective, irrelevant; with a k: selective@1"
)


class _OfAFile(click.Command):
    """The command of a file of tasks: what stands for its name is the file's own."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage with the file once."""
        group = ctx.parent.command_path if ctx.parent else ctx.command_path
        formatter.write_usage(group, "TASKS.jsonl [OPTIONS]")


@click.command("TASKS.jsonl", cls=_OfAFile, short_help="Your own tasks: JSON lines with a prompt each.")
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
@plan_options("task", k=3, workers=4)
@executor_options
@holdout_option("task")
@click.option(
    "--split-seed", type=int, default=0, show_default=True, help="Draws the tasks that are held out."
)
@folder_options
@spending_options
@click.option("--dry-run", is_flag=True, help="Read everything, say what it would cost, and try nothing.")
@embedder_option
@recall_options
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
    from jeeves_reflexion.cli import bench_service  # noqa: PLC0415

    ctx.exit(bench_service.run(bench_service.order_of(options), as_json=bool(options["as_json"])))
