"""``python -m benchmarks.lessons.credit_companions``: which of several lessons recalled together gets the credit?

A helpful lesson is always recalled with an idle one and a harmful one. Withholding, counters of successes and a Q-value
each rank them after the same number of attempts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import numpy as np

from benchmarks.lessons.credit_play import Numbers
from benchmarks.report import counted_share, out_option, percent, table, write_result
from jeeves_reflexion.lessons.credit.effects import Cell, Cells, Prior, judge, lift, utility
from jeeves_reflexion.statistics import wilson

CAUSE, IDLE, HARM, EASY = range(4)
EFFECTS: Final = np.array([0.2, 0.0, -0.1, 0.0])
HARD_TASKS: Final = (0.1, 0.5)  # the first three lessons are recalled for these
EASY_TASKS: Final = (0.6, 0.9)
ATTEMPTS: Final = (50, 100, 200, 400, 800, 1600)
SHARE: Final = 0.2
STEP: Final = 0.1  # of the Q-value
_QUESTIONS: Final = {
    "cause above idle companion": (CAUSE, IDLE),
    "cause above harmful companion": (CAUSE, HARM),
    "cause above idle lesson of easy tasks": (CAUSE, EASY),
    "idle above harmful companion": (IDLE, HARM),
}
_VERDICTS: Final = {
    "cause: helps": (CAUSE, "helps"),
    "idle companion: helps": (IDLE, "helps"),
    "idle companion: retired": (IDLE, "retire"),
    "harmful companion: retired": (HARM, "retire"),
}


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts of many libraries: which lessons lack (libraries x attempts x lessons), and the scores.

    ``scores`` are those at a hard task, with the first three lessons, and at an easy task, with the last lesson.
    """

    lacks: Numbers
    scores: Numbers


def attempts(rng: np.random.Generator, libraries: int, number: int, share: float) -> Attempts:
    """Draw attempts in which each lesson is withheld independently with this probability."""
    lacks = rng.random((libraries, number, len(EFFECTS))) < share
    effect = ((~lacks) * EFFECTS)[:, :, :EASY].sum(2)
    hard = rng.uniform(*HARD_TASKS, (libraries, number)) + effect
    easy = rng.uniform(*EASY_TASKS, (libraries, number))
    scores = rng.random((2, libraries, number)) < np.stack([hard, easy])
    return Attempts(lacks, scores.astype(float))


def _scores(played: Attempts, lesson: int) -> Numbers:
    hard, easy = played.scores
    return np.asarray(easy if lesson == EASY else hard)


def counters(played: Attempts, number: int) -> Numbers:
    """Rank by successes minus failures of the attempts that had a lesson, like ACE's helpful and harmful counters."""
    return np.stack(
        [
            ((2 * _scores(played, n) - 1) * ~played.lacks[:, :, n])[:, :number].sum(1)
            for n in range(len(EFFECTS))
        ],
        axis=1,
    )


def q_values(played: Attempts, number: int) -> Numbers:
    """Rank by Q <- Q + step (score - Q), from a half, over the attempts that had a lesson."""
    found = np.full((len(played.lacks), len(EFFECTS)), 0.5)
    for at in range(number):
        for n in range(len(EFFECTS)):
            step = STEP * ~played.lacks[:, at, n]
            found[:, n] += step * (_scores(played, n)[:, at] - found[:, n])
    return found


def cells(played: Attempts, number: int, library: int, lesson: int) -> Cell:
    """Return the attempts of a lesson as the ledger compares them."""
    lacks, scores = played.lacks[library, :number, lesson], _scores(played, lesson)[library, :number]
    without = int(lacks.sum())
    return Cell(number - without, float(scores[~lacks].sum()), without, float(scores[lacks].sum()))


def lifts(played: Attempts, number: int) -> tuple[Numbers, list[list[str]]]:
    """Rank by the shrunken lift; also return the rule's verdict on each lesson."""
    libraries = len(played.lacks)
    found, kinds = np.zeros((libraries, len(EFFECTS))), list[list[str]]()
    for library in range(libraries):
        mine: list[Cells] = [{(SHARE,): cells(played, number, library, n)} for n in range(len(EFFECTS))]
        found[library] = [utility(lift(each, least=2), Prior()) for each in mine]
        kinds.append([judge(each).kind for each in mine])
    return found, kinds


