"""Plays a logged run through the project's own loop, and holds what comes of it against the log, trial by trial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from jeeves_reflexion import LessonSettings, LoopOptions, Picking, Reflexion, RunResult, Task, Trial
from jeeves_reflexion.experiments.arms import arm_lessons
from jeeves_reflexion.lessons.gate import clean_lesson
from jeeves_reflexion.models import RecordedModel
from vectorstores import HashingEmbedder, InMemoryVectorStore

from .replay_log import LoggedQuestion, LoggedRun, LoggedTrial, Status
from .replay_recordings import (
    ENDED,
    MISSING,
    LoggedAgent,
    LoggedReflector,
    recordings,
)
from .scorer import ExactMatch

OurStatus: TypeAlias = Status | Literal["error"]
LESSON_CHARACTERS: Final = 10_000

# All of a task's own reflections, near-copies too, as in the paper.
_AS_IN_THE_PAPER: Final = LessonSettings(
    keep_copies=True, picking=Picking(max_likeness=1.0, max_tokens=1_000_000, diversity=0.0)
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one trial of a question came to; ``answer`` is None without one, ``steps`` are how many it took.

    ``last_step`` says that it finished with the last step it had, which the authors' code lists as halted as well; None
    where a log does not say.
    """

    status: OurStatus
    correct: bool
    answer: str | None
    steps: int
    last_step: bool | None = False


@dataclass(frozen=True, slots=True)
class Played:
    """A run with what the loop made of it and what the log says, for each question its trials by number.

    ``mismatches`` are differences in what the tables are made of; ``notes`` are other ones, on which no verdict rests.
    ``steps`` and ``lessons`` count what was played.
    """

    run: LoggedRun
    ours: dict[str, dict[int, Outcome]]
    logged: dict[str, dict[int, Outcome]]
    steps: int = 0
    lessons: int = 0
    mismatches: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def task_of(question: LoggedQuestion) -> Task:
    """Return the task; its gold answer is for the evaluator alone."""
    return Task(question.question, id=question.id, kind="hotpotqa", reference=question.gold)


async def play(run: LoggedRun, model: RecordedModel | None = None) -> Played:
    """Play every question; ``model`` plays the recordings of the run, by default from memory."""
    model = model or RecordedModel(tuple(recordings(run)), match="position")
    tasks = [task_of(question) for question in run.questions]
    store = InMemoryVectorStore(HashingEmbedder(), namespace="lessons")
    own = arm_lessons("own", store, tasks, settings=_AS_IN_THE_PAPER, seed=0)
    if own is None:
        raise AssertionError("the arm own keeps lessons")
    reflector = LoggedReflector(model, run.questions, own)
    loop = Reflexion(
        LoggedAgent(model, run.questions, max_steps=run.max_steps),
        evaluator=ExactMatch(),
        reflector=reflector,
        lesson_store=own,
        max_attempts=run.n_trials,
        top_k_lessons=max(1, *(sum(len(t.learned) for t in q.trials) for q in run.questions)),
        options=LoopOptions(learn=run.reflects, one_sentence=False, lesson_characters=LESSON_CHARACTERS),
    )
    played = Played(run, {}, {})
    steps = lessons = 0
    for question, task in zip(run.questions, tasks, strict=True):
        result = await loop.run(task)
        steps += sum(len(trial.attempt.steps) for trial in result.trials)
        lessons += len(result.lessons)
        played.ours[question.id] = _ours(result, run)
        played.logged[question.id] = _logged(question, run)
        played.mismatches.extend(_mismatches(question, played))
        played.notes.extend(_notes(question, result, played))
    await store.close()
    notes = [*played.notes, *reflector.refused]
    return Played(
        run, played.ours, played.logged, steps, lessons + reflector.stored, played.mismatches, notes
    )


def _ours(result: RunResult, run: LoggedRun) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    for trial in result.trials:
        attempt, status = trial.attempt, _status(trial)
        answered = not (attempt.error or attempt.interrupted)
        taken = len(attempt.steps)
        last = answered and taken == run.max_steps
        found[trial.number] = Outcome(
            status, trial.passed, (attempt.output or None) if answered else None, taken, last
        )
    return found


def _status(trial: Trial) -> OurStatus:
    error = trial.attempt.error or ""
    if trial.attempt.interrupted == "max_turns":
        return "halted"
    if MISSING in error:
        return "missing"
    if (error and ENDED not in error) or trial.attempt.interrupted:
        return "error"
    return "correct" if trial.passed else "incorrect"


