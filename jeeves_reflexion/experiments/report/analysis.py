"""The figures of a report as values: arms held against a baseline in pairs of tasks, and what that shows in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jeeves_reflexion.errors import ConfigurationError
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
from jeeves_reflexion.experiments.results import Cost, Curve, Results, Split
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import Lift

_HARDLY: Final = 0.75
_BASELINES: Final[tuple[ArmName, ...]] = ("retry", "react", "last-attempt")


@dataclass(frozen=True, slots=True)
class Compared:
    """An arm held against the baseline at one trial, over the tasks of the ``seeds`` that both finished.

    ``p_holm`` is the p of the sign-flip test, adjusted for all comparisons of its table (Holm 1979). ``words`` say what
    the comparison shows.
    """

    arm: ArmName
    baseline: ArmName
    trial: int
    seeds: int
    difference: PairedDifference
    p_holm: float
    words: str


@dataclass(frozen=True, slots=True)
class Part:
    """The figures of one part of the tasks (learned from, or held out) in the eyes of one judge."""

    judge: JudgedBy
    split: Split
    tasks: int
    trials: int
    success: tuple[Curve, ...]
    compared: tuple[Compared, ...]
    costs: dict[ArmName, Cost]


@dataclass(frozen=True, slots=True)
class LessonUse:
    """A lesson: how often it was offered, how often the try then passed, and its lift as last known.

    The share that passed says nothing of what the lesson did: it was offered where it seemed to fit. ``lift`` does,
    since it compares with tries that it was withheld from by chance; None where that was never done.
    """

    arm: ArmName
    text: str
    offered: int
    passed: int
    lift: Lift | None

    @property
    def lift_text(self) -> str:
        """Its lift in score with the 95 % interval, as a page shows it."""
        lift = self.lift
        if lift is None or lift.value is None:
            return "unknown"
        bounds = "" if lift.low is None or lift.high is None else f" ({lift.low:+.2f} to {lift.high:+.2f})"
        return f"{lift.value:+.2f}{bounds}"


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of ``results``. ``parts`` keeps judges apart, and held-out tasks apart from the others.

    ``unit`` is what a task is called.
    """

    title: str
    results: Results
    baseline: ArmName
    parts: tuple[Part, ...]
    lessons: tuple[LessonUse, ...]
    unit: str = "task"


def make_report(
    results: Results, *, title: str = "Experiment", baseline: ArmName | None = None, unit: str = "task"
) -> Report:
    """Return the figures of an experiment, finished or not; arms are held against ``baseline``.

    ``unit`` is what a task is called, such as ``question``. Without a baseline it is the first of retry, react,
    last-attempt that was run, else the first arm. Raises :class:`ConfigurationError` for a baseline
    that was not run.
    """
    if baseline is not None and baseline not in results.arms:
        raise ConfigurationError(
            f"the baseline {baseline!r} is no arm of this run: choose from {', '.join(results.arms)}"
        )
    base = baseline or baseline_of(results.arms)
    parts = (_part(results, judge, split, base, unit) for judge in results.judges for split in results.splits)
    return Report(title, results, base, tuple(parts), _lesson_uses(results), unit)


def baseline_of(arms: Sequence[ArmName]) -> ArmName:
    """Return what the other arms are held against unless somebody says so: further tries without memory, if there."""
    return next((arm for arm in _BASELINES if arm in arms), arms[0])


def _part(results: Results, judge: JudgedBy, split: Split, baseline: ArmName, unit: str) -> Part:
    return Part(
        judge,
        split,
        len(results.tasks_of(split)),
        results.trials_of(split),
        tuple(results.curve(arm, by=judge, split=split) for arm in results.arms),
        _comparisons(results, judge, split, baseline, unit),
        {arm: results.cost(arm, by=judge, split=split) for arm in results.arms},
    )


def _comparisons(
    results: Results, judge: JudgedBy, split: Split, baseline: ArmName, unit: str
) -> tuple[Compared, ...]:
    """Hold each arm against the baseline at the second and at the last trial; arms without a seed in common are out."""
    last = results.trials_of(split)
    verdicts = {
        arm: {
            seed: {task: results.solved(tries, judge) for task, tries in by_task.items()}
            for seed, by_task in results.finished(arm, split).items()
        }
        for arm in results.arms
    }
    found = []
    for trial in sorted({min(2, last), last}):
        for arm in results.arms:
            seeds = [seed for seed in results.seeds if seed in verdicts[arm] and seed in verdicts[baseline]]
            if arm == baseline or not seeds:
                continue
            first, second = (
                {
                    task.id: [float(verdicts[each][seed][task.id][trial - 1]) for seed in seeds]
                    for task in results.tasks_of(split)
                }
                for each in (baseline, arm)
            )
            difference = paired_difference(first, second)
            words = comparison_words(difference, unit=unit)
            found.append(Compared(arm, baseline, trial, len(seeds), difference, difference.p, words))
    adjusted = holm([each.difference.p for each in found])
    return tuple(_with_holm(each, p, len(found)) for each, p in zip(found, adjusted, strict=True))


def _with_holm(each: Compared, p: float, n: int) -> Compared:
    words = each.words
    if each.difference.p < LEVEL <= p:
        words += f"; as one of {n} comparisons it is not settled (Holm p = {p:.2f})"
    return replace(each, p_holm=p, words=words)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number by the step-down rule of Holm (1979)."""
    adjusted = [1.0] * len(ps)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = highest
    return adjusted


def comparison_words(found: PairedDifference, *, unit: str = "task") -> str:
    """Say what a comparison shows, by its one test; where that is nothing, which difference it would have found."""
    told = f"{in_words(found, found.tasks, unit=unit)}, p = {found.p:.2g}"
    if found.better or found.worse:
        return told
    hardly = f"{told}; so few {unit}s would hardly show any"
    if found.tasks < FEWEST:
        return hardly
    if found.standard_error == 0.0:
        return f"{told}; all {unit}s differ alike, which tells nothing of what could be found"
    needed = detectable(found.standard_error)
    if needed >= _HARDLY:
        return hardly
    return f"{told}; about {100 * needed:.0f} points would be needed for 80 % power"


def _lesson_uses(results: Results) -> tuple[LessonUse, ...]:
    """Return the lessons that were offered or withheld, the most offered first."""
    uses: dict[tuple[ArmName, str], LessonUse] = {}
    for row in results.rows:
        recall = row.trial.recall
        for item in (*recall.offered, *recall.withheld) if recall else ():
            text = item.lesson.text
            use = uses.get((row.arm, text)) or LessonUse(row.arm, redact(text), 0, 0, None)
            shown = recall is not None and item in recall.offered
            uses[row.arm, text] = replace(
                use,
                offered=use.offered + shown,
                passed=use.passed + (shown and row.trial.passed),
                lift=_later(use.lift, item.lift),
            )
    return tuple(sorted(uses.values(), key=lambda use: -use.offered))


def _later(known: Lift | None, new: Lift | None) -> Lift | None:
    """The one that rests on more tries, which is the later one of a ledger that grows."""
    if known is None or new is None:
        return known or new
    return new if new.n_with + new.n_without >= known.n_with + known.n_without else known
