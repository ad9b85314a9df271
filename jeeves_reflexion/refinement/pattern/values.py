"""The results of the reflection pattern, made from the values of the inner loop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from jeeves_reflexion.drafts import ConvergenceReason, Draft, Refined
from jeeves_reflexion.refinement.options import Decision, Hooks
from jeeves_reflexion.types import Evaluation, Usage

ReflectionDecision = Decision
"""The answer of :meth:`ReflectionCallbacks.on_reflection`."""


@dataclass(frozen=True, slots=True)
class ReflectionEvaluation:
    """The verdict on a version.

    The pattern uses plain numbers, so an output that could not be scored has ``overall_score`` 0.0, ``confidence`` 0.0
    and ``scored`` False. The confidence of a judge that states none is 1.0.
    """

    overall_score: float
    criteria_scores: dict[str, float]
    satisfactory: bool
    issues: list[str]
    suggestions: list[str]
    confidence: float
    scored: bool = True

    @classmethod
    def of(cls, evaluation: Evaluation, *, satisfactory: bool) -> ReflectionEvaluation:
        """Convert from an :class:`Evaluation`."""
        scored = evaluation.scored
        score = evaluation.score
        if score is None:
            score = 1.0 if evaluation.passed else 0.0
        sure = 1.0 if evaluation.confidence is None else evaluation.confidence
        return cls(
            overall_score=score,
            criteria_scores=dict(evaluation.criteria_scores),
            satisfactory=satisfactory,
            issues=list(evaluation.issues),
            suggestions=list(evaluation.suggestions),
            confidence=sure if scored else 0.0,
            scored=scored,
        )

    def as_evaluation(self) -> Evaluation:
        """Convert to an :class:`Evaluation`."""
        return Evaluation(
            self.overall_score if self.scored else None,
            passed=self.satisfactory if self.scored else None,
            criteria_scores=dict(self.criteria_scores),
            issues=tuple(self.issues),
            suggestions=tuple(self.suggestions),
            confidence=self.confidence,
        )


@dataclass(frozen=True, slots=True)
class ReflectionVersion:
    """One version. ``iteration`` counts from 1, the first draft included; if its judge failed it is not ``scored``.

    ``strategy`` names how it was revised from the version before, and ``strategy_reason`` says why.
    """

    iteration: int
    output: str
    evaluation: ReflectionEvaluation
    improvements_applied: list[str]
    timestamp: datetime
    token_usage: Usage
    strategy: str | None = None
    strategy_reason: str = ""

    @classmethod
    def of(cls, draft: Draft) -> ReflectionVersion:
        """Convert from a draft."""
        revision = draft.revision
        return cls(
            iteration=draft.number,
            output=draft.output,
            evaluation=ReflectionEvaluation.of(draft.evaluation, satisfactory=draft.satisfactory),
            improvements_applied=list(revision.addressed) if revision else [],
            timestamp=datetime.fromtimestamp(draft.at, UTC),
            token_usage=draft.usage,
            strategy=revision.strategy if revision else None,
            strategy_reason=revision.why if revision else "",
        )


@dataclass(frozen=True, slots=True)
class ReflectionHistory:
    """All versions, or only the best and the final one if the others are not kept.

    ``total_iterations`` counts every version, kept or not. ``convergence_reason`` is the reason's value, as text.
    """

    versions: list[ReflectionVersion]
    best_version: ReflectionVersion
    final_version: ReflectionVersion
    convergence_reason: str
    total_iterations: int


@dataclass(frozen=True, slots=True)
class ReflectionResult:
    """The result of a run of the pattern.

    ``success`` means that the best version is satisfactory, or was accepted by the user, and nothing failed.
    ``iterations_used`` counts the revisions, so it never exceeds ``max_iterations``. ``token_usage`` includes every
    call, even those of a judge or a reviser that then failed. ``execution_time`` is in seconds. ``flags`` are doubts
    about the judge; ``problems`` and ``error`` say what went wrong.
    """

    success: bool
    final_output: str
    best_output: str
    final_evaluation: ReflectionEvaluation
    history: ReflectionHistory
    iterations_used: int
    convergence_reason: ConvergenceReason
    token_usage: Usage
    execution_time: float
    flags: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    error: Exception | None = None

    @classmethod
    def of(cls, refined: Refined, *, keep_all: bool) -> ReflectionResult:
        """Convert from the result of the inner loop."""
        versions = {draft.number: ReflectionVersion.of(draft) for draft in refined.drafts}
        best, final = versions[refined.best.number], versions[refined.final.number]
        kept = [v for v in versions.values() if keep_all or v.iteration in {best.iteration, final.iteration}]
        accepted = refined.reason is ConvergenceReason.USER_ACCEPTED
        return cls(
            success=refined.error is None and (accepted or best.evaluation.satisfactory),
            final_output=final.output,
            best_output=best.output,
            final_evaluation=final.evaluation,
            history=ReflectionHistory(kept, best, final, refined.reason.value, len(versions)),
            iterations_used=len(versions) - 1,
            convergence_reason=refined.reason,
            token_usage=refined.usage,
            execution_time=refined.seconds,
            flags=refined.flags,
            problems=refined.problems,
            error=refined.error,
        )


class ReflectionCallbacks(Hooks):
    """Callbacks during a run; override what you need.

    Iterations count from 1, the first draft included; revisions are generations too. A callback that raises is reported
    (in the log, as an event and in ``ReflectionResult.problems``), and the run goes on.
    """

    async def on_reflection(self, evaluation: ReflectionEvaluation, iteration: int) -> ReflectionDecision:
        """Called after each verdict; may override whether to go on."""
        return ReflectionDecision.AUTO

    async def on_judged(self, draft: Draft) -> Decision:
        """Called by the loop after each verdict. Override :meth:`on_reflection` instead."""
        verdict = ReflectionEvaluation.of(draft.evaluation, satisfactory=draft.satisfactory)
        return await self.on_reflection(verdict, draft.number)
