"""``jeeves-reflexion bench``: runs the benchmarks that are installed, whoever wrote them."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import click

from jeeves_reflexion.cli.bench_tasks import bench_tasks
from jeeves_reflexion.cli.options import debug_option, remember_json
from jeeves_reflexion.errors import ConfigurationError, ReflexionError

GROUP = "jeeves_reflexion.benchmarks"


class Benchmarks(click.Group):
    """A group whose commands are the entry points of :data:`GROUP`; each is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the benchmarks."""
        return sorted({*super().list_commands(ctx), *_found()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a benchmark's command, or None where there is no such benchmark."""
        entry = _found().get(cmd_name)
        return super().get_command(ctx, cmd_name) if entry is None else _load(entry)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with: a benchmark, or a file of tasks.

        An unknown one is an error that lists the known.
        """
        if args and args[0] not in self.list_commands(ctx) and _is_file(args[0]):
            return bench_tasks.name, bench_tasks, args
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            known = ", ".join(self.list_commands(ctx)) or "none is installed"
            raise click.UsageError(
                f"there is no benchmark {args[0]!r}; there are: {known};"
                " or name a file of tasks, such as my_tasks.jsonl",
                ctx,
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the benchmarks; one that can't be loaded is listed with the reason."""
        rows = [(name, self._summary(ctx, name)) for name in self.list_commands(ctx)]
        own = bench_tasks.get_short_help_str(limit=100)
        with formatter.section("Benchmarks"):
            formatter.write_dl(rows or [("none", "no package with a benchmark is installed")])
        with formatter.section("Your own tasks"):
            formatter.write_dl([("TASKS.jsonl", own)])

    def _summary(self, ctx: click.Context, name: str) -> str:
        try:
            command = self.get_command(ctx, name)
        except ReflexionError as error:
            return str(error)
        return command.get_short_help_str(limit=100) if command else ""


def _is_file(name: str) -> bool:
    """Whether a first argument is a file of tasks; one that is not there is for its own command to report."""
    return not name.startswith("-") and (name.endswith(".jsonl") or Path(name).is_file())


def _found() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> click.Command:
    try:
        command: Any = entry.load()
    except ReflexionError:
        raise
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"the benchmark {entry.name!r} ({entry.value}) can't be loaded: {error}"
        ) from error
    if not isinstance(command, click.Command):
        raise ConfigurationError(f"the benchmark {entry.name!r} ({entry.value}) is no click command")
    return _adopt(command)


def _adopt(command: click.Command) -> click.Command:
    """Have a benchmark's errors shown as all others: as JSON where it has ``--json``, at length with ``--debug``."""
    options = {name: parameter for parameter in command.params for name in parameter.opts}
    if "--json" in options:
        options["--json"].callback = options["--json"].callback or remember_json
    return command if "--debug" in options else debug_option(command)


@click.group(cls=Benchmarks, short_help="Run a benchmark and see the learning curve.")
def bench() -> None:
    """Run a benchmark: tasks, tried again and again, with and without lessons.

    "bench my_tasks.jsonl --agent module:agent" runs your own tasks; "bench my_tasks.jsonl --help" says how.

    Packages add benchmarks through the entry point group jeeves_reflexion.benchmarks.
    """
