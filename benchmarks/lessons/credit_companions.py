"""``python -m benchmarks.lessons.credit_companions``: who gets the credit of lessons that are recalled together?

A lesson that helps is always recalled with one that does nothing, or with one that harms. Withholding, counters of
successes and a Q-value each rank them after the same number of attempts.
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


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts of many libraries (libraries x attempts): who was withheld (x lessons), and the scores of both tasks.

    ``scores`` are those at a hard task, with the first three lessons, and at an easy one, with the last.
    """

    lacks: Numbers
    scores: Numbers


def attempts(rng: np.random.Generator, libraries: int, number: int, share: float) -> Attempts:
    """Draw attempts in which each lesson is withheld by itself with this probability."""
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
    """Rank by successes less failures of the attempts that had a lesson, as ACE's helpful and harmful counters."""
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
    """Rank by the shrunken lift; also what the rule says of each lesson."""
    libraries = len(played.lacks)
    found, kinds = np.zeros((libraries, len(EFFECTS))), list[list[str]]()
    for library in range(libraries):
        mine: list[Cells] = [{(SHARE,): cells(played, number, library, n)} for n in range(len(EFFECTS))]
        found[library] = [utility(lift(each, least=2), Prior()) for each in mine]
        kinds.append([judge(each).kind for each in mine])
    return found, kinds


_PAGE: Final = """\
# Credit: the cause and its companion

**What explains it.** It is the withholding that tells the cause from its companion, and not the formula: counters over
the same withheld attempts rank companions as well as the lift does. Without withholding no formula can: they are equal
by design. Only between lessons of different tasks does the formula matter: there counters and Q-values rank by how easy
the tasks are. **What it costs**: {price}. And a verdict ("helps", "retire")
comes much later than a better rank (last table).

{libraries} libraries of four lessons (seed {seed}). Three are recalled together for each hard task (solved without
them in {hard}): the *cause* (+20 points), an *idle* companion (0) and a *harmful* one (-10). The
fourth, idle too, is recalled by itself for easy tasks ({easy}). So many attempts at hard tasks, and as many at
easy ones.
*Withholding*: each lesson is withheld from {share:.0%} of its recalls; ranked by its lift. *Counters*: +1 for a lesson
that a success had and -1 for a failure, as the helpful and harmful counts of ACE (Zhang et al. 2025, arXiv 2510.04618);
there a model that reads the attempt tags the lessons, which could do better or worse than the outcome. *Q-value*:
Q + {step} (score - Q) from a half, as in MemRL (Zhang et al. 2026, arXiv 2601.03192). Both once as they are, with all
lessons in all attempts, and once over the very attempts that withheld lessons. The question was raised with RoMeRL
(arXiv 2608.02508), of which no copy could be read here. A cell is how often the first is ranked above the second,
equals by half, with its 95 % Wilson interval.

```
{command}
```
{minutes:.1f} minutes.

{tables}

## What the rule says

Of lessons after so many attempts: said to help, and retired.

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
    """Draw the attempts, rank the lessons, print the tables and write them to a file."""
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
        said = [
            counted_share(wilson(sum(each[lesson] == kind for each in kinds), libraries))
            for lesson, kind in ((CAUSE, "helps"), (IDLE, "helps"), (IDLE, "retire"), (HARM, "retire"))
        ]
        verdicts.append([str(number), *said])
    heads = (
        "attempts",
        "withholding",
        "counters",
        "Q-value",
        "counters, withheld too",
        "Q-value, withheld too",
    )
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
            f"## {question.capitalize()}\n\n{table(heads, rows)}" for question, rows in tables.items()
        ),
        verdicts=table(
            (
                "attempts",
                "cause: helps",
                "idle companion: helps",
                "idle companion: retired",
                "harmful companion: retired",
            ),
            verdicts,
        ),
    )
    write_result(out, "lessons_credit_companions", {"ranks": tables, "verdicts": verdicts}, text)
    click.echo(text)


if __name__ == "__main__":
    main()
