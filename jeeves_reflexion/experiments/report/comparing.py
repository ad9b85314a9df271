"""Arms held against a baseline, in pairs of tasks, and what that shows in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.comparisons import (
    FEWEST,
    LEVEL,
    PairedDifference,
    detectable,
    in_words,
    paired_difference,
)
from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.reading import Run
from jeeves_reflexion.experiments.report.values import Compared
from jeeves_reflexion.experiments.results import Split

_HARDLY: Final = 0.75

_BASELINES: Final[tuple[ArmName, ...]] = ("retry", "react", "last-attempt")


def baseline_of(arms: Sequence[ArmName]) -> ArmName:
    """Return what the other arms are held against unless somebody says so: further tries without memory, if there."""
    return next((arm for arm in _BASELINES if arm in arms), arms[0])


def compare(
    run: Run, judge: JudgedBy, split: Split, baseline: ArmName, *, unit: str = "task"
) -> tuple[Compared, ...]:
    """Hold each arm against the baseline at the second and at the last trial; arms without a seed in common are out."""
    last = run.trials_of(split)
    found = [
        compared
        for trial in sorted({min(2, last), last})
        for arm in run.arms
        if arm != baseline and (compared := _compared(run, judge, split, (baseline, arm), trial, unit))
    ]
    adjusted = holm([each.difference.p for each in found])
    return tuple(_with_holm(each, p, len(found)) for each, p in zip(found, adjusted, strict=True))


def _with_holm(each: Compared, p: float, n: int) -> Compared:
    if each.difference.p < LEVEL <= p:
        each = replace(
            each, words=f"{each.words}; as one of {n} comparisons it is not settled (Holm p = {p:.2f})"
        )
    return replace(each, p_holm=p)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number by the step-down rule of Holm (1979)."""
    adjusted = [1.0] * len(ps)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = highest
    return adjusted


def words(found: PairedDifference, *, unit: str = "task") -> str:
    """Say what a comparison shows, by its one test; where that is nothing, which difference it would have found."""
    told = f"{in_words(found, found.tasks, unit=unit)}, p = {found.p:.2g}"
    if found.better or found.worse:
        return told
    if found.tasks < FEWEST:
        return f"{told}; so few {unit}s would hardly show any"
    if found.standard_error == 0.0:
        return f"{told}; all {unit}s differ alike, which tells nothing of what could be found"
    needed = detectable(found.standard_error)
    if needed >= _HARDLY:
        return f"{told}; so few {unit}s would hardly show any"
    return f"{told}; about {100 * needed:.0f} points would be needed for 80 % power"


def _compared(
    run: Run, judge: JudgedBy, split: Split, arms: tuple[ArmName, ArmName], trial: int, unit: str
) -> Compared | None:
    both = set(run.finished(arms[0], split)) & set(run.finished(arms[1], split))
    seeds = [seed for seed in run.seeds if seed in both]
    if not seeds:
        return None
    first, second = (_scores(run, judge, split, (arm, trial), seeds) for arm in arms)
    difference = paired_difference(first, second)
    told = words(difference, unit=unit)
    return Compared(arms[1], arms[0], trial, len(seeds), difference, difference.p, told)


def _scores(
    run: Run, judge: JudgedBy, split: Split, at: tuple[ArmName, int], seeds: Sequence[int]
) -> dict[str, list[float]]:
    arm, trial = at
    return {
        task.id: [
            float(run.solved(run.played[arm, seed, split][task.id], judge)[trial - 1]) for seed in seeds
        ]
        for task in run.tasks_of(split)
    }
