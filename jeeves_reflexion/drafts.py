"""The values of the inner loop: drafts, what was changed between them, and why it stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from jeeves_reflexion.types import NO_USAGE, Attempt, Evaluation, Usage

Strategy: TypeAlias = Literal["full_rewrite", "targeted_edit", "incremental", "hybrid"]
Selection: TypeAlias = Literal["highest_score", "latest", "first_satisfactory", "weighted_recency"]
Trigger: TypeAlias = Literal["completion", "step_interval", "error", "tool_result", "manual", "quality_drop"]


class ConvergenceReason(Enum):
    """Why the inner loop stopped."""

    QUALITY_MET = "quality_met"
    MAX_ITERATIONS = "max_iterations"
    PLATEAU = "plateau"
    OSCILLATION = "oscillation"
    DIMINISHING_RETURNS = "diminishing"
    USER_ACCEPTED = "user_accepted"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - no secret
    SEMANTIC_STABILITY = "semantic_stability"
    REPEATED_ISSUES = "repeated_issues"
    UNSCORABLE = "unscorable"
    STOPPED = "stopped"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Revision:
    """A new text made of an old one.

    ``strategy`` is the one that was used (never ``hybrid``), ``why`` the reason for it. ``addressed`` are the issues
    given to the reviser. ``problems`` says what did not work, such as an edit that did not apply.
    """

    output: str
    strategy: Strategy
    why: str = ""
    addressed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Draft:
    """One judged text. ``number`` counts from 1; ``base`` is the number of the draft that it was revised from.

    ``satisfactory`` is the loop's decision. ``usage`` is everything used since the previous draft, by writing (or
    revising), judging and critics. ``at`` is when it was judged (seconds since 1970). If its judge failed, it has no
    score.
    """

    number: int
    output: str
    evaluation: Evaluation
    satisfactory: bool = False
    revision: Revision | None = None
    base: int | None = None
    attempt: Attempt | None = None
    usage: Usage = NO_USAGE
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class RevisionRequest:
    """The task of a reviser: improve ``draft`` according to ``feedback``; neither holds gold.

    ``history`` holds all drafts so far, oldest first. ``failed`` is the strategy whose last use made the draft worse;
    the reviser should try another. ``note`` is an additional instruction for the reviser, from this package.
    ``max_tokens`` bounds the reply.
    """

    draft: Draft
    feedback: Evaluation
    history: tuple[Draft, ...] = ()
    failed: Strategy | None = None
    note: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Refined:
    """The result of refining one output.

    ``drafts`` has all drafts, oldest first; ``best`` is chosen by the loop's rule and may not be the last. ``usage``
    counts every call, also in a phase that failed. ``flags`` say what is doubtful about the judge (``overcritical``),
    ``problems`` what else went wrong. ``error`` is the error that ended the loop early, with ``reason`` ``ERROR``, or
    ``TOKEN_BUDGET`` for the run's own budget.
    """

    drafts: tuple[Draft, ...]
    best: Draft
    reason: ConvergenceReason
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    flags: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    error: Exception | None = field(default=None, compare=False)

    @property
    def final(self) -> Draft:
        """The last draft."""
        return self.drafts[-1]
