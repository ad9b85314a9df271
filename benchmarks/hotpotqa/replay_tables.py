"""The table of a replayed run by trial, with our figures and the log's, and the page of all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..report import table as markdown
from .replay_log import MAX_STEPS, Strategy
from .replay_play import Outcome, Played

_SHOWN = 50
_SEEN: Final[Mapping[Strategy, str]] = {
    "base": "attempts see nothing of earlier ones",
    "last_trial": "each sees the last attempt and no reflection",
    "reflexion": "each sees all reflections on its question so far",
    "last_trial_and_reflexion": "each sees the last attempt and only the reflections on that one",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The outcomes of all questions in one trial; ``solved`` counts those that were correct so far.

    ``last_step`` counts attempts that finished with their last step, which the authors' code also counts as halted.
    """

    tried: int
    correct: int
    incorrect: int
    last_step: int
    halted: int
    solved: int


def rows(outcomes: Mapping[str, Mapping[int, Outcome]], n_trials: int) -> list[Row]:
    """Return a row for each trial. An attempt that ended in an error of ours counts only in the first column."""
    found: list[Row] = []
    solved: set[str] = set()
    for n in range(1, n_trials + 1):
        here = {id: trials[n] for id, trials in outcomes.items() if n in trials}
        solved |= {id for id, each in here.items() if each.correct}
        count = Counter(each.status for each in here.values())
        found.append(
            Row(
                tried=len(here),
                correct=count["correct"],
                incorrect=count["incorrect"],
                last_step=sum(each.last_step for each in here.values()),
                halted=count["halted"],
                solved=len(solved),
            )
        )
    return found


_COLUMNS = (
    ("tried", "tried"),
    ("correct", "correct (EM)"),
    ("incorrect", "incorrect"),
    ("last_step", "finished with the last step"),
    ("halted", "halted"),
    ("solved", "solved so far"),
)


def table(played: Played) -> str:
    """Return the Markdown table. A cell has our figure, then the log's; it is bold if they differ."""
    ours, logged = rows(played.ours, played.run.n_trials), rows(played.logged, played.run.n_trials)
    cells = [
        [n, *(_cell(getattr(mine, name), getattr(theirs, name)) for name, _ in _COLUMNS)]
        for n, (mine, theirs) in enumerate(zip(ours, logged, strict=True), 1)
    ]
    return markdown(["trial", *(title for _, title in _COLUMNS)], cells)


def _cell(ours: int, logged: int) -> str:
    return f"{ours} / {logged}" if ours == logged else f"**{ours} / {logged}**"


def story(played: Played) -> str:
    """Return the table of a run with the differences below it."""
    run = played.run
    head = (
        f"{len(run.questions)} questions, {run.n_trials} trials, {played.steps} steps and {played.lessons} reflections "
        f"of {run.model} played. Strategy {run.strategy}: {_SEEN[run.strategy]} ({played.reminded} attempts saw the "
        "attempt before them). Ours / the log's:"
    )
    verdict = (
        f"{len(played.mismatches)} differences:"
        if played.mismatches
        else "Every verdict, answer and number of steps equals the log's, and so does every halt that the steps show: "
        f"{MAX_STEPS} of them and no answer."
    )
    notes = (
        f"{len(played.notes)} differences that change no verdict:"
        if played.notes
        else "So do all thoughts, observations, reflections, and what each attempt saw of earlier ones."
    )
    lists = _listed(verdict, played.mismatches), _listed(notes, played.notes)
    return "\n\n".join([f"## {run.name}", head, table(played), *lists])


def _listed(head: str, items: Sequence[str]) -> str:
    more = [f"- ... and {len(items) - _SHOWN} more"] if len(items) > _SHOWN else []
    return "\n".join([head, *(["", *(f"- {item}" for item in items[:_SHOWN]), *more] if items else [])])


_INTRODUCTION = """# Replays of the paper's logged HotpotQA runs

Made by `python -m benchmarks.hotpotqa.replay FILE... --out docs/results`. The logs are those of Reflexion's authors
(Shinn et al. 2023; noahshinn/reflexion at 218cf0e, MIT). The project's own loop, ReAct, exact match, reflector and
lesson store run as they always do; only the model's words and the tools' observations come from the log. This shows
that the loop counts as the authors did, and says nothing about how well a model does.

Three of the four strategies in the authors' code are reproduced from their logs: what each attempt saw is read from the
prompt that its model got, and compared with the log. The tests play the fourth, `last_trial_and_reflexion`, on a
made-up log: the authors' own (`root/last_trial_reflect_cot_context`) was not among the files at hand. The authors drop
long observations from last attempts above 1,600 tokens, this loop drops the middle above 2,000; none is so long."""


def page(played: Iterable[Played]) -> str:
    """Return the whole page."""
    return "\n\n".join([_INTRODUCTION, *map(story, played)]) + "\n"


def figures_of(played: Iterable[Played]) -> dict[str, Any]:
    """Return the figures of the page."""
    return {
        each.run.name: {
            "model": each.run.model,
            "strategy": each.run.strategy,
            "reminded": each.reminded,
            "ours": [asdict(row) for row in rows(each.ours, each.run.n_trials)],
            "logged": [asdict(row) for row in rows(each.logged, each.run.n_trials)],
            "steps": each.steps,
            "reflections": each.lessons,
            "mismatches": each.mismatches,
            "notes": each.notes,
        }
        for each in played
    }
