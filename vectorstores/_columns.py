"""Metadata by key, as numbers: a filter looks once at each distinct value, and at the rows by arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from vectorstores.filters import MISSING, And, Leaf, Missing, Node, Not, Or, canonical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import JSON


class Column:
    """The values of one key: for each position the number of a distinct value. Number 0 is a missing key."""

    def __init__(self) -> None:
        self._values: list[JSON | Missing] = [MISSING]
        self._numbers: dict[Hashable, int] = {canonical(MISSING): 0}
        self._codes: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

    def put(self, places: NDArray[np.int64], values: Iterable[JSON | Missing], size: int) -> None:
        """Set the values at these positions, of ``size`` in all."""
        if size > len(self._codes):
            grown = np.zeros(max(size, 2 * len(self._codes)), dtype=np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown
        self._codes[places] = [self._number(value) for value in values]

    def _number(self, value: JSON | Missing) -> int:
        form = canonical(value)
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = len(self._values)
            self._values.append(value)
        return number

    def mask(self, leaf: Leaf, size: int) -> NDArray[np.bool_]:
        """Return which positions the leaf admits."""
        admitted = np.fromiter(
            (leaf.admits(value) for value in self._values), dtype=np.bool_, count=len(self._values)
        )
        mask: NDArray[np.bool_] = admitted[self._codes[:size]]
        return mask


def keys_of(node: Node) -> set[str]:
    """Return the metadata keys that a filter looks at."""
    if isinstance(node, And | Or):
        return set().union(*(keys_of(part) for part in node.parts))
    return keys_of(node.part) if isinstance(node, Not) else {node.key}


def evaluate(node: Node, column: Callable[[str], Column], size: int) -> NDArray[np.bool_]:
    """Return which positions a filter admits."""
    if isinstance(node, And):
        mask = np.ones(size, dtype=np.bool_)
        for part in node.parts:
            mask &= evaluate(part, column, size)
        return mask
    if isinstance(node, Or):
        mask = np.zeros(size, dtype=np.bool_)
        for part in node.parts:
            mask |= evaluate(part, column, size)
        return mask
    if isinstance(node, Not):
        return ~evaluate(node.part, column, size)
    return column(node.key).mask(node, size)


def pick(metadata: Iterable[Mapping[str, JSON]], key: str) -> list[JSON | Missing]:
    """Return the value of a key in each metadata object."""
    return [each.get(key, MISSING) for each in metadata]
