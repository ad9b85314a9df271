"""One run of one task: guards, notes, agent, verdict, review, and what is learned of it afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from jeeves_reflexion.agents.function import as_agent
from jeeves_reflexion.agents.react import ReAct
from jeeves_reflexion.errors import HOPELESS, ConfigurationError, described
from jeeves_reflexion.evaluators import Judge, as_evaluator
from jeeves_reflexion.events import AttemptFinished, AttemptStarted, Evaluated, LessonsRecalled
from jeeves_reflexion.lessons.injection import render
from jeeves_reflexion.protocols import Agent, ChatModel, Evaluator, LessonStore
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.tasknotes.config import ReflectionConfig
from jeeves_reflexion.tasknotes.gates import InputGuard, OutputGuard, ReviewDecision, ReviewGate, refusal
from jeeves_reflexion.tasknotes.injection import NOTES_TOKENS, prompt_with, with_prompt
from jeeves_reflexion.tasknotes.reflector import Notes, TaskReflector
from jeeves_reflexion.tasknotes.tasks import EnsembleTask, Status, TaskOutcome
from jeeves_reflexion.types import Attempt, Evaluation, Recall, Task
from jeeves_reflexion.values import checked_settings

LESSONS_BLOCK = "reflexion_lessons"

AnyAgent: TypeAlias = ChatModel | Callable[..., Any]


@dataclass(frozen=True, slots=True)
@checked_settings
class EnsembleOptions:
    """What holds for every task of an ensemble, beside the task's own.

    ``review`` is for tasks without one of their own. ``lesson_store`` recalls ``top_k_lessons`` lessons for each task,
    beside its notes and without repeating them. ``notes_tokens`` bounds the notes in a prompt. An evaluator's score
    from ``threshold`` on is accepted where it doesn't say ``passed`` itself. The times bound one call of the store and
    of the reflection.
    """

    input_guards: Sequence[InputGuard] = ()
    output_guards: Sequence[OutputGuard] = ()
    review: ReviewGate | None = None
    lesson_store: LessonStore | None = None
    top_k_lessons: int = 3
    threshold: float = 0.8
    notes_tokens: int = NOTES_TOKENS
    store_seconds: float = 30.0
    reflection_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise ConfigurationError(f"threshold must lie in [0, 1], not {self.threshold!r}")
        for name in ("top_k_lessons", "notes_tokens", "store_seconds", "reflection_seconds"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be above 0, not {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class Staff:
    """Who works on a task: its own agent and evaluator, else the ensemble's, else made of the model."""

    agent: AnyAgent | None
    evaluator: AnyAgent | None
    model: ChatModel | None

    def agent_of(self, task: EnsembleTask) -> Agent:
        """Return the agent; raises :class:`ConfigurationError` if there is nobody."""
        chosen = task.agent or self.agent or self.model
        if chosen is None:
            raise ConfigurationError("no agent: pass model= or agent= to the ensemble, or agent= to the task")
        return ReAct(chosen) if isinstance(chosen, ChatModel) else as_agent(chosen)

    def evaluator_of(self, task: EnsembleTask) -> Evaluator | None:
        """Return the evaluator, or None where nobody judges."""
        chosen = task.evaluator or self.evaluator
        if chosen is None:
            return None
        if isinstance(chosen, ChatModel):
            return Judge(chosen)
        return chosen if isinstance(chosen, Judge) else as_evaluator(chosen)

    def model_of(self, task: EnsembleTask) -> ChatModel | None:
        """Return the model that reflects unless another is configured: the task's, else the ensemble's."""
        for chosen in (task.agent, self.agent):
            found = chosen if isinstance(chosen, ChatModel) else getattr(chosen, "model", None)
            if isinstance(found, ChatModel):
                return found
        return self.model


