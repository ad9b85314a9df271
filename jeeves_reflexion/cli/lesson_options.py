"""What the commands of ``jeeves-reflexion lessons`` have in common: options, and help in sections."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click

from jeeves_reflexion.cli.options import debug_option, json_option, namespace_option, renamed

F = TypeVar("F", bound=Callable[..., Any])

BY_DEFAULT = "the command line"


@dataclass(frozen=True, slots=True)
class Where:
    """Which lessons are meant, and how to answer."""

    place: str | None
    namespace: str
    as_json: bool


@dataclass(frozen=True, slots=True)
class Asking:
    """Whether a change is made without a question (``yes``), or only shown (``dry_run``)."""

    yes: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Why:
    """What goes into a lesson's history beside a change."""

    by: str = BY_DEFAULT
    reason: str = ""


def common(function: F) -> F:
    """Add the options that every command of the group has; they come as ``where``, a :class:`Where`."""
    function = bundled(function, "where", Where, ("place", "namespace", "as_json"))
    for option in (debug_option, json_option, namespace_option):
        function = option(function)
    return place_option(function)


def place_option(function: F) -> F:
    """Add ``--lessons``, the address, as the parameter ``place``."""
    return renamed(
        "--lessons",
        "--place",
        "place",
        metavar="ADDRESS",
        help="The folder of the lessons, or a postgresql:// address.  [default: JEEVES_LESSONS, else among your data]",
    )(function)


def asking_options(function: F) -> F:
    """Add ``--yes`` and ``--dry-run``; they come as ``asking``, an :class:`Asking`."""
    function = bundled(function, "asking", _asking, ("yes", "dry_run"))
    dry = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
    return click.option("--yes", "-y", is_flag=True, help="Don't ask.")(dry(function))


def why_options(function: F) -> F:
    """Add ``--reason`` and ``--by``; they come as ``why``, a :class:`Why`."""
    function = bundled(function, "why", Why, ("by", "reason"))
    reason = click.option(
        "--reason", metavar="TEXT", default="", callback=_clean, help="Why; kept in the history."
    )
    return by_option(reason(function))


def by_option(function: F) -> F:
    """Add ``--by``."""
    return click.option(
        "--by",
        metavar="NAME",
        default=BY_DEFAULT,
        callback=_clean,
        show_default=True,
        help="Who says so; kept in the history.",
    )(function)


def _clean(_: click.Context, __: click.Parameter, value: str) -> str:
    """Take secrets and what hides out of a text that goes into the history."""
    from jeeves_reflexion.redaction import redact  # noqa: PLC0415 - not for --help
    from jeeves_reflexion.text import one_line  # noqa: PLC0415

    return one_line(redact(value))


def _asking(*, yes: bool, dry_run: bool) -> Asking:
    if yes and dry_run:
        raise click.UsageError("--yes and --dry-run exclude each other")
    return Asking(yes, dry_run)


def bundled(function: F, name: str, make: Callable[..., object], options: Sequence[str]) -> F:
    """Have a command called with one value in the place of several options."""

    @functools.wraps(function)
    def call(**given: Any) -> Any:  # noqa: ANN401 - as click calls it
        value = make(**{option: given.pop(option) for option in options})
        return function(**given, **{name: value})

    return cast("F", call)


class Sections(click.Group):
    """A group that lists its commands under headings."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self.sections = sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, section by section."""
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])
