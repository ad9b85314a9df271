"""The output of a command: results on stdout, progress on stderr.

Text of models and lessons is data: it can't move the cursor, set a title or be read as rich markup.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jeeves_reflexion.redaction import redact
from jeeves_reflexion.summary import lift_words, when
from jeeves_reflexion.text import one_line, visible
from jeeves_reflexion.types import Lift

_BELOW: Final = {"was": "was: ", "change": "", "reason": "", "why": "", "task": "task: "}
"""The fields that are shown below an item's text, with their prefixes."""
_NAMED: Final = frozenset({"score", "similarity"})


def plain(value: object) -> Any:  # noqa: ANN401 - a mapping or a list
    """Convert a dataclass, mapping or set to plain JSON; for ``json.dumps(default=...)``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(str, value))
    raise TypeError(f"{type(value).__name__} can't be written as JSON")


def in_words(value: object, name: str = "") -> str:
    """Describe a value on one line; empty for None and False. A number whose name ends in ``_at`` is a time."""
    if isinstance(value, bool) or value is None:
        return "yes" if value else ""
    if isinstance(value, str | int):
        return one_line(visible(str(value)))
    if isinstance(value, float):
        return when(value, "%Y-%m-%d %H:%M:%S %z") if name.endswith("_at") else f"{value:.4g}"
    if isinstance(value, Lift):
        return lift_words(value)
    if isinstance(value, list | tuple | AbstractSet):
        return "; ".join(filter(None, map(in_words, value)))
    parts = ((key, in_words(part, key)) for key, part in plain(value).items())
    return ", ".join(f"{key.replace('_', ' ') or 'none'}: {text}" for key, text in parts if text)


class Screen:
    """The two output streams of a command. ``quiet`` suppresses notes, never errors."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._err = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._out = Console(markup=False, emoji=False, highlight=False)

    # -- stdout

    def result(self, text: str) -> None:
        """Print a result."""
        click.echo(visible(text))

    def document(self, value: object) -> None:
        """Print a value as JSON. Non-ASCII characters are escaped, so any terminal or file can take it."""
        click.echo(json.dumps(value, default=plain, indent=2 if self._out.is_terminal else None))

    def entry(self, fields: Mapping[str, str]) -> None:
        """Print one item of a list: tab-separated fields for a pipe, several lines for a terminal.

        The first field is the item's id, the last its text. A terminal shows reasons, tasks and changes below the
        text, and omits unknown values.
        """
        cells = {name: one_line(visible(value)) for name, value in fields.items()}
        if not self._out.is_terminal:
            click.echo("\t".join(cells.values()))
            return
        (_, key), *about, (_, text) = cells.items()
        said = [(name, value) for name, value in about if value not in ("", "-")]
        head = [f"{name} {value}" if name in _NAMED else value for name, value in said if name not in _BELOW]
        below = [Text(f"{_BELOW[name]}{value}", "dim") for name, value in said if name in _BELOW]
        first = (Text(key, "yellow"), Text("  ".join(head), "dim"))
        self._out.print(_grid([first, *((Text(""), each) for each in (Text(text), *below))]))

    def details(self, *parts: object) -> None:
        """Print one item, a line for each field that is not empty; a terminal wraps long lines."""
        fields = {name: value for part in parts for name, value in plain(part).items()}
        told = {name.replace("_", " "): in_words(value, name) for name, value in fields.items()}
        told = {name: text for name, text in told.items() if text}
        if self._out.is_terminal:
            self._out.print(_grid((Text(name, "dim"), Text(text)) for name, text in told.items()))
            return
        width = max(map(len, told), default=0) + 2
        for name, text in told.items():
            click.echo(f"{name:<{width}}{text}")

    # -- stderr

    def note(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Report progress."""
        if not self.quiet:
            self._say(Text(one_line(visible(text)), style), indent)

    def error(self, text: str, *, label: str = "error") -> None:
        """Report an error on one line."""
        self._say(Text.assemble((f"{label}: ", "bold red"), one_line(visible(text))), 0)

    def _say(self, text: Text, indent: int) -> None:
        if indent and self._err.is_terminal:  # wrapped lines keep the indent
            self._err.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:
            self._err.print(Text(" " * indent) + text, soft_wrap=True)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """End the block at Ctrl-C. An event loop would only cancel its task, which is noticed at the next ``await``."""
    handler = signal.getsignal(signal.SIGINT)
    # Only the main thread may set it, and a signal that is ignored stays so.
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@dataclasses.dataclass
class Answers:
    """The output of a command over one address and namespace, for a person or, with ``as_json``, for a program.

    ``yes`` makes a change without asking, ``dry_run`` only shows it; ``by`` and ``reason`` go into the history.
    """

    default_address: ClassVar[Callable[[], str]]
    """Returns the address to use if none is given."""

    address: str | None
    namespace: str = ""
    as_json: bool = False
    yes: bool = False
    dry_run: bool = False
    by: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.yes and self.dry_run:
            raise click.UsageError("--yes and --dry-run exclude each other")
        self.store_address = type(self).default_address() if self.address is None else self.address
        self.screen = Screen(quiet=self.as_json)
        self.shown = redact(self.store_address)
        self.where = f"in {self.shown}, namespace {self.namespace!r}"

    def give(
        self,
        answer: Mapping[str, object],
        said: str = "",
        *,
        details: Sequence[object] = (),
        rows: Iterable[Mapping[str, str]] = (),
        note: str = "",
    ) -> None:
        """Print ``answer`` as JSON, or else the details, rows, result and note for a person."""
        if self.as_json:
            namespace = {"namespace": self.namespace} if self.namespace else {}
            self.screen.document({"address": self.shown, **namespace, **answer})
            return
        if details:
            self.screen.details(*details)
        with interruptible():
            for row in rows:
                self.screen.entry(row)
        if said:
            self.screen.result(said)
        if note:
            self.screen.note(note, "dim")

    def agreed(
        self,
        question: str,
        answer: Mapping[str, object],
        rows: Iterable[Mapping[str, str]] = (),
        *,
        sure: bool = False,
    ) -> bool:
        """Whether to make a change: show ``rows`` and ask, unless ``sure``. A dry run prints them and returns False."""
        if self.dry_run:
            self.give({"dry_run": True, **answer}, rows=rows, note="nothing was changed: a dry run")
        elif not (self.yes or sure):
            if self.as_json:
                raise click.UsageError("--json can't ask: add --yes")
            for row in rows:  # part of the question, so on stderr
                self.screen.note("  ".join(row.values()))
            with interruptible():
                click.confirm(question, abort=True, err=True)
        return not self.dry_run


def _grid(rows: Iterable[tuple[Text, Text]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid
