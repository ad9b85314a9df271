"""Where a command writes: results to stdout, what happens meanwhile to stderr.

Text of models and lessons is data: nothing in it may move the cursor, set a title or pass for rich markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text

from jeeves_reflexion.text import one_line, visible
from jeeves_reflexion.types import JSON

_FORMULA: Final = re.compile(r"[=@\uff1d\uff20\uff0b\uff0d]|[+-](?![\d.]*(?: points \([-+\d.;, a-z]*\))?$)")


def cell(value: str) -> str:
    """Return a field of a list for a pipe: one line, and nothing that a spreadsheet would run as a formula.

    Such a field gets a "'" before it, which spreadsheets take for "this is text"; a number, a lift and a "-" stay.
    """
    text = one_line(visible(value))
    return f"'{text}" if _FORMULA.match(text) else text


_NAMED: Final = frozenset({"score", "similarity"})
_LABELLED: Final = frozenset({"task", "was"})
_UNKNOWN: Final = ("", "-")
_BELOW: Final = frozenset({"was", "change", "reason", "why", "task"})
"""The fields that a person reads under an item's text."""


class Screen:
    """The two streams of a command. ``quiet`` keeps notes back, errors never."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._err = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._out = Console(markup=False, emoji=False, highlight=False)
        self._status: Status | None = None

    @property
    def plain(self) -> bool:
        """Whether notes go to a file or a pipe, where nothing can be drawn over."""
        return not self._err.is_terminal

    # -- stdout

    def result(self, text: str) -> None:
        """Print a result."""
        click.echo(visible(text))

    def document(self, value: JSON) -> None:
        """Print a JSON value; characters beyond ASCII are escaped, so that it is safe wherever it goes."""
        click.echo(json.dumps(value, indent=2 if self._out.is_terminal else None))

    def entry(self, fields: Mapping[str, str]) -> None:
        """Print one item of a list: its fields separated by tabs for a pipe, in lines for a person.

        The first field is the item's id, the last its text; reasons, tasks and changes come under the text. A person is
        not shown what is not known.
        """
        if self._out.is_terminal:
            self._out.print(_item(fields))
        else:
            click.echo("\t".join(map(cell, fields.values())))

    def details(self, fields: Mapping[str, str]) -> None:
        """Print one item whole, a line for each field; for a person, wrapped beside their names."""
        width = max(map(len, fields)) + 2
        if not self._out.is_terminal:
            for name, value in fields.items():
                click.echo(f"{name:<{width}}{one_line(visible(value))}")
            return
        grid = Table.grid(padding=(0, 2, 0, 0))
        for name, value in fields.items():
            grid.add_row(Text(name, "dim"), Text(one_line(visible(value)), overflow="fold"))
        self._out.print(grid)

    # -- stderr

    def asked(self, fields: Mapping[str, str]) -> None:
        """Show one item that a question is about."""
        if self._err.is_terminal:
            self._err.print(_item(fields))
        else:
            self.note("  ".join(fields.values()))

    def note(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Say what is going on."""
        if not self.quiet:
            self._say(Text(one_line(visible(text)), style), indent)

    def raw_note(self, text: str) -> None:
        """Print lines as they are, but for control characters."""
        self._err.print(Text(visible(text)), soft_wrap=True)

    def error(self, text: str, *, label: str = "error") -> None:
        """Say what went wrong, on one line."""
        self._say(Text.assemble((f"{label}: ", "bold red"), one_line(visible(text))), 0)

    def gap(self) -> None:
        """Set a result apart from what a person saw before it."""
        if self._err.is_terminal and not self.quiet:
            self._err.print()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Show a person what is being waited for, as :meth:`waiting_for` says it."""
        if self.quiet or not self._err.is_terminal:
            yield
            return
        self._status = self._err.status(Text("starting"), spinner="line")
        try:
            with self._status:
                yield
        finally:
            self._status = None

    def waiting_for(self, what: str) -> None:
        """Name what is being waited for."""
        if self._status is not None:
            self._status.update(Text(one_line(visible(what))))

    def _say(self, text: Text, indent: int) -> None:
        if self._err.is_terminal:
            self._err.print(Padding(text, (0, 0, 0, indent)))
        else:
            # Not through rich, which would break the line at a width that a file doesn't have.
            click.echo(" " * indent + text.plain, err=True)


def _item(fields: Mapping[str, str]) -> Table:
    """What identifies an item on the first line, its text below, and the rest under that, beside its id."""
    cells = {name: one_line(visible(value)) for name, value in fields.items()}
    (_, key), *about, (_, text) = cells.items()
    said = [(name, value) for name, value in about if value not in _UNKNOWN]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    head = "  ".join(_named(name, value) for name, value in said if name not in _BELOW)
    grid.add_row(Text(key, "yellow"), Text(head, "dim"))
    grid.add_row("", Text(text))
    for name, value in said:
        if name in _BELOW:
            grid.add_row("", Text(_named(name, value), "dim"))
    return grid


def _named(name: str, value: str) -> str:
    if name in _LABELLED:
        return f"{name}: {value}"
    return f"{name} {value}" if name in _NAMED else value