_PAGE: Final = """\
# Credit: the cause and its companion

**Explanation.** The withholding, not the formula, distinguishes the cause from its companions: counters over the same
withheld attempts rank companions as well as the lift does. Without withholding no formula can, because they are equal
by design. The formula matters only between lessons of different tasks: there counters and Q-values rank by how easy
the tasks are. **Price**: {price}. And a verdict ("helps", "retire")
comes much later than a better rank (last table).

{libraries} libraries of four lessons (seed {seed}). Three are recalled together for each hard task (solved without
them in {hard}): the *cause* (+20 points), an *idle* companion (0) and a *harmful* one (-10). The
fourth, also idle, is recalled alone for easy tasks ({easy}). *Attempts* are those at hard tasks; there are as many at
easy ones.
*Withholding*: each lesson is withheld from {share:.0%} of its recalls and ranked by its lift. *Counters*: +1 for a
lesson in a success and -1 in a failure, like the helpful and harmful counts of ACE (Zhang et al. 2025, arXiv
2510.04618); there a model reads the attempt and tags the lessons, which could be better or worse than the outcome.
*Q-value*: Q + {step} (score - Q), starting at a half, as in MemRL (Zhang et al. 2026, arXiv 2601.03192). Both are
computed once with all lessons in all attempts, and once over the same attempts as withholding. The question was raised
with RoMeRL (arXiv 2608.02508), which could not be read here. A cell says how often the first lesson ranks above the
second (ties count half), with its 95 % Wilson interval.

```
{command}
```
{minutes:.1f} minutes.

{tables}

## Verdicts of the rule

The lessons that the rule says help, and those it retires, by the number of attempts.

{verdicts}
"""


def _above(ranks: Numbers, first: int, second: int) -> str:
    wins = (ranks[:, first] > ranks[:, second]) + 0.5 * (ranks[:, first] == ranks[:, second])
    return percent(wilson(round(float(wins.sum())), len(ranks)))


@click.command()
@click.option("--libraries", type=click.IntRange(min=10), default=500, show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option("lessons_credit_companions.md and .json")
def main(*, libraries: int, seed: int, out: Path) -> None:
    """Draw the attempts, rank the lessons, and print and write the tables."""
    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    plain, drawn = (attempts(rng, libraries, ATTEMPTS[-1], share) for share in (0.0, SHARE))
    tables = {question: list[list[str]]() for question in _QUESTIONS}
    verdicts = []
    for number in ATTEMPTS:
        by_lift, kinds = lifts(drawn, number)
        ways = [by_lift, *(way(played, number) for played in (plain, drawn) for way in (counters, q_values))]
        for question, (first, second) in _QUESTIONS.items():
            tables[question].append([str(number), *(_above(ranks, first, second) for ranks in ways)])
        shares = (
            counted_share(wilson(sum(each[lesson] == kind for each in kinds), libraries))
            for lesson, kind in _VERDICTS.values()
        )
        verdicts.append([str(number), *shares])
    ways_by_name = ("withholding", "counters", "Q-value", "counters, withheld too", "Q-value, withheld too")
    lost = 100 * (plain.scores[0].mean() - drawn.scores[0].mean())
    command = f"python -m benchmarks.lessons.credit_companions --libraries {libraries} --seed {seed}"
    text = _PAGE.format(
        libraries=libraries,
        seed=seed,
        hard=f"{HARD_TASKS[0]:.0%} to {HARD_TASKS[1]:.0%} of tries",
        easy=f"{EASY_TASKS[0]:.0%} to {EASY_TASKS[1]:.0%}",
        share=SHARE,
        step=STEP,
        price=f"{lost:.1f} points of success at the hard tasks of these libraries",
        command=command,
        minutes=(time.perf_counter() - started) / 60,
        tables="\n\n".join(
            f"## {question.capitalize()}\n\n{table(('attempts', *ways_by_name), rows)}"
            for question, rows in tables.items()
        ),
        verdicts=table(("attempts", *_VERDICTS), verdicts),
    )
    write_result(out, "lessons_credit_companions", {"ranks": tables, "verdicts": verdicts}, text)
    click.echo(text)


if __name__ == "__main__":
    main()
