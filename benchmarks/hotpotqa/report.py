"""What a person reads of a run: EM and F1 by trial, held-out questions, comparisons in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from jeeves_reflexion.experiments import Split, cost_table
from jeeves_reflexion.experiments.comparisons import in_words
from jeeves_reflexion.statistics import Difference
from vectorstores import JSON

from ..report import level, percent, table, three_of
from .evaluators import JudgeName
from .experiment import CONTROL, Finished, Setting
from .outcomes import (
    Metric,
    Outcome,
    arms_in,
    gain,
    standing,
)

_METRICS: Final[tuple[Metric, ...]] = ("em", "f1")
_JUDGED: Final[dict[JudgeName, str]] = {
    "oracle": "the gold answer (exact match) says whether an attempt was right",
    "self": "a judge without the gold answer says so, and EM and F1 are measured afterwards",
}
_PLACEBO: Final = ("irrelevant", "selective")


def page(runs: Sequence[Finished], command: str) -> str:
    """Return the results page of runs that differ in their judge; each has tables of its own."""
    setting = runs[0].setting
    parts = [f"# HotpotQA, {_player(setting)}", "", _design(setting), "", "```", command, "```", ""]
    for finished in runs:
        parts += [f"## Judged by {finished.setting.judge}: {_JUDGED[finished.setting.judge]}", ""]
        parts += [summary(finished), ""]
    return "\n".join(parts)


def summary(finished: Finished) -> str:
    """Return the tables of one run, what they show, and three of its lessons, in Markdown."""
    setting, rows = finished.setting, finished.outcomes
    lines = [
        f"Learning questions, judged by {setting.judge}: what the standing answers are worth after each trial.",
        "",
    ]
    lines += [_learning_table(rows, setting.plan.trials), ""]
    lines += list(_comparisons(rows, "learning", setting.plan.trials))
    if arms_in(rows, "held-out"):
        lines += ["", "Held-out questions, one attempt each, with the lessons of the learning questions:", ""]
        lines += [_held_out_table(rows), *_without_lessons(rows), ""]
        lines += list(_comparisons(rows, "held-out", 1))
    lines += ["", _tries(rows), "", cost_table(finished.costs)]
    if finished.interrupted:
        lines += ["", f"It did not come to its end: {finished.interrupted}. Go on with --resume"]
    if finished.lessons:
        lines += [
            "",
            "Three lessons that it wrote:",
            "",
            *(f"- {text}" for text in three_of(finished.lessons)),
        ]
    return "\n".join(lines)


def figures(finished: Finished) -> dict[str, JSON]:
    """Return the same figures as JSON."""
    rows, trials = finished.outcomes, finished.setting.plan.trials
    found: dict[str, JSON] = {"judged_by": finished.setting.judge}
    stages: tuple[tuple[Split, int], ...] = (("learning", trials), ("held-out", 1))
    for split, last in stages:
        found[split] = {
            arm: [
                {
                    "trial": trial,
                    **{
                        metric: _as_json(level(standing(rows, split, arm, trial, metric)))
                        for metric in _METRICS
                    },
                    "questions": len(standing(rows, split, arm, trial, "em")),
                }
                for trial in range(1, last + 1)
            ]
            for arm in arms_in(rows, split)
        }
    found["costs"] = {arm: cost.as_json() for arm, cost in finished.costs.items()}
    found["interrupted"] = finished.interrupted
    found["lessons"] = len(finished.lessons)
    return found


def _learning_table(rows: Sequence[Outcome], trials: int) -> str:
    return table(
        ["arm", "", *(f"trial {trial}" for trial in range(1, trials + 1))],
        [
            (
                arm,
                metric.upper(),
                *tuple(
                    percent(level(standing(rows, "learning", arm, t, metric)), 1)
                    for t in range(1, trials + 1)
                ),
            )
            for arm in arms_in(rows, "learning")
            for metric in _METRICS
        ],
    )


def _held_out_table(rows: Sequence[Outcome]) -> str:
    cells = []
    for arm in _telling(rows, "held-out"):
        tried = [row for row in rows if row.split == "held-out" and row.arm == arm]
        recalled = sum(row.recalled for row in tried) / len(tried)
        em, f1 = (percent(level(standing(rows, "held-out", arm, 1, metric)), 1) for metric in _METRICS)
        questions = len({row.question for row in tried})
        cells.append((_named(arm), f"{questions}, {len(tried)} attempts", f"{recalled:.1f}", em, f1))
    return table(["arm", "questions", "lessons recalled", "EM", "F1"], cells)


def _without_lessons(rows: Sequence[Outcome]) -> Iterator[str]:
    """Name the arms that the table leaves out: an arm is not to be missing without a word."""
    told = _telling(rows, "held-out")
    silent = [arm for arm in arms_in(rows, "held-out") if arm not in told]
    if silent:
        yield ""
        yield f"No lesson was recalled for any held-out question, which is no memory: {', '.join(silent)}."


def _comparisons(rows: Sequence[Outcome], split: Split, trial: int) -> Iterator[str]:
    """Each arm against the control, and picked lessons against the placebo, in words."""
    arms = _telling(rows, split)
    pairs = [(CONTROL, arm) for arm in arms if arm != CONTROL]
    for first, second in [*pairs, _PLACEBO]:
        if not {first, second} <= set(arms):
            continue
        scores = {m: [standing(rows, split, each, trial, m) for each in (first, second)] for m in _METRICS}
        found = {m: gain(*scores[m]) for m in _METRICS}
        said = "; ".join(
            f"{m.upper()}: {in_words(each, each.tasks, what='it', unit='question')}, p = {each.p:.2g}"
            for m, each in found.items()
        )
        em = found["em"]
        yield (
            f"- {second} against {_named(first) if split == 'held-out' else first}: {said}; EM is higher on"
            f" {em.only_second} questions and lower on {em.only_first}"
        )


def _telling(rows: Sequence[Outcome], split: Split) -> list[str]:
    """The arms of a split; of held-out questions only those that had something to tell, and the control."""
    arms = arms_in(rows, split)
    if split == "learning":
        return arms
    recalled = {arm: sum(r.recalled for r in rows if r.split == split and r.arm == arm) for arm in arms}
    return [arm for arm in arms if arm == CONTROL or recalled[arm]]


def _tries(rows: Sequence[Outcome]) -> str:
    halted, errors = sum(row.halted for row in rows), sum(row.error for row in rows)
    tokens = sum(row.tokens for row in rows)
    used = f"; {tokens:,} tokens" if tokens else ""
    return (
        f"{len(rows)} attempts, {halted} cut short, {errors} ended in an error (both count as wrong){used}."
    )


def _design(setting: Setting) -> str:
    plan = setting.plan
    where = {
        "question": "the question's own paragraphs",
        "bm25": "an index of all paragraphs (BM25)",
    }[setting.pages]
    seen = f"paragraphs in the prompt: {setting.context}" if setting.agent == "cot" else f"pages: {where}"
    tried = f"{len(setting.questions)} questions x {len(plan.seeds)} seeds, {plan.trials} trials, {seen};"
    recalled = (
        f"k = {plan.k}, similarity floor {setting.settings.min_similarity:g}, key {setting.settings.key}"
    )
    held = f"{plan.holdout:.0%} of the questions held out, drawn anew for each seed"
    return (
        f"{tried} {setting.step_limit} steps an attempt; {recalled}; {held}. EM and F1 by the official definitions;"
        " a question counts by the mean of its seeds. Intervals are of 95 %, over questions: Wilson for levels, for"
        " differences what the sign-flip test over questions does not reject, whose p is told (Bonett and Price 2012"
        " where that is wider); each comparison stands alone, none is corrected for their number."
    )


def _player(setting: Setting) -> str:
    return f"{setting.agent} with {setting.model.name}"


def _named(arm: str) -> str:
    return "no memory" if arm == CONTROL else arm


def _as_json(found: Difference) -> dict[str, JSON]:
    return {"value": round(found.value, 4), "low": round(found.low, 4), "high": round(found.high, 4)}
