"""Choosing a way of revising by how much is wrong with a draft."""

from __future__ import annotations

from collections.abc import Mapping

from jeeves_reflexion.drafts import RevisionRequest, Strategy
from jeeves_reflexion.summary import counted
from jeeves_reflexion.text import estimate_tokens

CRITERION_THRESHOLD = 0.7
"""Below this score a criterion counts as failed; a verdict does not have the thresholds of its criteria."""

SHORT = 50
"""Below this number of tokens an edit, which quotes the text, is longer than the text itself."""

LOW_SCORE = 0.4
"""Below this score little is worth keeping."""

WEAK_SCORE = 0.5
"""Below this score little is worth keeping if most criteria fail too."""

GOOD_SCORE = 0.6
"""From this score on most is worth keeping."""

FEW_ISSUES = 3
TOKENS_PER_FEW = 500
"""Up to three issues are few; in a long text, so is one issue in each 500 tokens."""

MANY_ISSUES = 6
TOKENS_PER_MANY = 100
"""Six issues are many, unless the text is so long that there is less than one in each 100 tokens."""

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


def choose(request: RevisionRequest) -> tuple[Strategy, str]:
    """Choose one of the three ways of revising by how much is wrong, and say why.

    The first rule that applies decides:

    1. a blank text is rewritten;
    2. a text longer than ``max_tokens`` of the request gets targeted edits, since no other reply would fit;
    3. a text is rewritten if its score is below 0.4; if its score is below 0.5 and more than half of the criteria are
       below 0.7; or if it has 6 or more issues, and at least one in each 100 tokens;
    4. a text gets targeted edits if it has 50 tokens or more, 1 to 3 issues (or at most one in each 500 tokens), a
       score of 0.6 or more (or none), and at most half of the criteria below 0.7;
    5. else it is revised incrementally, also if the verdict names no problem.

    The strategy that failed is not chosen again: incremental replaces the other two, and a full rewrite replaces
    incremental.
    """
    text, feedback, max_tokens = request.draft.output, request.feedback, request.max_tokens
    tokens = estimate_tokens(text)
    points = len(feedback.faults) or len(feedback.suggestions)
    scores = feedback.criteria_scores.values()
    failing = sum(score < CRITERION_THRESHOLD for score in scores) / max(len(scores), 1)
    score = GOOD_SCORE if feedback.score is None else feedback.score
    few = points <= max(FEW_ISSUES, tokens / TOKENS_PER_FEW)
    many = points >= max(MANY_ISSUES, tokens / TOKENS_PER_MANY)
    too_long = max_tokens is not None and tokens > max_tokens
    rules: tuple[tuple[bool, Strategy, str], ...] = (
        (not text.strip(), "full_rewrite", "there is no text to keep"),
        (too_long, "targeted_edit", f"the whole text does not fit into {max_tokens} tokens"),
        (score < LOW_SCORE, "full_rewrite", "the score is low"),
        (score < WEAK_SCORE and failing > 0.5, "full_rewrite", "the score is low and most criteria fail"),
        (many, "full_rewrite", "many issues"),
        (not points, "incremental", "nothing to mend is named"),
        (tokens < SHORT, "incremental", "the text is short"),
        (few and score >= GOOD_SCORE and failing <= 0.5, "targeted_edit", "few issues"),
        (True, "incremental", "too much for edits, too little for a rewrite"),
    )
    way, reason = next((way, reason) for holds, way, reason in rules if holds)
    facts = ["no score" if feedback.score is None else f"score {feedback.score:.2f}"]
    if scores:
        facts.append(f"{failing:.0%} of the criteria below {CRITERION_THRESHOLD}")
    why = f"{reason} ({', '.join([counted(points, 'issue'), *facts])}, about {tokens} tokens)"
    if way == request.failed:
        way = _NEXT[way]
        why += f"; {WORDS[request.failed]} made it worse before, so {WORDS[way]}"
    return way, why
