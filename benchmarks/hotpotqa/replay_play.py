"""Plays a logged run through the project's own loop, and compares it with the log, trial by trial."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from jeeves_reflexion import (
    Attempt,
    Evaluation,
    LessonSettings,
    LoopOptions,
    Picking,
    Reflexion,
    RunResult,
    Session,
    Task,
    Trial,
)
from jeeves_reflexion.experiments.arms import arm_lessons, last_attempt
from jeeves_reflexion.lessons.gate import clean_lesson
from vectorstores import HashingEmbedder, InMemoryVectorStore

from .replay_agent import ENDED, LoggedAgent, LoggedReflector
from .replay_log import MAX_STEPS, LoggedQuestion, LoggedRun, LoggedTrial, Status
from .scorer import ExactMatch

OurStatus: TypeAlias = Status | Literal["error"]
LESSON_CHARACTERS: Final = 10_000
REMINDER: Final = last_attempt([Trial(1, Attempt(""), Evaluation(None))]).strip()
"""The line above the last attempt in the prompt of the next one."""

# All of a task's own reflections, including near-copies, as in the paper.
_AS_IN_THE_PAPER: Final = LessonSettings(
    keep_copies=True, picking=Picking(max_likeness=1.0, max_tokens=1_000_000, diversity=0.0)
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one trial: its status, its answer (if any) and the number of its steps.

    ``last_step`` says that it finished with the last step it had, which the authors' code also counts as halted.
    """

    status: OurStatus
    correct: bool
    answer: str | None
    steps: int
    last_step: bool


@dataclass(frozen=True, slots=True)
class Played:
    """A run with our outcomes and the logged ones, by question and number of the trial.

    ``mismatches`` are differences that change a table; ``notes`` are other differences. ``steps`` and ``lessons`` count
    what was played, ``reminded`` the attempts that saw the attempt before them.
    """

    run: LoggedRun
    ours: dict[str, dict[int, Outcome]]
    logged: dict[str, dict[int, Outcome]]
    steps: int = 0
    lessons: int = 0
    reminded: int = 0
    mismatches: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class LastTrial(Reflexion):
    """The loop whose attempts see the attempt before them, above their lessons: the authors' ``LAST_ATTEMPT``."""

    async def trial(
        self, task: Task, history: Sequence[Trial], session: Session, *, commit: bool = True
    ) -> Trial:
        """Do one turn of the loop with the last attempt in the block of the lessons."""
        if history:
            session = replace(session, blocks={self.lessons_block_name: last_attempt(history)})
        return await super().trial(task, history, session, commit=commit)


def task_of(question: LoggedQuestion) -> Task:
    """Return the task; only the evaluator sees its gold answer."""
    return Task(question.question, id=question.id, kind="hotpotqa", reference=question.gold)


async def play(run: LoggedRun) -> Played:
    """Play every question."""
    tasks = [task_of(question) for question in run.questions]
    store = InMemoryVectorStore(HashingEmbedder(), namespace="lessons")
    own = arm_lessons("own", store, tasks, settings=_AS_IN_THE_PAPER, seed=0)
    if own is None:
        raise AssertionError("the arm own keeps lessons")
    reflector, agent = LoggedReflector(run, own), LoggedAgent(run)
    last_trial = run.strategy.startswith("last_trial")
    # With the last attempt, the authors' agents see only the reflections on that attempt.
    learned = [[len(trial.learned) for trial in question.trials] for question in run.questions]
    loop = (LastTrial if last_trial else Reflexion)(
        agent,
        evaluator=ExactMatch(),
        reflector=reflector,
        lesson_store=own,
        max_attempts=run.n_trials,
        top_k_lessons=max(1, *(max(each) if last_trial else sum(each) for each in learned)),
        options=LoopOptions(learn=run.reflects, one_sentence=False, lesson_characters=LESSON_CHARACTERS),
    )
    played = Played(run, {}, {})
    steps = lessons = reminded = 0
    for question, task in zip(run.questions, tasks, strict=True):
        result = await loop.run(task)
        steps += sum(len(trial.attempt.steps) for trial in result.trials)
        lessons += len(result.lessons)
        played.ours[question.id] = _ours(result)
        played.logged[question.id] = _logged(question)
        played.mismatches.extend(_mismatches(question, played))
        played.notes.extend(_notes(question, result))
        reminded += sum(REMINDER in agent.prompts.get((task.id, n), "") for n in range(1, run.n_trials + 1))
        played.notes.extend(_reminder_notes(question, agent, shown=last_trial))
    await store.close()
    return replace(
        played,
        steps=steps,
        lessons=lessons + reflector.stored,
        reminded=reminded,
        notes=[*played.notes, *reflector.refused],
    )


