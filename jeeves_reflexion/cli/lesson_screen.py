"""Lessons on a terminal: what identifies one on the first line, its sentence below, and the rest under that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rich.table import Table
from rich.text import Text

from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.text import one_line, visible

_NAMED: Final = frozenset({"score", "similarity"})
_LABELLED: Final = frozenset({"task", "was"})
_UNKNOWN: Final = ("", "-")


class LessonScreen(Screen):
    """A screen whose items are wrapped beside their ids."""

    def entry(self, fields: Mapping[str, str], below: Collection[str] = ()) -> None:
        """Print one item of a list: its fields separated by tabs for a pipe, in lines for a person.

        The first field is the item's id, the last its text; those of ``below`` come under the text. A person is not
        shown what is not known.
        """
        if self._out.is_terminal:
            self._out.print(_grid(fields, below))
        else:
            super().entry(fields)

    def asked(self, fields: Mapping[str, str], below: Collection[str] = ()) -> None:
        """Show one item that a question is about."""
        if self._err.is_terminal:
            self._err.print(_grid(fields, below))
        else:
            self.note("  ".join(fields.values()))


def _grid(fields: Mapping[str, str], below: Collection[str]) -> Table:
    cells = {name: one_line(visible(value)) for name, value in fields.items()}
    (_, key), *about, (_, text) = cells.items()
    said = [(name, value) for name, value in about if value not in _UNKNOWN]
    head = "  ".join(_named(name, value) for name, value in said if name not in below)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(key, "yellow"), Text(head, "dim"))
    grid.add_row("", Text(text))
    for name, value in said:
        if name in below:
            grid.add_row("", Text(_named(name, value), "dim"))
    return grid


def _named(name: str, value: str) -> str:
    if name in _LABELLED:
        return f"{name}: {value}"
    return f"{name} {value}" if name in _NAMED else value