class _Stopped(Exception):  # noqa: N818 - carries the outcome out of a step
    def __init__(self, outcome: TaskOutcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


@dataclass(slots=True)
class TaskRun:
    """The state of one run of one task: :meth:`execute`, then :meth:`settle` once its phase is decided on."""

    task: EnsembleTask
    core: Task
    reflection: ReflectionConfig | None
    staff: Staff
    options: EnsembleOptions
    reflector: TaskReflector
    session: Session
    context: Sequence[tuple[str, str]] = ()
    advice: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    notes: Notes | None = None
    recall: Recall | None = None
    problems: list[str] = field(default_factory=list)

    async def execute(self) -> TaskOutcome:
        """Run the task up to its acceptance, or to what stands in its way."""
        try:
            outcome = await self._accepted()
        except _Stopped as stopped:
            outcome = stopped.outcome
        if outcome.status == "failed":
            logger.warning(
                "run %s, task %d: %s", self.session.id, self.session.attempt, redact(outcome.reason)
            )
        return self._told(outcome)

    async def settle(self, outcome: TaskOutcome) -> TaskOutcome:
        """Note what the run says of its notes, and reflect if it was accepted; return it with what came of that."""
        await self._credit(outcome)
        if self.reflection is None or not outcome.accepted:
            return self._told(outcome)
        reflection, problem = await self.reflector.reflect(
            # As it is defined, with its placeholders, and not as this run filled it in.
            replace(self.core, expected_output=self.task.expected_output),
            outcome.output,
            config=self.reflection,
            model=self.staff.model_of(self.task),
            session=self.session,
            evaluation=outcome.evaluation,
            attempt=outcome.attempt,
        )
        self._problem(problem)
        return self._told(replace(outcome, reflection=reflection))

    # -- the steps, in order

    async def _accepted(self) -> TaskOutcome:
        public = self.core.public()
        await self._guard((*self.options.input_guards, *self.task.input_guards), public, None)
        attempt = await self._attempt(await self._given(public))
        await self._guard((*self.options.output_guards, *self.task.output_guards), public, attempt)
        evaluation = await self._judged(attempt)
        decision = await self._reviewed(public, attempt, evaluation)
        output = decision.text if decision is not None and decision.verdict == "edit" else attempt.output
        return TaskOutcome(
            self.task, "accepted", output, attempt=attempt, evaluation=evaluation, decision=decision
        )

    async def _guard(
        self, guards: Sequence[InputGuard | OutputGuard], task: Task, attempt: Attempt | None
    ) -> None:
        side = "input" if attempt is None else "output"
        for guard in guards:
            try:
                reason = await refusal(guard, task, attempt)
            except HOPELESS:
                raise
            except Exception as error:
                raise self._stop("failed", _said(f"an {side} guard failed", error), attempt) from error
            if reason is not None:
                raise self._stop("rejected", f"{side} guard: {reason}", attempt)

    async def _given(self, task: Task) -> Task:
        """Return the task as the agent gets it: with notes, lessons and outputs of earlier tasks."""
        said = await self._lessons()
        reflection = None
        if self.reflection is not None:
            self.notes = await self.reflector.recall(task, self.session)
            self._problem(self.notes.problem)
            reflection = self.notes.reflection
        context = [*self.context, *([("Review of the earlier run", self.advice)] if self.advice else [])]
        if not context and (reflection is None or not reflection.complete):
            return task
        prompt = prompt_with(
            task,
            reflection,
            context=context,
            max_tokens=self.options.notes_tokens,
            said=said,
            inputs={**self.task.inputs, **self.inputs},
        )
        return with_prompt(task, prompt)

    async def _lessons(self) -> tuple[str, ...]:
        store = self.options.lesson_store
        if store is None:
            return ()
        try:
            self.recall = await store.recall(self.core.public(), k=self.options.top_k_lessons)
        except HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001 - told; an attempt without lessons is still one
            self._problem(await self.reflector.warn(self.session, "no lessons could be recalled", error))
            return ()
        await self.session.emit(
            LessonsRecalled(
                run_id=self.session.id,
                attempt=self.session.attempt,
                recall_id=self.recall.id,
                n_recalled=len(self.recall.texts),
                lessons=self.recall.texts,
                n_withheld=len(self.recall.withheld),
            )
        )
        self.session = self.session.for_attempt(
            self.session.attempt, {LESSONS_BLOCK: render([item.lesson for item in self.recall.offered])}
        )
        return self.recall.texts

    async def _attempt(self, task: Task) -> Attempt:
        agent = self.staff.agent_of(self.task)
        number = self.session.attempt
        self.session.spend.check()
        await self.session.emit(AttemptStarted(run_id=self.session.id, attempt=number, max_attempts=1))
        started = time.monotonic()
        try:
            attempt = await self.session.spending("agent", lambda: agent(task, self.session))
        except HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001 - becomes the attempt's error
            attempt = Attempt(error=_said("the agent failed", error), seconds=time.monotonic() - started)
        await self.session.emit(
            AttemptFinished(
                run_id=self.session.id,
                attempt=number,
                output=attempt.output,
                n_steps=len(attempt.steps),
                error=attempt.error,
                interrupted=attempt.interrupted,
            )
        )
        if attempt.error is not None:
            raise self._stop("failed", attempt.error, attempt)
        return attempt

    async def _judged(self, attempt: Attempt) -> Evaluation | None:
        evaluator = self.staff.evaluator_of(self.task)
        if evaluator is None:
            return None
        try:
            evaluation = await self.session.spending("evaluator", lambda: evaluator(self.core, attempt))
        except HOPELESS:
            raise
        except Exception as error:
            raise self._stop("failed", _said("the evaluator failed", error), attempt) from error
        passed = evaluation.meets(self.options.threshold)
        await self.session.emit(
            Evaluated(
                run_id=self.session.id, attempt=self.session.attempt, score=evaluation.score, passed=passed
            )
        )
        if not passed:
            reason = "it did not pass" if evaluation.scored else "it could not be judged"
            raise self._stop("rejected", f"evaluator: {reason}", attempt, evaluation)
        return evaluation

    async def _reviewed(
        self, task: Task, attempt: Attempt, evaluation: Evaluation | None
    ) -> ReviewDecision | None:
        gate = self.task.review or self.options.review
        if gate is None:
            return None
        try:
            decision = await gate.decide(task, attempt, evaluation)
        except HOPELESS:
            raise
        except Exception as error:
            raise self._stop("failed", _said("the review failed", error), attempt, evaluation) from error
        if decision.verdict == "reject":
            stopped = self._stop("rejected", f"review: {decision.text}", attempt, evaluation)
            stopped.outcome = replace(stopped.outcome, decision=decision)
            raise stopped
        return decision

    # -- what the run says of what it was given

    async def _credit(self, outcome: TaskOutcome) -> None:
        """Note how the run went: beside the version of its notes, and beside the lessons that it was given."""
        score = _score(outcome)
        if score is not None and self.notes is not None:
            self._problem(await self.reflector.score(self.notes, score, self.session))
        store = self.options.lesson_store
        if store is None or self.recall is None or outcome.evaluation is None:
            return
        try:
            await store.outcome(self.recall.id, outcome.evaluation)
        except Exception as error:  # noqa: BLE001 - told; the task went as it went
            self._problem(
                await self.reflector.warn(self.session, "the outcome of a recall could not be noted", error)
            )

    def _stop(
        self,
        status: Status,
        reason: str,
        attempt: Attempt | None,
        evaluation: Evaluation | None = None,
    ) -> _Stopped:
        output = "" if attempt is None else attempt.output
        return _Stopped(TaskOutcome(self.task, status, output, reason, attempt, evaluation))

    def _problem(self, problem: str) -> None:
        if problem:
            self.problems.append(problem)

    def _told(self, outcome: TaskOutcome) -> TaskOutcome:
        notes = self.notes
        return replace(
            outcome,
            notes=None if notes is None else notes.reflection,
            version=None if notes is None else notes.version,
            problems=tuple(self.problems),
        )


def _score(outcome: TaskOutcome) -> float | None:
    """Return what a run says of its notes; None where it says nothing, since somebody else failed.

    The evaluator's score, unless a guard or a review refused what it had let pass.
    """
    if outcome.status == "failed" or outcome.attempt is None:
        return None
    verdict = outcome.evaluation
    if outcome.accepted:
        return 1.0 if verdict is None or verdict.score is None else verdict.score
    if verdict is not None and outcome.decision is None:
        if verdict.score is not None:
            return verdict.score
        return 0.0 if verdict.passed is False else None
    return 0.0


def _said(what: str, error: Exception) -> str:
    return f"{what}: {described(error)}"
