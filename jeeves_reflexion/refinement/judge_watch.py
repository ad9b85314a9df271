"""What can be told about a judge from how it judges: never content, or content with everything."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion.drafts import Draft

OVERCRITICAL: Final = "overcritical"
UNDERCRITICAL: Final = "undercritical"

NEAR: Final = 0.2
"""Within so much below the threshold, a run whose drafts were all refused makes its judge suspect."""

RUNS: Final = 5
"""So many runs alike say something about a judge."""


class JudgeWatch:
    """Looks for a judge that is never, or always, content. Serves many runs at once.

    ``overcritical``: in one run, at least two drafts were judged, none was satisfactory, and either the best came
    within :data:`NEAR` of the threshold or a refused one had neither an issue nor the score of a criterion named; or
    none of the last :data:`RUNS` runs had a satisfactory draft. ``undercritical``: each of the last :data:`RUNS` runs
    had a first draft that was passed without an issue; an external validator would tell whether they were good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._never = 0
        self._always = 0

    def flags(self, drafts: Sequence[Draft], threshold: float) -> tuple[str, ...]:
        """Take note of a finished run and return what is doubtful about its judge."""
        scored = [draft for draft in drafts if draft.evaluation.scored]
        never = bool(scored) and not any(draft.satisfactory for draft in scored)
        always = bool(scored) and scored[0].satisfactory and not scored[0].evaluation.issues
        with self._lock:
            self._never = self._never + 1 if never else 0
            self._always = self._always + 1 if always else 0
            often_never, often_always = self._never >= RUNS, self._always >= RUNS
        found = []
        if often_never or (never and len(scored) > 1 and _suspect(scored, threshold)):
            found.append(OVERCRITICAL)
        if often_always:
            found.append(UNDERCRITICAL)
        return tuple(found)


def _suspect(drafts: Sequence[Draft], threshold: float) -> bool:
    best = max((draft.evaluation.score or 0.0 for draft in drafts), default=0.0)
    said = [draft.evaluation.issues or draft.evaluation.criteria_scores for draft in drafts]
    return best >= threshold - NEAR or not all(said)
