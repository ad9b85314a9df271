"""The inner loop: write, judge and revise drafts within one attempt, until one is good or more work won't help.

It is an agent itself, so ``Reflexion(Refinement(ReAct(...)))`` nests. The reflection pattern
(:mod:`jeeves_reflexion.refinement.pattern`) and the YAML actions of a workflow use it too. :class:`_Run` holds all
state of a run, so one object serves many runs at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import anyio

from jeeves_reflexion.drafts import ConvergenceReason, Draft, Refined, Revision, RevisionRequest
from jeeves_reflexion.errors import HOPELESS, BudgetExceededError, described
from jeeves_reflexion.events import DraftJudged, DraftWritten, RefinementFinished, Reflected, Warned
from jeeves_reflexion.protocols import Agent, Evaluator, Reviser
from jeeves_reflexion.refinement.convergence import judge_flags, rank, select
from jeeves_reflexion.refinement.critics import Coach
from jeeves_reflexion.refinement.options import ComparesWithPrior, Decision, RefinementOptions
from jeeves_reflexion.session import Session, Spend, current_scope, logger
from jeeves_reflexion.text import estimate_tokens
from jeeves_reflexion.types import NO_USAGE, Attempt, Evaluation, Role, Task, Usage
from jeeves_reflexion.values import check_share, check_whole

T = TypeVar("T")


class Refinement:
    """An agent that improves its own output before it returns it (Madaan et al. 2023: Self-Refine).

    ``agent`` writes the first draft, ``evaluator`` judges each draft, and ``reviser`` makes the next one from the best
    so far (from the latest with ``RefinementOptions(base="latest")``). ``max_drafts`` counts judged drafts, the first
    one included. A draft is satisfactory if the evaluator says so (``passed``); if it does not say, the score has to
    reach ``threshold``.

    If the judge, the reviser or a critic fails, the drafts so far are returned with the reason, including the last one
    unjudged and the usage of every call. Errors of the agent in the first draft are raised. Called as an agent, it also
    raises errors that no retry would fix (a missing key, a bad configuration).
    """

    name = "refinement"

    def __init__(
        self,
        agent: Agent,
        *,
        evaluator: Evaluator,
        reviser: Reviser,
        max_drafts: int = 4,
        threshold: float = 0.8,
        options: RefinementOptions | None = None,
    ) -> None:
        check_whole("max_drafts", max_drafts)
        check_share("threshold", threshold)
        self.agent = agent
        self.evaluator = evaluator
        self.reviser = reviser
        self.max_drafts = max_drafts
        self.threshold = threshold
        self.options = options or RefinementOptions()

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the best draft as an attempt; ``metadata["refinement"]`` describes the run."""
        return attempt_of(await self.refine(task, session))

    async def refine(self, task: Task, session: Session | None = None) -> Refined:
        """Write, judge and revise; see the class for what is raised.

        Without a session, a call within another run is charged to that run and its budget.
        """
        scope = current_scope() if session is None else None
        if scope is not None:
            outer, role = scope
            return await _Run(self, task, Session(spend=outer.spend), role).go()
        return await _Run(self, task, session or Session()).go()


def attempt_of(refined: Refined) -> Attempt:
    """Return the best draft as an attempt. Raises the run's error if no retry would fix it."""
    if isinstance(refined.error, HOPELESS) and not isinstance(refined.error, BudgetExceededError):
        raise refined.error
    first = refined.drafts[0].attempt or Attempt()
    best = first if refined.best.output == first.output else first.revised(refined.best.output)
    story = {
        "reason": refined.reason.value,
        "best": refined.best.number,
        "scores": [draft.evaluation.score for draft in refined.drafts],
        "flags": list(refined.flags),
        "problems": list(refined.problems),
    }
    return replace(
        best,
        usage=refined.usage,
        metadata={**first.metadata, "refinement": story},
        seconds=refined.seconds,
    )


class _Failed(Exception):  # noqa: N818 - carries the error out of a phase
    """A phase failed after the first draft."""

    def __init__(self, error: Exception) -> None:
        super().__init__(described(error))
        self.error = error


