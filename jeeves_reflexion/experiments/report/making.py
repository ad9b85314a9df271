"""From results to a report's figures."""

from __future__ import annotations

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.comparisons import pass_at_k, pass_hat_k
from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.comparing import baseline_of, compare
from jeeves_reflexion.experiments.report.reading import Played, Run, read
from jeeves_reflexion.experiments.report.values import (
    LessonUse,
    Part,
    Reliability,
    Report,
    Spent,
    Success,
)
from jeeves_reflexion.experiments.results import Point, Results, Split, total
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.statistics import wilson
from jeeves_reflexion.types import Lift, Usage


def make_report(
    results: Results, *, title: str = "Experiment", baseline: ArmName | None = None, unit: str = "task"
) -> Report:
    """Return the figures of an experiment, finished or not; arms are held against ``baseline``.

    ``unit`` is what a task is called, such as ``question``. Without a baseline it is the first
    of retry, react, last-attempt that was run, else the first arm. Raises :class:`ConfigurationError` for a baseline
    that was not run.
    """
    run = read(results)
    if baseline is not None and baseline not in run.arms:
        raise ConfigurationError(
            f"the baseline {baseline!r} is no arm of this run: choose from {', '.join(run.arms)}"
        )
    base = baseline or baseline_of(run.arms)
    trials = [row.trial for row in results.rows]
    return Report(
        title,
        run.arms,
        base,
        run.seeds,
        run.trials,
        run.judges,
        len(run.tasks),
        len(run.held_out),
        len(trials),
        sum(trial.attempt.error is not None for trial in trials),
        sum(not trial.evaluation.scored for trial in trials),
        redact(run.interrupted),
        tuple(_part(run, judge, split, base, unit) for judge in run.judges for split in run.splits),
        lesson_uses(run),
        unit,
    )


def _part(run: Run, judge: JudgedBy, split: Split, baseline: ArmName, unit: str) -> Part:
    return Part(
        judge,
        split,
        len(run.tasks_of(split)),
        run.trials_of(split),
        tuple(_success(run, arm, judge, split) for arm in run.arms),
        compare(run, judge, split, baseline, unit=unit),
        tuple(each for arm in run.arms for each in _reliability(run, arm, judge, split)),
        tuple(_spent(run, arm, judge, split) for arm in run.arms),
    )


def _success(run: Run, arm: ArmName, judge: JudgedBy, split: Split) -> Success:
    seeds = run.finished(arm, split)
    verdicts = [
        run.solved(played, judge) for seed in seeds for played in run.played[arm, seed, split].values()
    ]
    if not verdicts:
        return Success(arm, 0, ())
    points = (
        Point(trial + 1, wilson(sum(each[trial] for each in verdicts), len(verdicts)))
        for trial in range(run.trials_of(split))
    )
    return Success(arm, len(seeds), tuple(points))


def _reliability(run: Run, arm: ArmName, judge: JudgedBy, split: Split) -> list[Reliability]:
    seeds = run.finished(arm, split)
    n = len(seeds)
    if n < 2:
        return []
    solved = [
        sum(run.solved(run.played[arm, seed, split][task.id], judge)[-1] for seed in seeds)
        for task in run.tasks_of(split)
    ]
    return [
        Reliability(
            arm,
            k,
            n,
            sum(pass_at_k(n, c, k) for c in solved) / len(solved),
            sum(pass_hat_k(n, c, k) for c in solved) / len(solved),
        )
        for k in range(1, n + 1)
    ]


def _spent(run: Run, arm: ArmName, judge: JudgedBy, split: Split) -> Spent:
    played = run.all_played(arm, split)
    # Success is told of finished seeds alone, and so are the tokens that it is held against.
    seeds = run.finished(arm, split)
    whole = [each for each in played if each.seed in seeds]
    rows = [row for each in played for row in each.tries]
    used = total(rows)
    known = _tokens_known(used)
    priced = used.cost_usd if used.calls else None
    return Spent(
        arm,
        len(rows),
        len(played),
        sum(run.solved(each, judge)[-1] for each in played),
        sum(row.trial.seconds for row in rows),
        used.tokens if known else None,
        priced,
        _tokens_by_trial(whole, run.trials_of(split)) if known and whole else None,
    )


def _tokens_known(used: Usage) -> bool:
    return used.calls > 0 and used.unreported == 0


def _tokens_by_trial(played: list[Played], trials: int) -> tuple[float, ...]:
    used = [
        sum(row.usage.tokens for each in played for row in each.tries if row.trial.number <= trial)
        for trial in range(1, trials + 1)
    ]
    return tuple(tokens / len(played) for tokens in used)


def lesson_uses(run: Run) -> tuple[LessonUse, ...]:
    """Return the lessons that were offered or withheld, those with a known lift first, then the most used."""
    counts: dict[tuple[ArmName, str], tuple[int, int, Lift | None]] = {}
    for split in run.splits:
        for arm in run.arms:
            for row in (row for each in run.all_played(arm, split) for row in each.tries):
                if row.trial.recall is None:
                    continue
                for item in (*row.trial.recall.offered, *row.trial.recall.withheld):
                    offered, passed, lift = counts.get((arm, item.lesson.text), (0, 0, None))
                    shown = item in row.trial.recall.offered
                    counts[arm, item.lesson.text] = (
                        offered + shown,
                        passed + (shown and row.trial.passed),
                        _later(lift, item.lift),
                    )
    uses = [LessonUse(arm, redact(text), *count) for (arm, text), count in counts.items()]
    known = [use for use in uses if use.lift and use.lift.value is not None]
    known.sort(key=lambda use: -(use.lift.value or 0.0) if use.lift else 0.0)
    rest = [use for use in uses if not (use.lift and use.lift.value is not None)]
    return (*known, *sorted(rest, key=lambda use: -use.offered))


def _later(known: Lift | None, new: Lift | None) -> Lift | None:
    """The one that rests on more tries, which is the later one of a ledger that grows."""
    if known is None or new is None:
        return known or new
    return new if new.n_with + new.n_without >= known.n_with + known.n_without else known
