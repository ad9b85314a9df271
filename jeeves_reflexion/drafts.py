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

    ``strategy`` is the one that was carried out (never ``hybrid``) and ``why`` says what chose it. ``addressed`` are
    the issues that the reviser was given. ``problems`` tells what did not go as asked, such as an edit that did not
    apply.
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

    ``satisfactory`` is the loop's decision, ``usage`` all that was used since the draft before: by writing (or
    revising) and judging it, and by critics. ``at`` is when it was judged (seconds since 1970). One whose judge failed
    has no score.
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
    """What a reviser is to do: better ``draft`` by what ``feedback`` says; neither holds gold.

    ``history`` holds all drafts so far, oldest first. ``failed`` is the strategy whose last use made things worse: a
    different one is to be tried. ``note`` is more to say to the reviser, in words of ours. ``max_tokens`` bounds the
    reply.
    """

    draft: Draft
    feedback: Evaluation
    history: tuple[Draft, ...] = ()
    failed: Strategy | None = None
    note: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Refined:
    """What came of refining one output.

    ``drafts`` are all of them, oldest first; ``best`` is chosen by the loop's rule and may not be the last. ``usage``
    is that of every call that was made, those of a phase that failed included. ``flags`` say what is doubtful about the
    judge (``overcritical``), ``problems`` what else went wrong. ``error`` is what ended the loop early, with ``reason``
    ``ERROR``, or ``TOKEN_BUDGET`` for the run's own budget.
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
