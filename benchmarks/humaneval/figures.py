"""What a problem's own tests say beside what the hidden tests say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jeeves_reflexion.statistics import Share, wilson
from jeeves_reflexion.types import JSON

from ..report import counted_share, share_json, table


@dataclass(frozen=True, slots=True)
class Pair:
    """The two verdicts on one solution; ``own`` is ``None`` where there was no test of its own."""

    own: bool | None
    hidden: bool


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of solutions by both verdicts.

    Shinn et al. 2023, table 2, divide by the own tests' verdict: a false positive is a wrong solution among those whose
    own tests pass, a false negative a right one among those whose own tests fail. The other direction, of wrong
    solutions how many pass and of right ones how many are refused, does not depend on how many are right.
    """

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0
    untested_right: int = 0
    untested_wrong: int = 0

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Confusion:
        """Count."""
        found = list(pairs)

        return cls(
            found.count(Pair(own=True, hidden=True)),
            found.count(Pair(own=True, hidden=False)),
            found.count(Pair(own=False, hidden=True)),
            found.count(Pair(own=False, hidden=False)),
            found.count(Pair(own=None, hidden=True)),
            found.count(Pair(own=None, hidden=False)),
        )

    @property
    def wrong_among_passed(self) -> Share | None:
        """The paper's false positives: wrong, of those whose own tests pass."""
        return _share(self.false_positive, self.true_positive + self.false_positive)

    @property
    def right_among_failed(self) -> Share | None:
        """The paper's false negatives: right, of those whose own tests fail."""
        return _share(self.false_negative, self.false_negative + self.true_negative)

    @property
    def passed_among_wrong(self) -> Share | None:
        """Wrong solutions that their own tests let through."""
        return _share(self.false_positive, self.false_positive + self.true_negative)

    @property
    def failed_among_right(self) -> Share | None:
        """Right solutions that their own tests refuse."""
        return _share(self.false_negative, self.true_positive + self.false_negative)

    def as_json(self) -> dict[str, JSON]:
        """Return counts and shares."""
        shares = ("wrong_among_passed", "right_among_failed", "passed_among_wrong", "failed_among_right")
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            **{name: share_json(getattr(self, name)) for name in shares},
        }


def _share(successes: int, n: int) -> Share | None:
    return wilson(successes, n) if n else None


_HEADS = (
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
    """Return the table of both verdicts, a row for each name."""
    return table(
        _HEADS,
        [
            (
                name,
                found.true_positive,
                found.false_positive,
                found.false_negative,
                found.true_negative,
                f"{found.untested_right}, {found.untested_wrong}",
                counted_share(found.wrong_among_passed, 1),
                counted_share(found.right_among_failed, 1),
                counted_share(found.passed_among_wrong, 1),
                counted_share(found.failed_among_right, 1),
            )
            for name, found in rows.items()
        ],
    )
