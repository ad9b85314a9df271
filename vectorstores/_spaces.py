"""The namespaces of a store on disk that are held in memory: those searched last, within a bound of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vectorstores._space import Space

MEMORY: Final = 512 * 2**20
"""How many bytes namespaces may take when nothing else is said."""


class Spaces:
    """Namespaces by name, in the order of their last use.

    Those used least recently are let go when all together take more than ``limit`` bytes; the next search reads them
    anew. The one in use stays, whatever it takes, and so does one that is being worked on in the background. One that
    needs such work, be it that its files are to be written, stays until twice the limit: without files, reading it
    anew takes long.

    To be changed under the lock under which searches are made, so that none loses what it is reading. Looking
    something up needs no lock.
    """

    def __init__(self, limit: int, is_due: Callable[[Space], bool]) -> None:
        self._limit = limit
        self._is_due = is_due
        self._spaces: OrderedDict[str, Space] = OrderedDict()
        self._weights: dict[str, int] = {}
        self._guard = threading.Lock()
        self._worked_on: str | None = None
        self.held = 0
        """About how many bytes they take."""

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._spaces

    def __getitem__(self, namespace: str) -> Space:
        return self._spaces[namespace]

    def __len__(self) -> int:
        return len(self._spaces)

    def names(self) -> list[str]:
        """Return the names, the one used least recently first."""
        return list(self._spaces)

    def get(self, namespace: str) -> Space | None:
        """Return a namespace that is held, without using it."""
        return self._spaces.get(namespace)

    def use(self, namespace: str) -> Space | None:
        """Return a namespace, if it is held, to search in it."""
        space = self._spaces.get(namespace)
        if space is not None:
            self._spaces.move_to_end(namespace)
        return space

    def put(self, space: Space) -> None:
        """Hold a namespace, which is new, was changed or takes the place of what was held under its name."""
        self._spaces[space.namespace] = space
        self._spaces.move_to_end(space.namespace)
        self.weigh(space)

    def weigh(self, space: Space) -> None:
        """Take note of what a namespace takes now, and let go of others if that is too much."""
        name = space.namespace
        if self._spaces.get(name) is not space:
            return  # let go of meanwhile
        weight = space.nbytes
        self.held += weight - self._weights.get(name, 0)
        self._weights[name] = weight
        if self.held > self._limit:
            self._let_go(lambda other: other is not space and not self._is_due(other), self._limit)
        if self.held > 2 * self._limit:
            self._let_go(lambda other: other is not space, 2 * self._limit)

    def _let_go(self, may: Callable[[Space], bool], limit: int) -> None:
        for name, space in list(self._spaces.items()):
            if self.held <= limit:
                return
            if may(space):
                with self._guard:
                    if name != self._worked_on:
                        self.drop(name)

    def drop(self, namespace: str) -> None:
        """Let go of a namespace, if it is held."""
        self._spaces.pop(namespace, None)
        self.held -= self._weights.pop(namespace, 0)

    @contextmanager
    def worked_on(self, namespace: str) -> Iterator[Space | None]:
        """Keep a namespace, if it is held, while something is done to it; one at a time."""
        with self._guard:
            self._worked_on = namespace
            space = self._spaces.get(namespace)
        try:
            yield space
        finally:
            self._worked_on = None

    def clear(self) -> None:
        """Let go of all."""
        self._spaces.clear()
        self._weights.clear()
        self.held = 0
