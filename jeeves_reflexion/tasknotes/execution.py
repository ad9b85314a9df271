"""One run of one task: guards, notes, agent, verdict, review, and what is learned of it afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from jeeves_reflexion.errors import HOPELESS, ConfigurationError, described, programming_error
from jeeves_reflexion.events import AttemptFinished, AttemptStarted, Evaluated, LessonsRecalled
from jeeves_reflexion.protocols import Agent, ChatModel, Evaluator, LessonStore
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.tasknotes.gate import render
from jeeves_reflexion.tasknotes.guards import InputGuard, OutputGuard, ReviewDecision, ReviewGate, refusal
from jeeves_reflexion.tasknotes.injection import NOTES_TOKENS, prompt_with, with_prompt
from jeeves_reflexion.tasknotes.reflector import REFLECTION_SECONDS, STORE_SECONDS, Notes, TaskReflector
from jeeves_reflexion.tasknotes.strategy import ReflectionConfig
from jeeves_reflexion.tasknotes.tasks import EnsembleTask, Status, TaskOutcome
from jeeves_reflexion.types import Attempt, Recall, Task
from jeeves_reflexion.values import checked_settings

LESSONS_BLOCK = "reflexion_lessons"


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
    store_seconds: float = STORE_SECONDS
    reflection_seconds: float = REFLECTION_SECONDS

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise ConfigurationError(f"threshold must lie in [0, 1], not {self.threshold!r}")
        for name in ("top_k_lessons", "notes_tokens", "store_seconds", "reflection_seconds"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be above 0, not {getattr(self, name)!r}")


class _Stopped(Exception):  # noqa: N818 - carries the verdict out of a step
    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(slots=True, eq=False)
class TaskRun:
    """The run of one task: :meth:`execute`, then :meth:`settle` once its phase is decided on."""

    task: EnsembleTask
    core: Task
    reflection: ReflectionConfig | None
    agent: Agent
    evaluator: Evaluator | None
    model: ChatModel | None
    """The one that reflects unless another is configured."""
    options: EnsembleOptions
    reflector: TaskReflector
    session: Session
    inputs: Mapping[str, str]
    outcome: TaskOutcome
    done: anyio.Event = field(default_factory=anyio.Event)
    bug: Exception | None = None
    """A programming error of the agent, which no other run would mend."""
    notes: Notes | None = None
    recall: Recall | None = None
    blocks: Mapping[str, str] = field(default_factory=dict)

    async def execute(self, context: Sequence[tuple[str, str]], advice: str = "") -> None:
        """Run the task up to its acceptance, or to what stands in its way.

        ``context`` holds descriptions and outputs of tasks before it, ``advice`` what a review of its phase said.
        """
        self.outcome = TaskOutcome(self.task, "accepted")
        self.bug, self.notes, self.recall, self.blocks = None, None, None, {}
        if advice:
            context = [*context, ("Review of the earlier run", advice)]
        try:
            await self._accept(context)
        except _Stopped as stopped:
            self.outcome = replace(self.outcome, status=stopped.status, reason=stopped.reason)
        if self.outcome.status == "failed":
            reason = redact(self.outcome.reason)
            logger.warning("run %s, task %d: %s", self.session.id, self.session.attempt, reason)

    async def settle(self) -> None:
        """Note what the run says of its notes, and reflect if it was accepted."""
        await self._credit()
        outcome = self.outcome
        if self.reflection is None or not outcome.accepted:
            return
        reflection, problem = await self.reflector.reflect(
            # As it is defined, with its placeholders, and not as this run filled it in.
            replace(self.core, expected_output=self.task.expected_output),
            outcome.output,
            config=self.reflection,
            model=self.model,
            session=self.session,
            evaluation=outcome.evaluation,
            attempt=outcome.attempt,
        )
        self.outcome = replace(outcome, reflection=reflection)
        self._tell(problem)

    # -- the steps, in order

    async def _accept(self, context: Sequence[tuple[str, str]]) -> None:
        public = self.core.public()
        await self._guard("input", (*self.options.input_guards, *self.task.input_guards), public)
        attempt = await self._attempt(await self._given(public, context))
        self.outcome = replace(self.outcome, attempt=attempt, output=attempt.output)
        if attempt.error is not None:
            raise _Stopped("failed", attempt.error)
        await self._guard("output", (*self.options.output_guards, *self.task.output_guards), public, attempt)
        await self._evaluate(attempt)
        await self._review(public, attempt)

    async def _guard(
        self,
        side: str,
        guards: Sequence[InputGuard | OutputGuard],
        task: Task,
        attempt: Attempt | None = None,
    ) -> None:
        for guard in guards:
            with _failing(f"an {side} guard failed"):
                reason = await refusal(guard, task, attempt)
            if reason is not None:
                raise _Stopped("rejected", f"{side} guard: {reason}")

    async def _given(self, task: Task, context: Sequence[tuple[str, str]]) -> Task:
        """Return the task as the agent gets it: with notes, lessons and outputs of earlier tasks."""
        said = await self._lessons()
        reflection = None
        if self.reflection is not None:
            self.notes = await self.reflector.recall(task, self.session)
            reflection = self.notes.reflection
            self.outcome = replace(self.outcome, notes=reflection, version=self.notes.version)
            self._tell(self.notes.problem)
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
            self._tell(await self.reflector.warn(self.session, "no lessons could be recalled", error))
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
        self.blocks = {LESSONS_BLOCK: render([item.lesson for item in self.recall.offered])}
        return self.recall.texts

    async def _attempt(self, task: Task) -> Attempt:
        number = self.session.attempt
        session = self.session.for_attempt(number, self.blocks)
        self.session.spend.check()
        await self.session.emit(AttemptStarted(run_id=self.session.id, attempt=number, max_attempts=1))
        started = time.monotonic()
        try:
            attempt = await self.session.spending("agent", lambda: self.agent(task, session))
        except HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001 - becomes the attempt's error
            self.bug = programming_error(error)
            said = f"the agent failed: {described(error)}"
            attempt = Attempt(error=said, seconds=time.monotonic() - started)
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
        return attempt

    async def _evaluate(self, attempt: Attempt) -> None:
        evaluator = self.evaluator
        if evaluator is None:
            return
        with _failing("the evaluator failed"):
            evaluation = await self.session.spending("evaluator", lambda: evaluator(self.core, attempt))
        self.outcome = replace(self.outcome, evaluation=evaluation)
        passed = evaluation.meets(self.options.threshold)
        await self.session.emit(
            Evaluated(
                run_id=self.session.id, attempt=self.session.attempt, score=evaluation.score, passed=passed
            )
        )
        if not passed:
            reason = "it did not pass" if evaluation.scored else "it could not be judged"
            raise _Stopped("rejected", f"evaluator: {reason}")

    async def _review(self, task: Task, attempt: Attempt) -> None:
        gate = self.task.review or self.options.review
        if gate is None:
            return
        with _failing("the review failed"):
            decision = await gate.decide(task, attempt, self.outcome.evaluation)
        self.outcome = replace(self.outcome, decision=decision)
        if decision.verdict == "reject":
            raise _Stopped("rejected", f"review: {decision.text}")
        if decision.verdict == "edit":
            self.outcome = replace(self.outcome, output=decision.text)

    # -- what the run says of what it was given

    async def _credit(self) -> None:
        """Note how the run went: beside the version of its notes, and beside the lessons that it was given."""
        score = _score(self.outcome)
        if score is not None and self.notes is not None:
            self._tell(await self.reflector.score(self.notes, score, self.session))
        store, evaluation = self.options.lesson_store, self.outcome.evaluation
        if store is None or self.recall is None or evaluation is None:
            return
        try:
            await store.outcome(self.recall.id, evaluation)
        except Exception as error:  # noqa: BLE001 - told; the task went as it went
            what = "the outcome of a recall could not be noted"
            self._tell(await self.reflector.warn(self.session, what, error))

    def _tell(self, problem: str) -> None:
        if problem:
            self.outcome = replace(self.outcome, problems=(*self.outcome.problems, problem))

    def reject(self, reason: str, *, status: Status = "rejected") -> None:
        """Take back an acceptance, since the review of the whole phase refused it or broke."""
        if self.outcome.accepted:
            decision = ReviewDecision.reject(reason) if status == "rejected" else None
            self.outcome = replace(self.outcome, status=status, reason=reason, decision=decision)


@contextlib.contextmanager
def _failing(what: str) -> Iterator[None]:
    """Have what a step raises fail the task, unless no other run would mend it."""
    try:
        yield
    except HOPELESS:
        raise
    except Exception as error:
        raise _Stopped("failed", f"{what}: {described(error)}") from error


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
