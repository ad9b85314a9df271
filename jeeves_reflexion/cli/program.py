"""The outermost group of the command: its help, and how it reports errors."""

from __future__ import annotations

import importlib
from difflib import get_close_matches

import click

from jeeves_reflexion import __version__
from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.failures import CAUGHT, report
from jeeves_reflexion.errors import MissingDependencyError

EXIT_CODES = """\b
Exit codes:
  0    done; for run: an attempt passed
  1    run and workflow run: no success; others: you answered no, an import was refused as a whole, or a benchmark
       could not continue
  2    a mistake on the command line
  3    configuration: a key, an optional package, the address of the lessons, an unreachable file
  4    the model's endpoint
  5    the store of lessons or task notes
  130  interrupted
"""


_COMMANDS = {
    "init": "Write a small project that runs as it is.",
    "run": "Try a task, learn from each attempt, try again.",
    "learn": "Learn from attempts that were made elsewhere.",
    "lessons": "Look at, review, change and exchange lessons.",
    "ui": "Look at lessons and runs in a browser.",
    "notes": "See how tasks improved their instructions, and undo it.",
    "bench": "Run a benchmark and see the learning curve.",
    "workflow": "Run a workflow file, or check it.",
    "serve": "Share the lessons with MCP clients.",
    "tokens": "Manage who may use the lessons over HTTP.",
    "doctor": "Check what is installed and what can be reached.",
}


class Program(click.Group):
    """A group whose commands are modules, loaded on first use.

    Commands may raise the project's errors: each becomes one line and an exit code.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in _COMMANDS:
            return None
        try:
            module = importlib.import_module(f"jeeves_reflexion.cli.{cmd_name}")
        except MissingDependencyError:
            if not ctx.resilient_parsing:
                raise
            # During shell completion an error would garble the prompt, so complete the name alone.
            return click.Command(cmd_name, help=_COMMANDS[cmd_name])
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a similar command for an unknown name; click itself knows only the commands that are loaded."""
        name = args[0]
        near = [] if name in _COMMANDS or ctx.resilient_parsing else get_close_matches(name, _COMMANDS, 1)
        if near:
            ctx.fail(f"No such command {name!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse arguments that are not UTF-8: neither a store nor a model accepts them."""
        for argument in args:
            try:
                argument.encode()
            except UnicodeEncodeError as error:
                raise click.UsageError(f"the argument {argument!a:.80} is not UTF-8 text", ctx) from error
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, and report its error."""
        try:
            return super().invoke(ctx)
        except click.Abort as error:
            stopped = error.__context__
            if not isinstance(stopped, KeyboardInterrupt):  # a "no", or the end of the answers
                raise
            ctx.exit(report(stopped, ctx))
        except CAUGHT as error:
            if isinstance(error, BrokenPipeError):  # the reader is gone; click exits quietly
                raise
            ctx.exit(report(error, ctx))


@click.group(
    cls=Program,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="jeeves-reflexion")
@options.debug
def program() -> None:
    """Agents that learn from their own attempts.

    An agent tries a task, an evaluator scores the attempt, and a reflector writes a one-sentence lesson. Before the
    next attempt, in this run or a later one, the agent sees the lessons relevant to its task.
    """
