"""What the commands that look into a store have in common."""

from __future__ import annotations

from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON


class Desk:
    """Answers for one place and namespace, to a person or, ``as_json``, to a machine."""

    def __init__(self, place: str, namespace: str, *, as_json: bool) -> None:
        self._place = place
        self._namespace = namespace
        self._as_json = as_json
        self._screen = Screen(quiet=False)
        self._shown = redact(place)
        self._where = f"in {self._shown}, namespace {namespace!r}"

    def _document(self, answer: dict[str, JSON]) -> None:
        self._screen.document({"place": self._shown, "namespace": self._namespace, **answer})


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: "1 lesson", "2 lessons"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def with_values(details: dict[str, str]) -> dict[str, str]:
    """Return those details that there is something to say of."""
    return {name: value for name, value in details.items() if value}
