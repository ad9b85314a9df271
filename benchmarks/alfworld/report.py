"""What a person reads at the end of a run."""

from __future__ import annotations

from jeeves_reflexion import Step, Trial
from jeeves_reflexion.experiments import ArmName, Story, cost_table
from jeeves_reflexion.experiments.results import total

from ..report import three_of
from .agent import USED
from .experiment import Finished, Setting

SHOWN_STEPS = 4
_GO = "go to "
_MEMORIES: tuple[ArmName, ...] = ("selective", "own", "monotonic")


def summary(finished: Finished, setting: Setting) -> str:
    """Return the learning curves, three lessons, one task's story and where things are, as plain text."""
    results = finished.results
    parts = [
        f"Games solved so far, by trial (95 % Wilson interval, seeds pooled; {setting.step_limit} commands a try):",
        "",
        results.table(),
    ]
    if finished.known:
        parts += [
            "",
            f"The selective arm did not start from nothing: it had {finished.known} lessons of earlier runs.",
        ]
    arm = next((arm for arm in _MEMORIES if results.lessons(arm)), None)
    if arm is not None:
        parts += [
            "",
            "Three lessons that it wrote:",
            *(f"  - {text}" for text in three_of(results.lessons(arm))),
        ]
    stories = [story for arm in _MEMORIES for story in results.stories(arm)]
    if stories:
        parts += ["", *_story(next(filter(_lesson_mattered, stories), stories[0]))]
    used = total(results.rows)
    if used.calls:
        tokens = f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out"
        parts += ["", f"Model calls: {used.calls:,}, {tokens}, in {len(results.rows):,} tries", ""]
        parts += [cost_table({arm: results.cost(arm) for arm in results.arms})]
    if results.interrupted:
        parts += ["", f"Stopped: {results.interrupted}. Go on with --resume --out {setting.out}"]
    picture = finished.picture
    parts += [
        "",
        f"Learning curve: {picture}" if picture else "Learning curve: not drawn, since no arm was finished",
    ]
    parts += [f"Report: {finished.report}", f"Lessons: {finished.lessons_at}"]
    return "\n".join(parts)


def _lesson_mattered(story: Story) -> bool:
    """Whether the player said that it went somewhere because a lesson says so."""
    return any("a lesson s" in step.thought for step in story.solved.attempt.steps)


def _story(story: Story) -> list[str]:
    lesson = _lesson_of(story)
    return [
        f"A task that failed and then succeeded: {sentence(story.task.prompt)}",
        f"  trial {story.failed.number} failed after {len(story.failed.attempt.steps)} commands, at last:",
        *_steps(story.failed),
        f"  lesson recalled before trial {story.solved.number}: {lesson}",
        f"  trial {story.solved.number} succeeded after {len(story.solved.attempt.steps)} commands:",
        *_steps(story.solved),
    ]


def _lesson_of(story: Story) -> str:
    """The recalled lesson that names the place where the player went first, of those that it used if it says which."""
    recalled = story.solved.recall.texts if story.solved.recall else ()
    used = story.solved.attempt.metadata.get(USED)
    lessons = [str(text) for text in used] if isinstance(used, list) and used else list(recalled)
    first = next((s.action for s in story.solved.attempt.steps if s.action.startswith(_GO)), _GO)
    place = first.removeprefix(_GO)
    return next((lesson for lesson in lessons if place in lesson), lessons[0])


def _steps(trial: Trial) -> list[str]:
    steps: tuple[Step, ...] = trial.attempt.steps[-SHOWN_STEPS:]
    return [f"    > {step.action}  ->  {_short(step.observation)}" for step in steps]


def _short(text: str, room: int = 90) -> str:
    text = " ".join(text.split())
    return text if len(text) <= room else text[: room - 3] + "..."


def sentence(opening: str) -> str:
    """Return the task of an opening in its own words."""
    return opening.rpartition("Your task is to: ")[2].strip()
