"""How often notes are taken back, rightly and for nothing: ``python -m benchmarks.tasknotes.rollbacks``.

Runs are drawn, not made: each is won with the chance that its version of the notes stands for, and each win makes a new
version, as in an ensemble.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import Final

import click

from jeeves_reflexion.tasknotes import NoteHistory, TaskReflection
from jeeves_reflexion.tasknotes.evolution import judged, with_reflection, with_score

SAME: Final = (0.3, 0.5, 0.8, 0.95)
FALLS: Final = ((0.9, 0.3, 20), (0.9, 0.3, 10), (0.9, 0.5, 10), (0.5, 0.1, 20))
RUNS: Final = 40
LATER: Final = 60


def for_nothing(draw: random.Random, chance: float) -> bool:
    """Whether anything is taken back within 40 runs whose notes make no difference."""
    history = NoteHistory("task")
    for run in range(RUNS):
        won = draw.random() < chance
        history, taken = judged(with_score(history, history.current, float(won)))
        if taken is not None:
            return True
        if won:
            history = with_reflection(history, _notes(run))
    return False


def runs_until_rollback(draw: random.Random, before: float, after: float, fall: int) -> int | None:
    """Return how many runs it takes until versions that are bad from run ``fall`` on are gone; None if over 60."""
    history = NoteHistory("task")
    bad: set[int] = set()
    since: int | None = None
    for run in range(fall + LATER):
        won = draw.random() < (after if history.current in bad else before)
        history, taken = judged(with_score(history, history.current, float(won)))
        if taken is not None and since is not None and history.current not in bad:
            return run - since
        if won:
            base = history.current
            history = with_reflection(history, _notes(run))
            if base in bad or (run >= fall and since is None):
                since = run if since is None else since
                bad.add(history.current)
    return None


def _notes(number: int) -> TaskReflection:
    return TaskReflection.of_first_run(f"instructions {number}", "")


@click.command()
@click.option(
    "--tasks", type=click.IntRange(min=1), default=300, show_default=True, help="Tasks of each case."
)
@click.option("--seed", type=int, default=1, show_default=True)
def main(tasks: int, seed: int) -> None:
    """Print the shares."""
    draw = random.Random(seed)
    for chance in SAME:
        share = sum(for_nothing(draw, chance) for _ in range(tasks)) / tasks
        click.echo(
            f"no difference at {chance}: taken back for nothing within {RUNS} runs in {share:.0%} of tasks"
        )
    for before, after, fall in FALLS:
        found = [runs_until_rollback(draw, before, after, fall) for _ in range(tasks)]
        click.echo(f"from {before} to {after} after {fall} runs: {_told(found)}")


def _told(found: Sequence[int | None]) -> str:
    delays = [each for each in found if each is not None]
    share = f"taken back in {len(delays) / len(found):.0%} of tasks"
    return f"{share}, half of them within {median(delays):g} runs" if delays else share


if __name__ == "__main__":
    main()
