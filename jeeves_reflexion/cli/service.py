"""What the services behind commands that look into a store have in common."""

from __future__ import annotations

from jeeves_reflexion.cli.options import Where
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON


class Service:
    """Answers for one place and namespace, to a person or, with ``as_json``, to a machine."""

    def __init__(self, where: Where, default_place: str) -> None:
        self._place = default_place if where.place is None else where.place
        self._namespace = where.namespace
        self._as_json = where.as_json
        self._screen = Screen(quiet=False)
        self._shown = redact(self._place)
        self._where = f"in {self._shown}, namespace {self._namespace!r}"

    def _document(self, answer: dict[str, JSON]) -> None:
        self._screen.document({"place": self._shown, "namespace": self._namespace, **answer})

    def _answer(self, answer: dict[str, JSON], said: str) -> None:
        """Print an answer as JSON, or what it comes to in words."""
        if self._as_json:
            self._document(answer)
        else:
            self._screen.result(said)


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: "1 lesson", "2 lessons"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def with_values(details: dict[str, str]) -> dict[str, str]:
    """Return those details that there is something to say of."""
    return {name: value for name, value in details.items() if value}
