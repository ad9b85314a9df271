"""Reflexion: an agent tries a task, is judged, writes down a lesson, and tries again with the lesson in its prompt.

Shinn et al. 2023, "Reflexion: Language Agents with Verbal Reinforcement Learning", arXiv 2303.11366. One turn is::

    recall -> attempt -> evaluate -> note the outcome -> reflect -> store the lesson -> stop, or the next turn

There are two ways to remember. With a lesson store (recommended), lessons are embedded chunks, and each attempt sees
the few that are nearest to its task. Without one, each lesson is appended to a block of text that attempts see whole.

Learning comes before stopping: the last attempt leaves a lesson too, and so does one that ran out of turns or raised.
Only the caller's cancellation and an exhausted budget end a run without a lesson.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

from jeeves_reflexion import errors, events, telemetry
from jeeves_reflexion.callables import aside, run_alone
from jeeves_reflexion.callables import run as run_callable
from jeeves_reflexion.lessons.gate import lesson_from
from jeeves_reflexion.lessons.injection import render
from jeeves_reflexion.lessons.memory import lesson_of_line, read_block, with_reflection
from jeeves_reflexion.lessons.settings import check_of
from jeeves_reflexion.loop import factory
from jeeves_reflexion.loop.outcome import failure, finish, warn
from jeeves_reflexion.loop.presets import preset_of
from jeeves_reflexion.loop.stream import EventStream, run_streaming
from jeeves_reflexion.loop.trace import traced
from jeeves_reflexion.protocols import Evaluator, Memory
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.library import ReflectionLibrary
from jeeves_reflexion.reflections.policy import required_form
from jeeves_reflexion.session import STORE_GRACE, Listener, Session, Spend, redacting
from jeeves_reflexion.types import (
    Attempt,
    Evaluation,
    Provenance,
    Recall,
    RunResult,
    StopReason,
    T,
    Task,
    Trial,
)
from jeeves_reflexion.values import check_share, check_whole


class Reflexion(Generic[T]):
    """Wraps a base agent with an evaluator, a reflector and a lesson memory.

    ``base`` is an agent or any callable; by default a ReAct over ``model``. ``evaluator`` and ``reflector`` are each
    a model (with an optional prompt), any callable, or by default ``model`` itself. A model is a ``ChatModel`` or the
    name of one (``"openai:gpt-4o-mini"``). The type of the output is the agent's: ``Reflexion[Answer](agent)``.
    ``verbose=True`` prints what happens to stderr. ``lesson_store``, a store or an address as for ``open_lessons``
    (namespace ``default``), turns on selective recall of ``top_k_lessons``; without it lessons are appended to a block
    of ``memory``. By default there are 3 attempts and 5 lessons; ``preset="structured_reflections"``, which asks for
    whole forms (``presets.py``), has other defaults. Raises ``ConfigurationError`` (a ``ValueError``) that names any
    argument that can't work.
    """

    name = "reflexion"

    def __init__(  # noqa: PLR0913 - each is a part that users choose
        self,
        base: factory.AgentLike | None = None,
        *,
        model: factory.ModelLike | None = None,
        evaluator: factory.ModelLike | factory.EvaluatorLike | None = None,
        reflector: factory.ModelLike | factory.ReflectorLike | None = None,
        lesson_store: factory.LessonsLike | None = None,
        max_attempts: int | None = None,
        threshold: float = 0.8,
        top_k_lessons: int | None = None,
        lessons_block_name: str = "reflexion_lessons",
        evaluator_prompt: str | Path | None = None,
        reflector_prompt: str | Path | None = None,
        memory: Memory | None = None,
        options: factory.LoopOptions | None = None,
        preset: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.preset = preset_of(preset)
        attempts = self.preset.max_attempts if max_attempts is None else max_attempts
        lessons = self.preset.top_k_lessons if top_k_lessons is None else top_k_lessons
        self.max_attempts = check_whole("max_attempts", attempts)
        self.top_k_lessons = check_whole("top_k_lessons", lessons)
        self.threshold = check_share("threshold", threshold)
        if not (isinstance(lessons_block_name, str) and lessons_block_name.strip()):
            raise errors.ConfigurationError(f"lessons_block_name must have words, not {lessons_block_name!r}")
        model = factory.model_of(model)
        structured = self.preset.structured or isinstance(lesson_store, ReflectionLibrary)
        self.agent = factory.agent_of(base, model)
        self.reset: Callable[..., object] | None = getattr(self.agent, "reset", None)
        self.evaluator: Evaluator = factory.evaluator_of(evaluator, model, evaluator_prompt)
        self.reflector = factory.reflector_of(reflector, model, reflector_prompt, structured=structured)
        self.lessons, self.memory = factory.stores_of(lesson_store, memory)
        self.lessons_block_name = lessons_block_name
        self.options = options or factory.LoopOptions()
        self.verbose = verbose
        names = (getattr(each, "name", None) for each in (model, getattr(self.agent, "model", None)))
        self._model_name: str | None = next(filter(None, names), None)
        self._agent_name = str(getattr(self.agent, "name", None) or type(self.agent).__name__)

    # -- a run ---------------------------------------------------------------------------------------------------

    def session(self, *, listener: Listener | None = None) -> Session:
        """Return a fresh session with this loop's budget; its clock starts now."""
        return Session(spend=Spend(self.options.budget), listener=listener)

    @telemetry.operation("invoke_workflow")
    async def run(self, task: Task | str, *, session: Session | None = None) -> RunResult[T]:
        """Try the task until an attempt passes or another reason to stop arises, and return all trials.

        With the preset and a library of reflections, raises ``ReflectionOwedError`` while the agent owes a reflection.
        """
        task, session = factory.checked_task(task), session or self.session()
        session = redacting(traced(session) if self.verbose else session).at(0)
        policy = None
        if self.options.learn and self.preset.structured and isinstance(self.lessons, ReflectionLibrary):
            policy = self.lessons.policy
            await policy.require(self._agent_name)
        started, before = time.monotonic(), session.spend.by_role()
        await session.tell(events.RunStarted, task_id=task.id, max_attempts=self.max_attempts)
        trials: list[Trial[Any]] = [await self.trial(task, (), session)]
        while (stop := self.stop_reason(trials)) is None:
            trials.append(await self.trial(task, trials, session))
        result: RunResult[T] = RunResult(
            session.id,
            task,
            tuple(trials),
            stop,
            session.spend.since(before),
            time.monotonic() - started,
            escalated=self.preset.structured and stop == "max_attempts",
        )
        note = None if policy is None else functools.partial(policy.after, agent=self._agent_name)
        return await finish(result, session, note)

    def run_sync(self, task: Task | str, *, session: Session | None = None) -> RunResult[T]:
        """Do :meth:`run` outside of an event loop; this is the only synchronous method."""
        return run_alone(lambda: self.run(task, session=session), "reflexion.run(task)")

    @contextlib.asynccontextmanager
    async def stream(
        self, task: Task | str, *, session: Session | None = None
    ) -> AsyncIterator[EventStream[T]]:
        """Run the task and yield its events as they happen; leaving the block early cancels the run.

        ::

            async with reflexion.stream("...") as events:
                async for event in events:
                    print(event.kind)
            print(events.result.output)
        """
        session = session or self.session()  # made when the block is entered: its clock starts
        async with run_streaming(lambda listening: self.run(task, session=listening), session) as stream:
            yield stream

    async def __call__(self, task: Task, session: Session) -> Attempt[T]:
        """Act as the agent of an outer loop: one run of this loop, on the outer budget, is one attempt there.

        The attempt is the best one, with the usage of all; that of this loop's evaluator and reflector is charged to
        these roles already. The task comes without its gold, so this loop's evaluator does not see the gold either.
        Raises ``ConfigurationError`` if this loop has its own budget, which would not be kept.
        """
        if self.options.budget is not None:
            raise errors.ConfigurationError(
                "a Reflexion within another one can't have its own budget: give the budget to the outer one"
            )
        result = await self.run(task, session=replace(session, id=Session().id))
        best = result.best.attempt if result.best else Attempt[T](interrupted=result.stop_reason)
        return replace(best, usage=result.usage["agent"], seconds=result.seconds)

    @property
    def retry_safe(self) -> bool:
        """Whether the agent may be run again."""
        return bool(getattr(self.agent, "retry_safe", True))

    def stop_reason(self, trials: Sequence[Trial]) -> StopReason | None:
        """Return why a run with these trials is over, or None if another attempt follows."""
        if not trials:
            return None
        last = trials[-1]
        if last.passed or last.exhausted:
            return "passed" if last.passed else "budget"
        if len(trials) > 1 and not any(trial.evaluation.scored for trial in trials[-2:]):
            return "unscorable"
        if len(trials) >= self.max_attempts:
            return "max_attempts"
        due = self.options.learn and self.preset.structured and last.evaluation.scored
        if due and last.reflection is None:
            return "reflection_missing"
        return None if self.retry_safe else "not_retry_safe"

    async def trial(
        self, task: Task, history: Sequence[Trial], session: Session, *, commit: bool = True
    ) -> Trial:
        """Do one turn of the loop after the trials in ``history``.

        With ``commit=False`` the lesson is not stored but waits in the trial for :meth:`commit`. So a caller with many
        tasks can decide when, and in which order, lessons become visible.
        """
        task = factory.checked_task(task)
        if history and not self.retry_safe:
            problem = f"{self._agent_name} says retry_safe=False: it can't be run again"
            raise errors.ConfigurationError(problem)
        number = len(history) + 1
        session = redacting(session).at(number)
        started, before = time.monotonic(), session.spend.by_role()
        await session.tell(events.AttemptStarted, max_attempts=self.max_attempts)
        trial = await self._attempt(task, history, session)
        trial = await self.judge(task, history, session, trial)
        trial = await self.note_outcome(session, trial)
        trial = await self.reflect(task, history, session, trial)
        if commit and trial.pending:
            trial = await self.store(task, session, trial)
        return replace(trial, usage=session.spend.since(before), seconds=time.monotonic() - started)

    async def commit(self, task: Task, trial: Trial, session: Session) -> Trial:
        """Store the pending lesson of a trial; raises :class:`LessonStoreError` if it can't be stored."""
        if not trial.pending or trial.reflection is None:
            return trial
        session, score, now = redacting(session).at(trial.number), trial.evaluation.score, time.time()
        source = Provenance(session.id, trial.number, score, self._model_name, self._agent_name, now)
        if self.lessons is None:
            await self.memory.append(self.lessons_block_name, trial.reflection.lesson)
            lesson = lesson_of_line(task.public(), trial.reflection, source)
            await session.tell(events.LessonPersisted, block=self.lessons_block_name)
        else:
            # A store may ask a model to screen the lesson.
            with session.acting_as("reflector"):
                lesson = await self.lessons.record(task.public(), trial.reflection, provenance=source)
            await session.tell(events.LessonPersisted, block="lesson_store", lesson=lesson)
        return replace(trial, lesson=lesson, pending=False)

    # -- its steps, in order -------------------------------------------------------------------------------------

    async def recall(
        self, task: Task, history: Sequence[Trial], session: Session
    ) -> tuple[Recall | None, str]:
        """Return the recall, if there is a store, and the block that the attempt sees.

        Without a store, the block is the memory's at the start of the run, with the lessons that the run learned since.
        """
        if self.lessons is None:
            if history:
                return None, with_reflection(history[-1].block, history[-1].reflection)
            name = self.lessons_block_name
            return None, await session.in_time(lambda: read_block(self.memory, name))
        lessons, number = self.lessons, len(history) + 1
        skipped = session.id if self.preset.structured else ""
        recall = await session.in_time(
            lambda: lessons.recall(
                task.public(), k=self.top_k_lessons, run_id=session.id, attempt=number, skip_run=skipped
            )
        )
        await session.tell(events.LessonsRecalled.of, recall=recall, attempt=number)
        return recall, render([item.lesson for item in recall.offered])

    async def _attempt(self, task: Task, history: Sequence[Trial], session: Session) -> Trial:
        """Recall and try."""
        number = len(history) + 1
        recall, block, problem = None, "", ""
        try:
            session.spend.check()
            recall, block = await self.recall(task, history, session)
            block = self.preset.block(block, recall, history)
        except errors.BudgetExceededError as error:
            attempt, exhausted = Attempt(interrupted="budget", error=str(error)), str(error)
        else:
            # An outer loop may use the same name for its block; its lessons come first.
            blocks = filter(None, (session.blocks.get(self.lessons_block_name), block))
            with_block = session.for_attempt(number, {self.lessons_block_name: "\n\n".join(blocks)})
            attempt, exhausted, problem = await self._try(task, history, with_block)
        await session.tell(events.AttemptFinished.of, made=attempt)
        unjudged = Evaluation(None, rationale="not judged yet")
        trial = Trial(number, attempt, unjudged, recall=recall, block=block, exhausted=exhausted)
        return await warn(session, trial, problem, history) if problem else trial

    async def _try(self, task: Task, history: Sequence[Trial], session: Session) -> tuple[Attempt, str, str]:
        """Run the agent. If it raises, that is a failed attempt to learn from, except for a hopeless error.

        Returns the attempt, the limit of the budget that cut it short, and the problem if the agent raised.
        """
        started, exhausted, problem, public = time.monotonic(), "", "", task.public()

        async def once() -> Attempt:
            if history and self.reset is not None:
                await run_callable(self.reset, functools.partial(self.reset, public, session))
            attempt = await self.agent(public, session)
            if not isinstance(attempt, Attempt):
                raise errors.ConfigurationError(
                    f"{self._agent_name} returned {type(attempt).__name__}, not an Attempt"
                )
            return attempt

        try:
            attempt = await session.spending("agent", once)
        except errors.BudgetExceededError as error:
            exhausted = str(error)
            attempt = Attempt(interrupted="budget", error=exhausted)
        except errors.HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001 - kept in the attempt
            problem = failure("agent", error, history)
            bug = "programming_error" if errors.programming_error(error) else None
            attempt = Attempt(error=redact(errors.described(error)), interrupted=bug)
        if not attempt.seconds:
            attempt = replace(attempt, seconds=time.monotonic() - started)
        return attempt, exhausted, problem

    async def judge(self, task: Task, history: Sequence[Trial], session: Session, trial: Trial) -> Trial:
        """Judge the attempt. If its last call used up the budget, only an evaluator that asks no model can judge it."""
        session, evaluation = session.at(trial.number), None
        try:
            if not trial.exhausted:
                evaluation = await session.spending("evaluator", lambda: self.evaluator(task, trial.attempt))
        except errors.BudgetExceededError as error:
            trial = replace(trial, exhausted=str(error))
        except errors.HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001 - a failing evaluator leaves the attempt unscored
            message = failure("evaluator", error, history)
            evaluation = Evaluation(None, rationale=message)
            trial = await warn(session, trial, message, history)
        if evaluation is None:
            evaluation = Evaluation(None, rationale=f"not judged: {trial.exhausted}")
        passed = evaluation.meets(self.threshold)
        if session.heard:
            rationale = await aside(redact, evaluation.public(task.reference).rationale)
            await session.tell(events.Evaluated, score=evaluation.score, passed=passed, rationale=rationale)
        if passed:
            await session.tell(events.ThresholdMet, score=evaluation.score)
        exhausted = trial.exhausted or ("" if passed else session.spend.over())
        return replace(trial, evaluation=evaluation, passed=passed, exhausted=exhausted)

    async def note_outcome(self, session: Session, trial: Trial) -> Trial:
        """Tell the lesson store how the attempt went for which it recalled lessons, even if it was not scored."""
        lessons, recall = self.lessons, trial.recall
        if lessons is None or recall is None:
            return trial
        try:
            await session.in_time(lambda: lessons.outcome(recall.id, trial.evaluation), grace=STORE_GRACE)
        except (errors.LessonStoreError, errors.BudgetExceededError) as error:
            return await warn(session, trial, str(error))
        return trial

    async def reflect(self, task: Task, history: Sequence[Trial], session: Session, trial: Trial) -> Trial:
        """Ask for a lesson; if there is none, emit an event with the reason."""
        session = session.at(trial.number)
        wanted = self.options.learn_from_success if trial.passed else True
        if not (self.options.learn and wanted):
            return trial
        reflection, reason = None, trial.exhausted
        if not trial.evaluation.scored:
            reason = reason or "an attempt without a verdict teaches nothing"
        if trial.attempt.interrupted == "programming_error":
            reason = reason or "a programming error in the agent teaches nothing about the task"
        try:
            if not reason:
                reflection = await lesson_from(
                    required_form(self.reflector, mandatory=self.preset.structured),
                    task,
                    (*history, trial),
                    session,
                    max_characters=self.options.lesson_characters,
                    one_sentence=self.options.one_sentence,
                    check=check_of(self.lessons),
                )
        except errors.BudgetExceededError as error:
            reason = str(error)
            trial = replace(trial, exhausted=reason)
        except errors.HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001 - a failing reflector costs the lesson, not the run
            reason = failure("reflector", error, history)
            trial = await warn(session, trial, reason, history)
        if reflection is None:
            await session.tell(events.LessonDropped, reason=reason)
            return trial
        await session.tell(events.LessonProduced, lesson=reflection.lesson)
        return replace(trial, reflection=reflection, pending=True)

    async def store(self, task: Task, session: Session, trial: Trial) -> Trial:
        """Store the pending lesson of a trial; an error of the store becomes a problem of the trial."""
        try:
            return await session.in_time(lambda: self.commit(task, trial, session), grace=STORE_GRACE)
        except (errors.LessonStoreError, errors.BudgetExceededError) as error:
            message = f"the lesson was not stored: {error}"
            trial = await warn(session, replace(trial, pending=False), message)
            await session.tell(events.LessonDropped, attempt=trial.number, reason=message)
            return trial
