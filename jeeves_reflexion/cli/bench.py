"""``jeeves-reflexion bench``: run a file of tasks, or an installed benchmark."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from jeeves_reflexion.cli import options, task_run
from jeeves_reflexion.cli.bench_options import (
    executor_options,
    folder_options,
    holdout_option,
    plan_options,
    recall_options,
    spending_options,
    track_option,
)
from jeeves_reflexion.errors import ConfigurationError, ReflexionError

GROUP = "jeeves_reflexion.benchmarks"


@click.command("TASKS.jsonl", short_help="Your own tasks: JSON lines with a prompt each.")
@click.argument("tasks", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--agent",
    metavar="MODULE:NAME",
    help="Your agent: a function or an agent object.  [default: ReAct over --model]",
)
@click.option(
    "--evaluator",
    metavar="WHO",
    default="exact",
    help="exact: the output equals the reference (case and white space don't count). judge: --model judges without"
    " the reference. Or MODULE:NAME, a function of (task, attempt) or (output).",
)
@click.option(
    "--judged-by",
    type=click.Choice(["oracle", "self"]),
    help="Whether your own evaluator knows the gold answer.  [default: oracle; self for judge]",
)
@click.option(
    "--scorer",
    metavar="WHO",
    help="Scores every attempt for the results; the loop never sees this score. exact or MODULE:NAME, as for"
    " --evaluator.",
)
@click.option(
    "--reflector",
    metavar="MODULE:NAME",
    help="Writes the lessons: a function of (task, trials).  [default: --model]",
)
@click.option("--model", metavar="NAME", help="The model for each part that no other option names.")
@options.endpoint
@click.option(
    "--arms",
    metavar="A,B",
    default="retry,selective",
    help="The arms, separated by commas: react, retry, tabu-retry, last-attempt, reflexion (or own), monotonic,"
    " selective, others-only, irrelevant; with a k: selective@1.",
)
@plan_options("task", k=3, workers=4)
@executor_options
@holdout_option("task")
@folder_options
@track_option
@spending_options
@click.option("--dry-run", is_flag=True, help="Check the input, estimate the cost, and run nothing.")
@options.embedder
@recall_options
@options.json
@options.debug
@click.pass_context
def bench_tasks(ctx: click.Context, /, **given: object) -> None:
    """Run your own tasks in every arm, to see whether lessons help.

    TASKS is a file of JSON lines with a prompt, and optionally id, kind, tools, reference, expected_output and
    metadata. Only evaluators see the reference. The run's folder records everything; --resume continues a run that was
    stopped.
    """
    ctx.exit(task_run.run(task_run.order_of(given), as_json=bool(given["as_json"])))


class Benchmarks(click.Group):
    """A group whose commands are the entry points of :data:`GROUP`, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the benchmarks."""
        return sorted(entry.name for entry in entry_points(group=GROUP))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a benchmark, with ``--debug``, and with errors as JSON if it has ``--json``; None if there is none."""
        entry = next((each for each in entry_points(group=GROUP) if each.name == cmd_name), None)
        if entry is None:
            return None
        try:
            command: Any = entry.load()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"the benchmark {entry.name!r} ({entry.value}) can't be loaded: {error}"
            ) from error
        if not isinstance(command, click.Command):
            raise ConfigurationError(f"the benchmark {entry.name!r} ({entry.value}) is not a click command")
        known = {name: parameter for parameter in command.params for name in parameter.opts}
        if "--json" in known:
            known["--json"].callback = known["--json"].callback or options.remember_json
        return command if "--debug" in known else options.debug(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command: a benchmark, or a file of tasks. For any other name, raise an error that lists them."""
        name, known = args[0], self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        if name.endswith(".jsonl") or Path(name).is_file():  # the command reports a missing file
            return bench_tasks.name, bench_tasks, args
        raise click.UsageError(
            f"there is no benchmark {name!r}; installed: {', '.join(known) or 'none'}. Or name a file of tasks, such as"
            " my_tasks.jsonl",
            ctx,
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the benchmarks; for one that can't be loaded, show the reason."""
        rows = []
        for name in self.list_commands(ctx):
            try:
                command = self.get_command(ctx, name)
                rows.append((name, command.get_short_help_str(limit=100) if command else ""))
            except ReflexionError as error:
                rows.append((name, str(error)))
        with formatter.section("Benchmarks"):
            formatter.write_dl(rows or [("none", "no package with a benchmark is installed")])
        with formatter.section("Your own tasks"):
            formatter.write_dl([("TASKS.jsonl", bench_tasks.get_short_help_str(limit=100))])


@click.group(cls=Benchmarks)
def bench() -> None:
    """Run a benchmark: the same tasks several times, with and without lessons.

    "bench my_tasks.jsonl --agent module:agent" runs your own tasks; see "bench my_tasks.jsonl --help".

    Packages add benchmarks through the entry point group jeeves_reflexion.benchmarks.
    """