def _logged(question: LoggedQuestion, run: LoggedRun) -> dict[int, Outcome]:
    """What the log says; a trial that an unsolved question lacks is missing."""
    found = {
        trial.trial: Outcome(
            trial.status,
            trial.correct,
            trial.answer or None,
            len(trial.steps),
            trial.also_halted,
        )
        for trial in question.trials
    }
    solved = min((n for n, outcome in found.items() if outcome.correct), default=run.n_trials)
    for n in range(1, solved + 1):
        found.setdefault(n, Outcome("missing", correct=False, answer=None, steps=0))
    return dict(sorted(found.items()))


def _mismatches(question: LoggedQuestion, played: Played) -> Iterable[str]:
    ours, logged = played.ours[question.id], played.logged[question.id]
    for n in sorted(ours.keys() | logged.keys()):
        where = f"question {question.index} ({question.id}), trial {n}"
        mine, theirs = ours.get(n), logged.get(n)
        if mine is None or theirs is None:
            yield f"{where}: {'it was not played' if mine is None else 'it is not in the log'}"
            continue
        for name in ("status", "correct", "answer", "steps"):
            one, other = getattr(mine, name), getattr(theirs, name)
            if one != other and not (name == "status" and _is_early_halt(mine, theirs, played.run)):
                yield f"{where}: {name} is {one!r}, in the log {other!r}"
    for trial in question.trials:
        where = f"question {question.index} ({question.id}), trial {trial.trial}"
        if trial.em is not None and trial.em is not trial.correct:
            yield f"{where}: the log contradicts itself: em is {trial.em}, logged_correct {trial.logged_correct}"
        if (trial.status == "correct") is not trial.correct:
            yield (
                f"{where}: the log contradicts itself: status is {trial.status}, logged_correct {trial.logged_correct}"
            )
    solved = min((n for n, outcome in ours.items() if outcome.correct), default=None)
    if "solved_at" in question.model_fields_set and solved != question.solved_at:
        yield f"question {question.index} ({question.id}): solved_at is {solved}, in the log {question.solved_at}"


def _is_early_halt(ours: Outcome, logged: Outcome, run: LoggedRun) -> bool:
    """Whether the log has a halt that its steps don't show: the prompt may have been too long, which no log holds."""
    unfinished = ours.status == "incorrect" and ours.answer is None and ours.steps < run.max_steps
    return logged.status == "halted" and unfinished


def _notes(question: LoggedQuestion, result: RunResult, played: Played) -> Iterable[str]:
    logged = {trial.trial: trial for trial in question.trials}
    for trial in result.trials:
        theirs = logged.get(trial.number)
        if theirs is None:
            continue
        where = f"question {question.index} ({question.id}), trial {trial.number}"
        ours, log = played.ours[question.id][trial.number], played.logged[question.id][trial.number]
        if theirs.also_halted is not None and ours.last_step is not theirs.also_halted:
            yield f"{where}: also_halted is {theirs.also_halted}, which the number of steps does not explain"
        if _is_early_halt(ours, log, played.run):
            yield f"{where}: halted in the log after {log.steps} steps, which its steps don't show: not confirmed"
        yield from (f"{where}: {note}" for note in _step_notes(trial, theirs))
        offered = sorted(trial.recall.texts) if trial.recall else []
        shown = sorted(clean_lesson(text) for text in theirs.reflections_in_prompt or ())
        is_known = all(t.reflections_after is not None for n, t in logged.items() if n < trial.number)
        if is_known and theirs.reflections_in_prompt is not None and offered != shown:
            yield f"{where}: {len(offered)} reflections in the prompt, {len(shown)} in the log, or of other words"
        wanted = clean_lesson(theirs.learned[-1]) if theirs.learned else ""
        written = trial.lesson.text if trial.lesson else ""
        if theirs.reflections_after is not None and wanted != written and not trial.passed:
            yield f"{where}: the lesson is {written[:80]!r}, in the log {wanted[:80]!r}"


def _step_notes(trial: Trial, logged: LoggedTrial) -> Iterable[str]:
    """Differences within an attempt; the observation of the last action is the environment's verdict in the logs."""
    for n, (step, theirs) in enumerate(zip(trial.attempt.steps, logged.steps, strict=False), 1):
        if step.thought != (theirs.thought or "").strip():
            yield f"step {n}: the thought is on one line, or of other words"
        if theirs.action_type != "Finish" and step.observation != (theirs.observation or ""):
            yield f"step {n}: the observation is {step.observation[:80]!r}, in the log {theirs.observation!r}"
