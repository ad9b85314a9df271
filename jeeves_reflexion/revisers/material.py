"""The prompt of a reviser: the task, the draft, the verdict on it, and the earlier drafts."""

from __future__ import annotations

import itertools
import re

from jeeves_reflexion.drafts import Draft, RevisionRequest
from jeeves_reflexion.revisers.scope import CRITERION_THRESHOLD, WORDS
from jeeves_reflexion.text import cut_middle, fence, one_line
from jeeves_reflexion.types import Evaluation, Task

RATIONALE_TOKENS = 1000
HISTORY_TOKENS = 2000
VERSIONS_TOKENS = 4000
"""The room for the judge's reasons, all earlier evaluations, and all other drafts; each is cut in the middle."""


def free_tag(text: str) -> str:
    """Return a tag that does not occur in a text, so that the text can be put between such tags unchanged."""
    used = {match.lower() for match in re.findall(r"<\s*/?\s*(draft(?:_\d+)?)(?!\w)", text, re.IGNORECASE)}
    tags = itertools.chain(["draft"], (f"draft_{number}" for number in itertools.count(2)))
    return next(tag for tag in tags if tag not in used)


def material(
    task: Task, request: RevisionRequest, tag: str, *, show_task: bool, versions: bool, evaluations: bool
) -> str:
    """Return everything that a revision needs, each part fenced as data, and the whole draft between ``tag`` tags.

    ``versions`` shows the other drafts, ``evaluations`` the verdicts on them.
    """
    feedback = request.feedback.public()
    parts = [fence("task", task.prompt)] if show_task else []
    if task.expected_output:
        parts.append(fence("expected_output", task.expected_output))
    others = [draft for draft in request.history if draft.number != request.draft.number]
    if versions and others:
        room = max(VERSIONS_TOKENS // len(others), 1)
        parts += [fence(f"version_{draft.number}", cut_middle(draft.output, room)) for draft in others]
    if evaluations and others:
        earlier = "\n".join(map(_remembered, others))
        parts.append(fence("earlier_evaluations", cut_middle(earlier, HISTORY_TOKENS)))
    parts += [fence(tag, request.draft.output), fence("judgement", _judgement(feedback))]
    issues = feedback.faults
    for name, lines in (("issues", issues), ("suggestions", feedback.suggestions)):
        if lines:
            numbered = (f"{number}. {one_line(line)}" for number, line in enumerate(lines, 1))
            parts.append(fence(name, "\n".join(numbered)))
    if not issues and not feedback.suggestions:
        parts.append(
            "No issue was named. Check the draft against the task itself, and mend what you find wrong or missing."
        )
    if request.failed:
        how = WORDS.get(request.failed, request.failed)
        # The number makes each prompt different, because a callable that caches would repeat its answer.
        tries = max(sum(draft.base == request.draft.number for draft in request.history), 1)
        before = f"before by {how}" if tries == 1 else f"{tries} times before, the last time by {how}"
        parts.append(
            f"This draft was revised {before}; that made it worse and was thrown away. Take a different approach now."
        )
    if request.note.strip():
        parts.append(fence("remarks", request.note.strip()))
    return "\n\n".join(parts)


def _judgement(feedback: Evaluation) -> str:
    lines = ["no score" if feedback.score is None else f"score {feedback.score:.2f}"]
    low = [
        f"{one_line(name)} {score:.2f}"
        for name, score in feedback.criteria_scores.items()
        if score < CRITERION_THRESHOLD
    ]
    if low:
        lines.append(f"criteria below {CRITERION_THRESHOLD}: {', '.join(low)}")
    if feedback.rationale.strip():
        lines.append(cut_middle(feedback.rationale.strip(), RATIONALE_TOKENS))
    return "\n".join(lines)


def _remembered(draft: Draft) -> str:
    """Return one line on an earlier draft: how it was made, its score, and what was wrong with it."""
    judged = draft.evaluation.public()
    how = draft.revision and WORDS.get(draft.revision.strategy, "a revision")
    made = f" ({how} of draft {draft.base})" if how else ""
    score = "no score" if judged.score is None else f"score {judged.score:.2f}"
    faults = "; ".join(map(one_line, (*judged.faults, *judged.suggestions))) or one_line(judged.rationale)
    return f"draft {draft.number}{made}: {score}" + (f"; {faults}" if faults else "")
