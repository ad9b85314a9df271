"""One run of one task: guards, notes, agent, evaluator, review, and the reflection afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import anyio
from anyio.to_thread import run_sync

from jeeves_reflexion.errors import HOPELESS, described
from jeeves_reflexion.events import AttemptFinished, AttemptStarted, Evaluated, Event, Warned
from jeeves_reflexion.protocols import Agent, ChatModel, Evaluator
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Session, logger, relay
from jeeves_reflexion.tasknotes.reflector import Notes, TaskReflector, prompt_with
from jeeves_reflexion.tasknotes.strategy import ReflectionConfig
from jeeves_reflexion.tasknotes.tasks import (
    EnsembleTask,
    InputGuard,
    OutputGuard,
    ReviewDecision,
    Status,
    TaskOutcome,
    decision_of,
    refusal,
)
from jeeves_reflexion.types import Attempt, Task

THRESHOLD: Final = 0.8
"""The score from which an output is accepted if its evaluator doesn't say ``passed``."""


class Stopped(Exception):  # noqa: N818 - carries the verdict out of a step
    """Ends a task or a phase before it is accepted. The reason of a failure is redacted."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = redact(reason) if status == "failed" else reason


@dataclass(slots=True, eq=False)
class TaskRun:
    """The run of one task: first :meth:`execute`, then :meth:`settle`, once its phase is accepted or rejected.

    ``model`` reflects unless another one is configured; ``context`` are the runs whose outputs the agent gets.
    """

    task: EnsembleTask
    reflection: ReflectionConfig | None
    agent: Agent
    evaluator: Evaluator | None
    model: ChatModel | None
    reflector: TaskReflector
    session: Session
    inputs: Mapping[str, str]
    context: Sequence[TaskRun]
    core: Task = field(init=False)
    outcome: TaskOutcome = field(init=False)
    noting: Session = field(init=False)
    done: anyio.Event = field(default_factory=anyio.Event)
    notes: Notes | None = None

    def __post_init__(self) -> None:
        self.core = self.task.bound(self.inputs)
        self.outcome = TaskOutcome(self.task, "skipped")
        self.noting = self.session.listening(self._hear)

    async def execute(self, *, learn: bool) -> None:
        """Run the task until it is accepted or stopped; with ``learn``, settle it too."""
        missing = next((each for each in self.context if not each.outcome.accepted), None)
        if missing is not None:
            reason = f"task {missing.session.attempt} of its context was not accepted"
            self.outcome = replace(self.outcome, reason=reason)
        else:
            self.outcome = replace(self.outcome, status="accepted")
            try:
                await self._accept()
            except Stopped as stopped:
                self.outcome = replace(self.outcome, status=stopped.status, reason=stopped.reason)
                if stopped.status == "failed":
                    where = (self.session.id, self.session.attempt)
                    logger.warning("run %s, task %d: %s", *where, stopped.reason)
            if learn:
                await self.settle()
        self.done.set()

    async def settle(self) -> None:
        """Note the score of the run beside the task's notes, and reflect if it was accepted."""
        score = _score(self.outcome)
        if score is not None and self.notes is not None:
            await self.reflector.score(self.notes, score, self.noting)
        if self.reflection is None or not self.outcome.accepted:
            return
        reflection = await self.reflector.reflect(
            # As the task defines it, with placeholders, not as this run filled it in.
            replace(self.core, expected_output=self.task.expected_output),
            self.outcome.output,
            config=self.reflection,
            model=self.model,
            session=self.noting,
            evaluation=self.outcome.evaluation,
            attempt=self.outcome.attempt,
        )
        self.outcome = replace(self.outcome, reflection=reflection)

    def reject(self, refused: Stopped) -> None:
        """Take back an acceptance because the review of the phase rejected it or failed."""
        if self.outcome.accepted:
            status, reason = refused.status, refused.reason
            decision = ReviewDecision.reject(reason) if status == "rejected" else None
            self.outcome = replace(self.outcome, status=status, reason=reason, decision=decision)

    # -- the steps, in order

    async def _accept(self) -> None:
        public = self.core.public()
        await self._guard("input", self.task.input_guards, public)
        attempt = await self._attempt(await self._given(public))
        self.outcome = replace(self.outcome, attempt=attempt, output=attempt.output)
        if attempt.error is not None:
            raise Stopped("failed", attempt.error)
        await self._guard("output", self.task.output_guards, public, attempt)

        if (evaluator := self.evaluator) is not None:
            with failing("the evaluator failed"):
                verdict = await self.session.spending("evaluator", lambda: evaluator(self.core, attempt))
            self.outcome = replace(self.outcome, evaluation=verdict)
            passed = verdict.meets(THRESHOLD)
            await self.session.tell(Evaluated, score=verdict.score, passed=passed)
            if not passed:
                reason = "it did not pass" if verdict.scored else "it could not be judged"
                raise Stopped("rejected", f"evaluator: {reason}")

        if self.task.review is not None:
            with failing("the review failed"):
                decision = await decision_of(self.task.review, public, attempt, self.outcome.evaluation)
            self.outcome = replace(self.outcome, decision=decision)
            if decision.verdict == "reject":
                raise Stopped("rejected", f"review: {decision.text}")
            if decision.verdict == "edit":
                self.outcome = replace(self.outcome, output=decision.text)

    async def _guard(
        self,
        side: str,
        guards: Sequence[InputGuard | OutputGuard],
        task: Task,
        attempt: Attempt | None = None,
    ) -> None:
        for guard in guards:
            with failing(f"an {side} guard failed"):
                reason = await refusal(guard, task, attempt)
            if reason is not None:
                raise Stopped("rejected", f"{side} guard: {reason}")

    async def _given(self, task: Task) -> Task:
        """Return the task as the agent gets it: with its notes and the outputs of earlier tasks."""
        notes = None
        if self.reflection is not None:
            self.notes = await self.reflector.recall(task, self.noting)
            notes = self.notes.reflection
            self.outcome = replace(self.outcome, notes=notes, version=self.notes.version)
        if not self.context and (notes is None or not notes.complete):
            return task
        context = [(each.core.prompt, each.outcome.output) for each in self.context]
        inputs = {**self.task.inputs, **self.inputs}
        prompt = await run_sync(partial(prompt_with, task, notes, context=context, inputs=inputs))
        return replace(task, prompt=prompt, template=None, expected_output=None, id=task.id)

    async def _attempt(self, task: Task) -> Attempt:
        session = self.session.for_attempt(self.session.attempt, {})
        session.spend.check()
        await session.tell(AttemptStarted, max_attempts=1)
        started = time.monotonic()
        try:
            attempt = await session.spending("agent", lambda: self.agent(task, session))
        except HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001 - becomes the attempt's error
            problem = f"the agent failed: {described(error)}"
            attempt = Attempt(error=problem, seconds=time.monotonic() - started)
        await session.emit(AttemptFinished.of(attempt, run_id=session.id, attempt=session.attempt))
        return attempt

    async def _hear(self, event: Event) -> None:
        """Pass on the events about the notes, and keep their warnings as problems of the task."""
        if isinstance(event, Warned):
            self.outcome = replace(self.outcome, problems=(*self.outcome.problems, redact(event.message)))
        await relay(self.session, event)


@contextlib.contextmanager
def failing(what: str) -> Iterator[None]:
    """Turn an error of a step into a failure of the task, unless another run would meet the error too."""
    try:
        yield
    except HOPELESS:
        raise
    except Exception as error:
        raise Stopped("failed", f"{what}: {described(error)}") from error


def _score(outcome: TaskOutcome) -> float | None:
    """Return the score of a run for its notes; None if the run says nothing about them, as after a failure.

    It is the evaluator's score, unless a guard or a review refused the output afterwards.
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
