"""``jeeves-reflexion lessons reembed``."""

from __future__ import annotations

import anyio

from jeeves_reflexion.cli.options import NamedEmbedder, Where
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.cli.service import Service
from jeeves_reflexion.cli.stores import estimate_move, move_to
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.types import JSON
from vectorstores import Reembedding, ReembeddingEstimate


class ReembeddingService(Service):
    """Has everything in a place, in all its namespaces, found by another embedder."""

    def __init__(self, where: Where) -> None:
        super().__init__(where, default_place())

    def reembed(self, embedder: NamedEmbedder, *, dry_run: bool) -> None:
        """Embed everything anew, and say how it goes; with ``dry_run`` say what it would take, and change nothing."""
        if dry_run:
            found = anyio.run(estimate_move, self._place, embedder)
            if self._as_json:
                self._screen.document(_as_json(self._shown, embedder, found))
            else:
                self._screen.result(_in_words(self._shown, found))
            return
        with self._screen.busy():
            done = anyio.run(move_to, self._place, embedder, _Progress(self._screen))
        if self._as_json:
            self._screen.document({"place": self._shown, "embedder": embedder, "embedded": done.total})
        else:
            self._screen.result(f"all {done.total} entries of {self._shown} are found by {embedder} now")


def _in_words(place: str, found: ReembeddingEstimate) -> str:
    before, after = found.before, found.after
    if not found.texts and not found.begun:
        return (
            f"nothing to do: all {found.total} entries of {place} are found by {after.embedder_name} already"
        )
    free = (
        f"{_size(found.bytes_free)} are free"
        if found.bytes_free is not None
        else "what is free there only the server knows"
    )
    goes_on = (
        f", {found.total - found.texts} of which were embedded by a move that was stopped"
        if found.begun
        else ""
    )
    holds = f"{place} holds {found.total} entries in all its namespaces{goes_on}"
    lines = (
        f"{found.texts} texts would be embedded with {after.embedder_name}: {holds}",
        f"from {before.embedder_name}, {before.dim} dimensions, to {after.embedder_name}, {after.dim} dimensions",
        f"about {_size(found.bytes_needed)} of disk are needed meanwhile; {free}",
    )
    return "\n".join(lines)


def _as_json(place: str, embedder: NamedEmbedder, found: ReembeddingEstimate) -> JSON:
    return {
        "place": place,
        "embedder": embedder,
        "dry_run": True,
        "texts": found.texts,
        "total": found.total,
        "begun": found.begun,
        "from": {"embedder": found.before.embedder_name, "dim": found.before.dim},
        "to": {"embedder": found.after.embedder_name, "dim": found.after.dim},
        "bytes_needed": found.bytes_needed,
        "bytes_free": found.bytes_free,
    }


def _size(number: int) -> str:
    for unit, bytes_each in (("GB", 1e9), ("MB", 1e6)):
        if number >= bytes_each:
            return f"{number / bytes_each:.1f} {unit}"
    return f"{number / 1e3:.1f} kB"


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
