"""The figures of a run as JSON, which ``results.json`` holds; docs/experiments.md describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from jeeves_reflexion.experiments.arms import ARMS, ArmName, arm_of
from jeeves_reflexion.experiments.results import Cost, Results
from jeeves_reflexion.statistics import Share
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import JSON

RESULTS_FORMAT: Final = 1


def figures(results: Results) -> dict[str, JSON]:
    """Return the figures of all arms, separately for each judge."""
    by_judge: dict[str, dict[str, JSON]] = {judge: {} for judge in results.judges}
    for judge in results.judges:
        for arm in results.arms:
            held = results.transfer(arm, by=judge) if results.held_out else None
            points = results.curve(arm, by=judge).points
            by_judge[judge][arm] = {
                "what": ARMS[arm_of(arm).kind],
                "curve": [{"trial": point.trial, **_share(point.share)} for point in points],
                "transfer": None if held is None else _share(held),
                "lessons": len(results.lessons(arm)),
            }
    return {
        "format": RESULTS_FORMAT,
        "complete": not results.interrupted,
        "interrupted": results.interrupted,
        "judged_by": results.judged_by,
        "learning_tasks": len(results.tasks),
        "held_out_tasks": len(results.held_out),
        "seeds": list(results.seeds),
        "trials": results.trials,
        "tries": len(results.rows),
        "tries_with_errors": results.errors,
        "by_judge": by_judge,
        "costs": {arm: results.cost(arm).as_json() for arm in results.arms},
    }


def _share(share: Share) -> dict[str, JSON]:
    return {
        "solved": share.successes,
        "n": share.n,
        "share": round(share.value, 6),
        "low": round(share.low, 6),
        "high": round(share.high, 6),
    }


COST_HEADS: Final = (
    "arm",
    "tries",
    "solved",
    "calls",
    "tokens",
    "USD",
    "seconds",
    "tokens / solved",
    "USD / solved",
    "s / solved",
)


def cost_rows(costs: Mapping[ArmName, Cost]) -> tuple[tuple[str, ...], ...]:
    """Return each arm's cost, in all and per solved task, under :data:`COST_HEADS`; ``-`` for an unknown figure."""
    rows = []
    for arm, cost in costs.items():
        tokens, usd = (cost.known.tokens, cost.known.cost_usd) if cost.known else (None, None)
        amounts = (
            (tokens, ",.0f"),
            (usd, ".4f"),
            (cost.seconds, ",.1f"),
            (cost.per_solved(tokens), ",.0f"),
            (cost.per_solved(usd), ".4f"),
            (cost.per_solved(cost.seconds), ",.2f"),
        )
        cells = ["-" if amount is None else format(amount, form) for amount, form in amounts]
        rows.append((arm, f"{cost.tries:,}", f"{cost.solved:,}", f"{cost.usage.calls:,}", *cells))
    return tuple(rows)


def cost_note(costs: Mapping[ArmName, Cost]) -> str:
    """Say which figures are unknown, if any."""
    if not any(cost.known for cost in costs.values()):
        return "No model call was reported: tokens and cost are unknown."
    if any(cost.usage.unreported for cost in costs.values()):
        return "Some calls did not report their tokens: the true figures are at least those above."
    return ""


def cost_table(costs: Mapping[ArmName, Cost]) -> str:
    """Return the cost of each arm, in all and per solved task, as a Markdown table."""
    note = cost_note(costs)
    return markdown_table(COST_HEADS, cost_rows(costs)) + (f"\n\n{note}" if note else "")


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; a cell is one line."""
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([one_line(str(cell)).replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
