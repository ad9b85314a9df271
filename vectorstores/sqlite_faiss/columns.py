"""Metadata by key, as numbers: a filter looks at distinct values at most once each, and at the rows by arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores.filters import MISSING, And, Leaf, Missing, Node, Not, OneOf, Or, canonical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import JSON

# Distinct values that are borne, whether any row has them or not.
_MANY: Final = 1024
# About what a distinct value takes, with its place among the others.
_VALUE: Final = 250


class Column:
    """The values of one key: for each position the number of a distinct value. Number 0 is a missing key."""

    def __init__(
        self, values: Sequence[JSON | Missing] = (), numbers: NDArray[np.int32] | None = None
    ) -> None:
        self._values: list[JSON | Missing] = []
        self._numbers: dict[Hashable, int] = {}
        for value in (MISSING, *values):
            self._number(value)
        self._codes = np.zeros(0, dtype=np.int32) if numbers is None else numbers.astype(np.int32)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return int(self._codes.nbytes) + _VALUE * len(self._values)

    @property
    def is_worn(self) -> bool:
        """Whether it has far more values than rows, which changed again and again: it is better read anew."""
        return len(self._values) > max(_MANY, 2 * len(self._codes))

    def put(self, places: NDArray[np.int64], values: Iterable[JSON | Missing], size: int) -> None:
        """Set the values at these positions, of ``size`` in all."""
        self.grow(size)
        self._codes[places] = [self._number(value) for value in values]

    def grow(self, size: int) -> None:
        """Make room for so many positions; the key is missing at the new ones."""
        if size > len(self._codes):
            grown = np.zeros(max(size, 5 * len(self._codes) // 4), dtype=np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown

    def _number(self, value: JSON | Missing) -> int:
        form = canonical(value)
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = len(self._values)
            self._values.append(value)
        return number

    def at(self, places: NDArray[np.int64]) -> tuple[list[JSON | Missing], NDArray[np.int32]]:
        """Return copies of the distinct values, and of the number at each of these positions."""
        self.grow(int(places[-1]) + 1 if len(places) else 0)
        return list(self._values), self._codes[places]

    def mask(self, leaf: Leaf, size: int) -> NDArray[np.bool_]:
        """Return which positions the leaf admits."""
        codes = self._codes[:size]
        if isinstance(leaf, OneOf):
            # There may be as many distinct values as rows, and a filter names few of them.
            numbers = [self._numbers[form] for form in leaf.forms if form in self._numbers]
            if len(numbers) == 1:  # the most frequent filter, at a tenth of the time
                same: NDArray[np.bool_] = codes == numbers[0]
                return ~same if leaf.negated else same
            admitted = np.full(len(self._values), leaf.negated)
            admitted[numbers] = not leaf.negated
        else:
            admitted = np.fromiter(
                (leaf.admits(value) for value in self._values), dtype=np.bool_, count=len(self._values)
            )
        mask: NDArray[np.bool_] = admitted[codes]
        return mask


def packed(
    values: Sequence[JSON | Missing], numbers: NDArray[np.int32]
) -> tuple[list[JSON], NDArray[np.int32]]:
    """Return those of the values that any position has, and the number of each position's: what makes a column.

    Number 0 is a missing key, number 1 the first value.
    """
    used = np.union1d([0], numbers)
    kept = [value for value in (values[number] for number in used) if not isinstance(value, Missing)]
    return kept, np.searchsorted(used, numbers).astype("<i4")


def evaluate(node: Node, column: Callable[[str], Column], size: int) -> NDArray[np.bool_]:
    """Return which positions a filter admits."""
    if isinstance(node, And | Or):
        mask = np.full(size, isinstance(node, And))
        for part in node.parts:
            if isinstance(node, And):
                mask &= evaluate(part, column, size)
            else:
                mask |= evaluate(part, column, size)
        return mask
    if isinstance(node, Not):
        return ~evaluate(node.part, column, size)
    return column(node.key).mask(node, size)
