"""Compares the verdicts of own tests with those of the hidden tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from jeeves_reflexion.statistics import Share, clustered_share
from jeeves_reflexion.types import JSON

from ..report import counted_share, share_json, table


@dataclass(frozen=True, slots=True)
class Pair:
    """The two verdicts on one solution of a task; ``own`` is ``None`` if there was no own test."""

    task: str
    own: bool | None
    hidden: bool


@dataclass(frozen=True, slots=True)
class Confusion:
    """Solutions by both verdicts; intervals are clustered by task.

    Shinn et al. 2023, table 2, divide by the own tests' verdict: a false positive is a wrong solution among those whose
    own tests pass, a false negative a right one among those whose own tests fail. The other two shares, of wrong
    solutions that pass and of right ones that fail, do not depend on how many solutions are right.
    """

    pairs: tuple[Pair, ...] = ()

    def count(self, *, own: bool | None, hidden: bool) -> int:
        """Return how many solutions have these verdicts."""
        return sum((pair.own, pair.hidden) == (own, hidden) for pair in self.pairs)

    @property
    def wrong_among_passed(self) -> Share | None:
        """The paper's false positives: wrong ones among those whose own tests pass."""
        return self._share(lambda pair: not pair.hidden, lambda pair: pair.own is True)

    @property
    def right_among_failed(self) -> Share | None:
        """The paper's false negatives: right ones among those whose own tests fail."""
        return self._share(lambda pair: pair.hidden, lambda pair: pair.own is False)

    @property
    def passed_among_wrong(self) -> Share | None:
        """Those whose own tests pass, among wrong solutions."""
        return self._share(lambda pair: bool(pair.own), lambda pair: pair.own is not None and not pair.hidden)

    @property
    def failed_among_right(self) -> Share | None:
        """Those whose own tests fail, among right solutions."""
        return self._share(lambda pair: not pair.own, lambda pair: pair.own is not None and pair.hidden)

    def as_json(self) -> dict[str, JSON]:
        """Return counts and shares."""
        return {
            **{name: self.count(own=own, hidden=hidden) for name, (own, hidden) in _COUNTS.items()},
            **{name: share_json(getattr(self, name)) for name in _SHARES},
        }

    def _share(self, found: Callable[[Pair], bool], among: Callable[[Pair], bool]) -> Share | None:
        clusters: dict[str, list[bool]] = {}
        for pair in filter(among, self.pairs):
            clusters.setdefault(pair.task, []).append(found(pair))
        return clustered_share(clusters.values()) if clusters else None


_COUNTS: Final[dict[str, tuple[bool | None, bool]]] = {
    "true_positive": (True, True),
    "false_positive": (True, False),
    "false_negative": (False, True),
    "true_negative": (False, False),
    "untested_right": (None, True),
    "untested_wrong": (None, False),
}

_SHARES: Final = ("wrong_among_passed", "right_among_failed", "passed_among_wrong", "failed_among_right")
_HEADS: Final = (
    "",
    "own tests pass, right",
    "pass, wrong",
    "fail, right",
    "fail, wrong",
    "no own tests (right, wrong)",
    "wrong among passed (paper's FP)",
    "right among failed (paper's FN)",
    "passed among wrong",
    "failed among right",
)


def confusion_table(rows: Mapping[str, Confusion]) -> str:
    """Return the table of both verdicts, with a row for each name."""
    return table(
        _HEADS,
        [
            (
                name,
                *(found.count(own=own, hidden=hidden) for own, hidden in list(_COUNTS.values())[:4]),
                f"{found.count(own=None, hidden=True)}, {found.count(own=None, hidden=False)}",
                *(counted_share(getattr(found, share), 1) for share in _SHARES),
            )
            for name, found in rows.items()
        ],
    )