def _ours(result: RunResult) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    for trial in result.trials:
        attempt = trial.attempt
        answered = not (attempt.error or attempt.interrupted)
        answer = (attempt.output or None) if answered else None
        taken = len(attempt.steps)
        last = answered and taken == MAX_STEPS
        found[trial.number] = Outcome(_status(trial), trial.passed, answer, taken, last)
    return found


def _status(trial: Trial) -> OurStatus:
    error = trial.attempt.error or ""
    if trial.attempt.interrupted == "max_turns":
        return "halted"
    if (error and ENDED not in error) or trial.attempt.interrupted:
        return "error"
    return "correct" if trial.passed else "incorrect"


def _logged(question: LoggedQuestion) -> dict[int, Outcome]:
    return {
        trial.trial: Outcome(
            trial.status, trial.logged_correct, trial.answer or None, len(trial.steps), trial.also_halted
        )
        for trial in question.trials
    }


def _mismatches(question: LoggedQuestion, played: Played) -> Iterable[str]:
    ours, logged = played.ours[question.id], played.logged[question.id]
    for n in sorted(ours.keys() | logged.keys()):
        where = f"question {question.id}, trial {n}"
        mine, theirs = ours.get(n), logged.get(n)
        if mine is None or theirs is None:
            yield f"{where}: {'it was not played' if mine is None else 'it is not in the log'}"
            continue
        for name in Outcome.__slots__:
            one, other = getattr(mine, name), getattr(theirs, name)
            if one != other:
                yield f"{where}: {name} is {one!r}, in the log {other!r}"
    solved = min((n for n, outcome in ours.items() if outcome.correct), default=None)
    if solved != question.solved_at:
        yield f"question {question.id}: solved_at is {solved}, in the log {question.solved_at}"


def _notes(question: LoggedQuestion, result: RunResult) -> Iterable[str]:
    logged = {trial.trial: trial for trial in question.trials}
    for trial in result.trials:
        theirs = logged.get(trial.number)
        if theirs is None:
            continue
        where = f"question {question.id}, trial {trial.number}"
        yield from (f"{where}: {note}" for note in _step_notes(trial, theirs))
        offered = sorted(trial.recall.texts) if trial.recall else []
        shown = sorted(map(clean_lesson, theirs.reflections_in_prompt))
        if offered != shown:
            yield f"{where}: {len(offered)} reflections in the prompt, {len(shown)} in the log, or other words"
        wanted = clean_lesson(theirs.learned[-1]) if theirs.learned else ""
        written = trial.lesson.text if trial.lesson else ""
        if wanted != written and not trial.passed:
            yield f"{where}: the lesson is {written[:80]!r}, in the log {wanted[:80]!r}"


def _reminder_notes(question: LoggedQuestion, agent: LoggedAgent, *, shown: bool) -> Iterable[str]:
    """Yield a note for each prompt that lacks the logged attempt before it, or has one that it should not have."""
    for before, trial in itertools.pairwise(question.trials):
        prompt = agent.prompts.get((question.id, trial.trial), "")
        words = [text.strip() for step in before.steps for text in (step.thought, step.action_arg)]
        if prompt.count(REMINDER) != shown or (shown and not all(text in prompt for text in words)):
            fault = "lacks the last attempt as logged" if shown else "has a last attempt"
            yield f"question {question.id}, trial {trial.trial}: the prompt {fault}"


def _step_notes(trial: Trial, logged: LoggedTrial) -> Iterable[str]:
    """Yield the differences within an attempt, except in the observation of Finish, which is the verdict in the log."""
    for n, (step, theirs) in enumerate(zip(trial.attempt.steps, logged.steps, strict=False), 1):
        if step.thought != theirs.thought.strip():
            yield f"step {n}: the thought is on one line, or has other words"
        if theirs.action_type != "Finish" and step.observation != theirs.observation:
            yield f"step {n}: the observation is {step.observation[:80]!r}, in the log {theirs.observation!r}"