class _Meter(Spend):
    """Counts what one run of the loop uses, and charges it to the session's own spend, whose limits apply."""

    def __init__(self, whole: Spend) -> None:
        super().__init__()
        self.budget = whole.budget
        self._whole = whole

    def charge(self, role: Role, usage: Usage) -> None:
        super().charge(role, usage)
        self._whole.charge(role, usage)

    def check(self) -> None:
        self._whole.check()

    @contextmanager
    def reserving(self, cost: float) -> Iterator[None]:
        with self._whole.reserving(cost):
            yield

    @property
    def seconds_left(self) -> float | None:
        return self._whole.seconds_left


class _Run:
    def __init__(self, loop: Refinement, task: Task, session: Session, role: Role = "agent") -> None:
        self.loop = loop
        self.options = loop.options
        self.task = task
        self.role: Role = role
        self.spend = _Meter(session.spend)
        self.session = replace(session, spend=self.spend)
        self.drafts: list[Draft] = []
        self.unjudged: Draft | None = None
        self.problems: list[str] = []
        self.counted = NO_USAGE  # the usage of the drafts so far
        self.revision_tokens = 0
        self.note = ""
        self.started = time.monotonic()

    async def go(self) -> Refined:
        error: Exception | None = None
        try:
            reason = await self._improve(await self._write())
        except _Failed as failed:
            error = failed.error
            spent = isinstance(error, BudgetExceededError)
            reason = ConvergenceReason.TOKEN_BUDGET if spent else ConvergenceReason.ERROR
            self.problems.append(described(error))
            if self.unjudged is not None:
                self._add(self.unjudged)
        return await self._finish(reason, error)

    async def _improve(self, attempt: Attempt) -> ConvergenceReason:
        draft = await self._judge(attempt, None, None)
        while True:
            reason = self._stop(draft, await self._decide(draft))
            if reason is not None:
                return reason
            await self._look_into_loss()
            base = self._base()
            revision = await self._revise(base)
            draft = await self._judge(attempt.revised(revision.output), revision, base)

    # -- the phases

    async def _write(self) -> Attempt:
        public = self.task.public()
        session, coach = self.session, None
        if self.options.triggers.any_step and self.options.step_critic is not None:
            coach = Coach(public, self.options.triggers, self.options.step_critic, session)
            session = coach.session()
        attempt = await self.session.spending(self.role, lambda: self.loop.agent(public, session))
        self.unjudged = Draft(1, attempt.output, Evaluation(None), attempt=attempt)
        if coach is not None and coach.error is not None:
            raise _Failed(coach.error) from coach.error
        return attempt

    async def _judge(self, attempt: Attempt, revision: Revision | None, base: Draft | None) -> Draft:
        number = len(self.drafts) + 1
        draft = Draft(
            number=number,
            output=attempt.output,
            evaluation=Evaluation(None),
            revision=revision,
            base=base.number if base else None,
            attempt=attempt,
        )
        self.unjudged = draft
        await self.session.tell(
            DraftWritten,
            number=number,
            output=draft.output,
            base=draft.base,
            strategy=revision.strategy if revision else None,
        )
        hooks = self.options.hooks
        await self._tell(lambda: hooks.on_generation(attempt.output, number))
        if base is not None:
            await self._tell(lambda: hooks.on_revision(base.output, attempt.output, number))
        evaluator = self.loop.evaluator
        if base is not None and isinstance(evaluator, ComparesWithPrior):
            evaluator = evaluator.with_prior(base.output)
        evaluation = await self._phase(lambda: evaluator(self.task, attempt))
        satisfactory = evaluation.meets(self.loop.threshold)
        draft = self._add(replace(draft, evaluation=evaluation, satisfactory=satisfactory))
        await self.session.tell(
            DraftJudged,
            number=number,
            score=evaluation.score,
            satisfactory=satisfactory,
            issues=evaluation.public(self.task.reference).issues,
        )
        return draft

    def _add(self, draft: Draft) -> Draft:
        """Keep a draft with all usage since the one before."""
        used = self.spend.total
        draft = replace(draft, usage=used.beyond(self.counted), at=time.time())
        self.counted, self.unjudged = used, None
        self.drafts.append(draft)
        return draft

    async def _revise(self, base: Draft) -> Revision:
        latest = self.drafts[-1]
        failed = latest.revision.strategy if latest is not base and latest.revision else None
        left = self.options.max_revision_tokens
        request = RevisionRequest(
            draft=self._public(base),
            feedback=base.evaluation.public(self.task.reference),
            history=tuple(map(self._public, self.drafts)),
            failed=failed,
            note=self.note,
            max_tokens=None if left is None else max(left - self.revision_tokens, 1),
        )
        self.note = ""
        before = self.spend.total

        async def revise() -> Revision:
            self.session.spend.check()
            return await self.loop.reviser(self.task.public(), request)

        revision = await self._phase(revise)
        self.problems += revision.problems
        used = self.spend.total.beyond(before)
        known = used.tokens > 0 and not used.unreported
        self.revision_tokens += used.tokens if known else max(used.tokens, estimate_tokens(revision.output))
        return revision

    def _public(self, draft: Draft) -> Draft:
        return replace(draft, evaluation=draft.evaluation.public(self.task.reference))

    async def _look_into_loss(self) -> None:
        """Reflect on a draft whose score dropped (the trigger ``quality_drop``)."""
        least, critic = self.options.triggers.quality_drop, self.options.drop_critic
        if least is None or critic is None or len(self.drafts) < 2:
            return
        old, new = self.drafts[-2:]
        before, after = old.evaluation.score, new.evaluation.score
        if before is None or after is None or round(before - after, 9) < least:
            return
        found = await self._phase(lambda: critic(self.task.public(), new.output, old.output))
        self.note = "\n".join(found.issues) or found.rationale
        await self.session.tell(Reflected, trigger="quality_drop", critique=self.note)

    # -- the decisions

    async def _decide(self, draft: Draft) -> Decision:
        decision = await self._tell(lambda: self.options.hooks.on_judged(draft))
        return decision if isinstance(decision, Decision) else Decision.AUTO

    def _stop(self, draft: Draft, decision: Decision) -> ConvergenceReason | None:
        if decision is Decision.ACCEPT:
            return ConvergenceReason.USER_ACCEPTED
        if decision is Decision.STOP:
            return ConvergenceReason.STOPPED
        if decision is Decision.CONTINUE:
            return self._bound()
        convergence = self.options.convergence
        found = self._verdict(draft) or self._bound()
        return found or (None if convergence is None else convergence.reason(self.drafts))

    def _verdict(self, draft: Draft) -> ConvergenceReason | None:
        if draft.satisfactory:
            return ConvergenceReason.QUALITY_MET
        twice = len(self.drafts) > 1 and not any(d.evaluation.scored for d in self.drafts[-2:])
        return ConvergenceReason.UNSCORABLE if twice else None

    def _bound(self) -> ConvergenceReason | None:
        if len(self.drafts) >= self.loop.max_drafts:
            return ConvergenceReason.MAX_ITERATIONS
        most = self.options.max_revision_tokens
        return ConvergenceReason.TOKEN_BUDGET if most is not None and self.revision_tokens >= most else None

    def _base(self) -> Draft:
        """Return the draft to revise: the best so far, or the latest if the options say so or it is as good."""
        latest = self.drafts[-1]
        if self.options.base == "latest":
            return latest
        best = select(self.drafts, "highest_score")
        return latest if rank(latest) >= rank(best) else best

    # -- around them

    async def _phase(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call in time, charged to the attempt. An error ends the loop with the drafts so far."""
        try:
            with anyio.move_on_after(self.options.timeout):
                return await self.session.spending(self.role, call)
        except Exception as error:
            raise _Failed(error) from error
        raise _Failed(TimeoutError(f"no answer within {self.options.timeout} s"))

    async def _tell(self, call: Callable[[], Awaitable[T]]) -> T | None:
        try:
            with anyio.fail_after(self.options.timeout):
                return await call()
        except Exception as error:  # noqa: BLE001 - it is logged, and reported in the result
            logger.exception("a callback failed in run %s", self.session.id)
            problem = f"a callback failed: {described(error)}"
            self.problems.append(problem)
            await self.session.tell(Warned, message=problem)
            return None

    async def _finish(self, reason: ConvergenceReason, error: Exception | None) -> Refined:
        accepted = reason is ConvergenceReason.USER_ACCEPTED
        best = self.drafts[-1] if accepted else select(self.drafts, self.options.selection)
        await self.session.tell(
            RefinementFinished,
            reason=reason.value,
            drafts=len(self.drafts),
            best=best.number,
            score=best.evaluation.score,
        )
        return Refined(
            drafts=tuple(self.drafts),
            best=best,
            reason=reason,
            usage=self.spend.total,
            seconds=time.monotonic() - self.started,
            flags=judge_flags(self.drafts, self.loop.threshold),
            problems=tuple(self.problems),
            error=error,
        )
