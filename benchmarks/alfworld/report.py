"""The summary at the end of a run."""

from __future__ import annotations

from jeeves_reflexion import Trial
from jeeves_reflexion.experiments import ArmName, Results, Tried, cost_table
from jeeves_reflexion.experiments.report.analysis import clusters_note
from jeeves_reflexion.experiments.results import total
from jeeves_reflexion.summary import counted
from jeeves_reflexion.text import one_line

from ..report import three_of
from .experiment import Finished
from .setting import Setting

SHOWN_STEPS = 4
_GO = "go to "
_MEMORIES: tuple[ArmName, ...] = ("selective", "own", "monotonic")


def summary(finished: Finished, setting: Setting) -> str:
    """Return as plain text the learning curves, three lessons, the story of one task, and where the files are."""
    results = finished.results
    parts = [
        f"{_played(finished, setting)}; solved so far, by trial (95 % Wilson interval, {clusters_note(results)}):",
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
    if story := _story(results):
        parts += ["", *story]
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


def _played(finished: Finished, setting: Setting) -> str:
    """Describe the games that were played, their number, and the limit of commands."""
    number = len(finished.results.tasks) + len(finished.results.held_out)
    if setting.games_folder is not None:
        games = f"{counted(number, 'genuine game')} of {setting.games_folder}"
    else:
        games = f"{counted(number, 'generated game')} (seed {setting.game_seed}; they serve development and the demo)"
    return f"{games}, {setting.step_limit} commands a try"


def _story(results: Results) -> list[str]:
    """Describe a game that failed and was won right after a lesson was recalled, if there is one.

    Games in which the player went somewhere because of a lesson are preferred, then the quickest.
    """
    last: dict[tuple[str, int, str], Tried] = {}
    pairs: list[tuple[Tried, Tried]] = []
    for row in (row for row in results.rows if row.arm in _MEMORIES):
        key = (row.arm, row.seed, row.task.id)
        if row.passed and key in last and row.recalled:
            pairs.append((last[key], row))
        last[key] = row
    if not pairs:
        return []
    failed, solved = min(
        pairs, key=lambda pair: (not _minds(pair[1].trial), len(pair[1].trial.attempt.steps))
    )
    steps = solved.trial.attempt.steps
    place = next((step.action for step in steps if step.action.startswith(_GO)), _GO).removeprefix(_GO)
    recalled = solved.trial.recall.texts if solved.trial.recall else ()
    lesson = next((text for text in recalled if place in text), recalled[0])
    task = solved.task.prompt.rpartition("Your task is to: ")[2].strip()
    return [
        f"A task that failed and then succeeded: {task}",
        f"  trial {failed.trial.number} failed after {len(failed.trial.attempt.steps)} commands, at last:",
        *_steps(failed.trial),
        f"  lesson recalled before trial {solved.trial.number}: {lesson}",
        f"  trial {solved.trial.number} succeeded after {len(steps)} commands:",
        *_steps(solved.trial),
    ]


def _minds(trial: Trial) -> bool:
    return any("a lesson s" in step.thought for step in trial.attempt.steps)


def _steps(trial: Trial) -> list[str]:
    last = trial.attempt.steps[-SHOWN_STEPS:]
    return [f"    > {step.action}  ->  {one_line(step.observation)[:90]}" for step in last]
