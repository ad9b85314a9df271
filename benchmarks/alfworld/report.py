"""What a person reads at the end of a run."""

from __future__ import annotations

from jeeves_reflexion.experiments import ArmName, cost_table
from jeeves_reflexion.experiments.results import total

from ..report import three_of
from .experiment import Finished, Setting

SHOWN_STEPS = 4
_GO = "go to "
_MEMORIES: tuple[ArmName, ...] = ("selective", "own", "monotonic")


def summary(finished: Finished, setting: Setting) -> str:
    """Return the learning curves, three lessons and where things are, as plain text."""
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
