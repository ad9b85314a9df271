"""The inner loop: write, judge and revise drafts within one attempt, until one is good or more work won't help.

It is an agent itself, so ``Reflexion(Refinement(ReAct(...)))`` nests. The reflection pattern
(:mod:`jeeves_reflexion.refinement.pattern`) and the YAML actions of a workflow use it too. :class:`_Run` holds all
state of a run, so one object serves many runs at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import anyio

from jeeves_reflexion.drafts import ConvergenceReason, Draft, Refined, Revision, RevisionRequest
from jeeves_reflexion.errors import HOPELESS, BudgetExceededError, described
from jeeves_reflexion.events import DraftJudged, DraftWritten, RefinementFinished, Reflected, Warned
from jeeves_reflexion.protocols import Agent, Evaluator, Reviser
from jeeves_reflexion.refinement.convergence import judge_flags, rank, select
from jeeves_reflexion.refinement.critics import Coach
from jeeves_reflexion.refinement.options import ComparesWithPrior, Decision, RefinementOptions
from jeeves_reflexion.session import Session, Spend, current_scope, log_failure
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
        self.max_drafts = check_whole("max_drafts", max_drafts)
        self.threshold = check_share("threshold", threshold)
        self.agent = agent
        self.evaluator = evaluator
        self.reviser = reviser
        self.options = options or RefinementOptions()

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the best draft as an attempt; ``metadata["refinement"]`` describes the run."""
        return attempt_of(await self.refine(task, session))

    async def refine(self, task: Task, session: Session | None = None) -> Refined:
        """Write, judge and revise; see the class for what is raised.

        Without a session, a call within another run is charged to that run and its budget.
        """
        role: Role = "agent"
        if session is None and (scope := current_scope()) is not None:
            outer, role = scope
            session = Session(spend=outer.spend)
        session = session or Session()
        # Runs may share a session, and each reports what it used itself.
        counted = replace(session, spend=Spend(within=session.spend))
        return await _Run(self, task, counted, role).go()


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
    """A phase failed after the first draft, with the error that is the argument."""


