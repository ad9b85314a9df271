"""What a problem's own tests say beside what the hidden tests say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jeeves_reflexion.statistics import Share, wilson
from jeeves_reflexion.types import JSON


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
        return share(self.false_positive, self.true_positive + self.false_positive)

    @property
    def right_among_failed(self) -> Share | None:
        """The paper's false negatives: right, of those whose own tests fail."""
        return share(self.false_negative, self.false_negative + self.true_negative)

    @property
    def passed_among_wrong(self) -> Share | None:
        """Wrong solutions that their own tests let through."""
        return share(self.false_positive, self.false_positive + self.true_negative)

    @property
    def failed_among_right(self) -> Share | None:
        """Right solutions that their own tests refuse."""
        return share(self.false_negative, self.true_positive + self.false_negative)

    def as_json(self) -> dict[str, JSON]:
        """Return counts and shares."""
        shares = ("wrong_among_passed", "right_among_failed", "passed_among_wrong", "failed_among_right")
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            **{name: _json(getattr(self, name)) for name in shares},
        }


def share(successes: int, n: int) -> Share | None:
    """Return the share, or ``None`` of nothing."""
    return wilson(successes, n) if n else None


def in_percent(found: Share | None) -> str:
    """Write a share with its interval."""
    if found is None:
        return "none to count"
    return f"{found.successes}/{found.n} = {found.value:.1%} ({found.low:.1%} to {found.high:.1%})"


CONFUSION_HEAD = (
    "| | own tests pass, right | pass, wrong | fail, right | fail, wrong | no own tests (right, wrong) |"
    " wrong among passed (paper's FP) | right among failed (paper's FN) | passed among wrong | failed among right |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def confusion_row(name: str, found: Confusion) -> str:
    """Return a row of the table."""
    cells = [
        name,
        *map(str, (found.true_positive, found.false_positive, found.false_negative, found.true_negative)),
        f"{found.untested_right}, {found.untested_wrong}",
        in_percent(found.wrong_among_passed),
        in_percent(found.right_among_failed),
        in_percent(found.passed_among_wrong),
        in_percent(found.failed_among_right),
    ]
    return f"| {' | '.join(cells)} |"


def _json(found: Share | None) -> JSON:
    if found is None:
        return None
    return {
        "successes": found.successes,
        "n": found.n,
        "low": round(found.low, 4),
        "high": round(found.high, 4),
    }
