"""Which way of revising suits what is wrong with a draft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jeeves_reflexion.drafts import RevisionRequest, Strategy
from jeeves_reflexion.text import estimate_tokens
from jeeves_reflexion.types import Evaluation

CRITERION_THRESHOLD = 0.7
"""Below this score a criterion counts as failed; a verdict does not carry the criteria's own thresholds."""

SHORT = 50
"""Tokens of a text below which an edit, which quotes it, is longer than the text itself."""

LOW_SCORE = 0.4
"""Below this score little is worth keeping."""

WEAK_SCORE = 0.5
"""Below this score little is worth keeping where most criteria fail too."""

GOOD_SCORE = 0.6
"""From this score on most is worth keeping."""

FEW_ISSUES = 3
TOKENS_PER_FEW = 500
"""So many issues are few, and so are more in a long text: one in each 500 tokens."""

MANY_ISSUES = 6
TOKENS_PER_MANY = 100
"""So many issues are many, unless the text is so long that there is less than one in each 100 tokens."""

WORDS: Mapping[Strategy, str] = {
    "full_rewrite": "a full rewrite",
    "incremental": "an incremental revision",
    "targeted_edit": "targeted edits",
}
_NEXT: Mapping[Strategy, Strategy] = {
    "full_rewrite": "incremental",
    "incremental": "full_rewrite",
    "targeted_edit": "incremental",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is wrong with a text, and how long it is (in tokens, estimated).

    ``points`` counts the issues, or the suggestions where no issue is named; ``failing`` is the share of criteria
    below :data:`CRITERION_THRESHOLD`, ``None`` where none was scored.
    """

    tokens: int
    points: int
    score: float | None
    failing: float | None

    def __str__(self) -> str:
        parts = [f"{self.points} issues" if self.points != 1 else "1 issue"]
        parts.append("no score" if self.score is None else f"score {self.score:.2f}")
        if self.failing is not None:
            parts.append(f"{self.failing:.0%} of the criteria below {CRITERION_THRESHOLD}")
        return ", ".join([*parts, f"about {self.tokens} tokens"])


def scope_of(text: str, feedback: Evaluation) -> Scope:
    """Measure how much a verdict says is wrong with a text."""
    scores = feedback.criteria_scores.values()
    failing = sum(score < CRITERION_THRESHOLD for score in scores) / len(scores) if scores else None
    points = len(issues_of(feedback)) or len(feedback.suggestions)
    return Scope(estimate_tokens(text), points, feedback.score, failing)


def issues_of(feedback: Evaluation) -> tuple[str, ...]:
    """Return what a verdict says is wrong, its errors after its issues, each once."""
    errors = (f"{error.path}: {error.message}" if error.path else error.message for error in feedback.errors)
    return tuple(dict.fromkeys((*feedback.issues, *errors)))


def choose(request: RevisionRequest) -> tuple[Strategy, str]:
    """Choose one of the three ways of revising by the scope of what is wrong, and say why.

    The first that holds:

    1. a blank text is rewritten;
    2. a text longer than ``max_tokens`` of the request gets targeted edits: no other reply would fit;
    3. it is rewritten at a score below 0.4; at a score below 0.5 with more than half of the criteria below 0.7; at
       6 or more issues and one or more in each 100 tokens of text;
    4. it gets targeted edits if it has 50 tokens or more, 1 to 3 issues (or at most one in each 500 tokens), a score of
       0.6 or more (or none), and at most half of the criteria below 0.7;
    5. else it is revised incrementally, also where the verdict names nothing to mend.

    The strategy that failed is not chosen again: incremental takes the place of the other two, and a full rewrite
    that of incremental.
    """
    text = request.draft.output
    scope = scope_of(text, request.feedback)
    way, reason = _by_scope(text, scope, request.max_tokens)
    why = f"{reason} ({scope})"
    if way == request.failed:
        way = _NEXT[way]
        why += f"; {WORDS[request.failed]} made it worse before, so {WORDS[way]}"
    return way, why


def other_than(way: Strategy, failed: Strategy | None) -> Strategy:
    """Return ``way``, or what takes its place where it is the one that failed."""
    return _NEXT[way] if way == failed else way


def _by_scope(text: str, scope: Scope, max_tokens: int | None) -> tuple[Strategy, str]:
    score = GOOD_SCORE if scope.score is None else scope.score
    most_fail = (scope.failing or 0.0) > 0.5
    few = scope.points <= max(FEW_ISSUES, scope.tokens / TOKENS_PER_FEW)
    many = scope.points >= max(MANY_ISSUES, scope.tokens / TOKENS_PER_MANY)
    too_long = max_tokens is not None and scope.tokens > max_tokens
    rules: tuple[tuple[bool, Strategy, str], ...] = (
        (not text.strip(), "full_rewrite", "there is no text to keep"),
        (too_long, "targeted_edit", f"the whole text does not fit into {max_tokens} tokens"),
        (score < LOW_SCORE, "full_rewrite", "the score is low"),
        (score < WEAK_SCORE and most_fail, "full_rewrite", "the score is low and most criteria fail"),
        (many, "full_rewrite", "many issues"),
        (not scope.points, "incremental", "nothing to mend is named"),
        (scope.tokens < SHORT, "incremental", "the text is short"),
        (few and score >= GOOD_SCORE and not most_fail, "targeted_edit", "few issues"),
        (True, "incremental", "too much for edits, too little for a rewrite"),
    )
    return next((way, reason) for holds, way, reason in rules if holds)