@dataclass(eq=False, slots=True)
class _Run:
    loop: Refinement
    task: Task
    session: Session
    role: Role
    drafts: list[Draft] = field(default_factory=list)
    unjudged: Draft | None = None
    problems: list[str] = field(default_factory=list)
    counted: Usage = NO_USAGE  # the usage of the drafts so far
    revision_tokens: int = 0
    note: str = ""

    async def go(self) -> Refined:
        started = time.monotonic()
        error: Exception | None = None
        try:
            reason = await self._improve()
        except _Failed as failed:
            error = failed.args[0]
            spent = isinstance(error, BudgetExceededError)
            reason = ConvergenceReason.TOKEN_BUDGET if spent else ConvergenceReason.ERROR
            self.problems.append(described(failed.args[0]))
            if self.unjudged is not None:
                self._keep(self.unjudged)
        accepted = reason is ConvergenceReason.USER_ACCEPTED
        best = self.drafts[-1] if accepted else select(self.drafts, self.loop.options.selection)
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
            usage=self.session.spend.total,
            seconds=time.monotonic() - started,
            flags=judge_flags(self.drafts, self.loop.threshold),
            problems=tuple(self.problems),
            error=error,
        )

    async def _improve(self) -> ConvergenceReason:
        """Write a draft, then judge and revise until there is a reason to stop."""
        options, public, session, coach = self.loop.options, self.task.public(), self.session, None
        if options.triggers.any_step and options.step_critic is not None:
            coach = Coach(public, options.triggers, options.step_critic, session)
            session = coach.session
        attempt = await self.session.spending(self.role, lambda: self.loop.agent(public, session))
        self.unjudged = Draft(1, attempt.output, Evaluation(None), attempt=attempt)
        if coach is not None and coach.error is not None:
            raise _Failed(coach.error) from coach.error

        draft = await self._judge(attempt, None, None)
        while (reason := await self._reason_to_stop(draft)) is None:
            await self._look_into_loss()
            base = draft
            if options.base == "best":
                best = select(self.drafts, "highest_score")
                base = draft if rank(draft) >= rank(best) else best
            revision = await self._revise(base)
            draft = await self._judge(attempt.revised(revision.output), revision, base)
        return reason

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
        hooks = self.loop.options.hooks
        await self._ask_hook(lambda: hooks.on_generation(attempt.output, number))
        if base is not None:
            await self._ask_hook(lambda: hooks.on_revision(base.output, attempt.output, number))
        evaluator = self.loop.evaluator
        if base is not None and isinstance(evaluator, ComparesWithPrior):
            evaluator = evaluator.with_prior(base.output)
        evaluation = await self._phase(lambda: evaluator(self.task, attempt))
        satisfactory = evaluation.meets(self.loop.threshold)
        draft = self._keep(replace(draft, evaluation=evaluation, satisfactory=satisfactory))
        await self.session.tell(
            DraftJudged,
            number=number,
            score=evaluation.score,
            satisfactory=satisfactory,
            issues=evaluation.public(self.task.reference).issues,
        )
        return draft

    def _keep(self, draft: Draft) -> Draft:
        """Keep a draft with all usage since the one before."""
        used = self.session.spend.total
        draft = replace(draft, usage=used.beyond(self.counted), at=time.time())
        self.counted, self.unjudged = used, None
        self.drafts.append(draft)
        return draft

    async def _reason_to_stop(self, draft: Draft) -> ConvergenceReason | None:
        most, convergence = self.loop.options.max_revision_tokens, self.loop.options.convergence
        unscored = len(self.drafts) > 1 and not any(each.evaluation.scored for each in self.drafts[-2:])
        decision = await self._ask_hook(lambda: self.loop.options.hooks.on_judged(draft))
        goes_on = decision is Decision.CONTINUE  # within the bounds
        reason: ConvergenceReason | None = None
        if decision is Decision.ACCEPT:
            reason = ConvergenceReason.USER_ACCEPTED
        elif decision is Decision.STOP:
            reason = ConvergenceReason.STOPPED
        elif draft.satisfactory and not goes_on:
            reason = ConvergenceReason.QUALITY_MET
        elif unscored and not goes_on:
            reason = ConvergenceReason.UNSCORABLE
        elif len(self.drafts) >= self.loop.max_drafts:
            reason = ConvergenceReason.MAX_ITERATIONS
        elif most is not None and self.revision_tokens >= most:
            reason = ConvergenceReason.TOKEN_BUDGET
        elif convergence is not None and not goes_on:
            reason = convergence.reason(self.drafts)
        return reason

    async def _look_into_loss(self) -> None:
        """Reflect on a draft whose score dropped (the trigger ``quality_drop``)."""
        least, critic = self.loop.options.triggers.quality_drop, self.loop.options.drop_critic
        if least is None or critic is None or len(self.drafts) < 2:
            return
        old, new = self.drafts[-2:]
        before, after = old.evaluation.score, new.evaluation.score
        if before is None or after is None or round(before - after, 9) < least:
            return
        found = await self._phase(lambda: critic(self.task.public(), new.output, old.output))
        self.note = "\n".join(found.issues) or found.rationale
        await self.session.tell(Reflected, trigger="quality_drop", critique=self.note)

    async def _revise(self, base: Draft) -> Revision:
        latest, reference = self.drafts[-1], self.task.reference
        public = {d.number: replace(d, evaluation=d.evaluation.public(reference)) for d in self.drafts}
        left = self.loop.options.max_revision_tokens
        request = RevisionRequest(
            draft=public[base.number],
            feedback=public[base.number].evaluation,
            history=tuple(public.values()),
            failed=latest.revision.strategy if latest is not base and latest.revision else None,
            note=self.note,
            max_tokens=None if left is None else max(left - self.revision_tokens, 1),
        )
        self.note = ""
        before = self.session.spend.total

        async def revise() -> Revision:
            self.session.spend.check()
            return await self.loop.reviser(self.task.public(), request)

        revision = await self._phase(revise)
        self.problems += revision.problems
        used = self.session.spend.total.beyond(before)
        known = used.tokens > 0 and not used.unreported
        self.revision_tokens += used.tokens if known else max(used.tokens, estimate_tokens(revision.output))
        return revision

    async def _phase(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call in time, charged to the attempt. An error ends the loop with the drafts so far."""
        try:
            with anyio.move_on_after(self.loop.options.timeout):
                return await self.session.spending(self.role, call)
        except Exception as error:
            raise _Failed(error) from error
        raise _Failed(TimeoutError(f"no answer within {self.loop.options.timeout} s"))

    async def _ask_hook(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Return what a hook answers; None if it fails, which is a problem of the run."""
        try:
            with anyio.fail_after(self.loop.options.timeout):
                return await call()
        except Exception as error:  # noqa: BLE001 - it is logged, and reported in the result
            await log_failure(error, "a callback failed in run %s", self.session.id)
            problem = f"a callback failed: {described(error)}"
            self.problems.append(problem)
            await self.session.tell(Warned, message=problem)
            return None
