"""``jeeves-reflexion lessons reembed``."""

from __future__ import annotations

import anyio

from jeeves_reflexion.cli.options import NamedEmbedder
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.cli.stores import move_to
from jeeves_reflexion.places import default_place
from jeeves_reflexion.redaction import redact
from vectorstores import Reembedding


def reembed(place: str | None, embedder: NamedEmbedder, *, as_json: bool) -> None:
    """Give everything in a place, in all its namespaces, vectors by another embedder, and say how it goes."""
    place = default_place() if place is None else place
    screen = Screen(quiet=False)
    with screen.busy():
        done = anyio.run(move_to, place, embedder, _Progress(screen))
    shown = redact(place)
    if as_json:
        screen.document({"place": shown, "embedder": embedder, "embedded": done.total})
    else:
        screen.result(f"all {done.total} entries of {shown} are found by {embedder} now")


class _Progress:
    """A live line for a person; elsewhere a line for each tenth of the way."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._tenths = -1

    def __call__(self, step: Reembedding) -> None:
        text = f"embedded {step.done} of {step.total}"
        self._screen.waiting_for(text)
        tenths = 10 * step.done // max(step.total, 1)
        if self._screen.plain and tenths > self._tenths:
            self._tenths = tenths
            self._screen.note(text)
