"""The analysis that the protocol fixes: one test for each hypothesis, adjusted for their number in the family."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jeeves_reflexion.experiments import Split
from jeeves_reflexion.experiments.comparisons import LEVEL, PairedDifference, paired_difference
from jeeves_reflexion.experiments.report.analysis import holm
from jeeves_reflexion.types import JSON

from ..report import Scores, points, table
from .plan import HYPOTHESES, Benchmark, Family, Hypothesis, Run


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a hypothesis; ``found`` is None if its benchmark was not finished.

    ``p_holm`` is adjusted for all hypotheses of the family, including those without an answer.
    """

    hypothesis: Hypothesis
    found: PairedDifference | None
    p_holm: float | None = None

    @property
    def words(self) -> str:
        """The answer in words."""
        if self.found is None or self.p_holm is None:
            return "not played to the end"
        if self.p_holm >= LEVEL:
            return "not shown"
        return "shown" if self.found.value > 0 else "the opposite is shown"


def standing(folder: Path, arm: str, split: Split) -> Scores:
    """Return for each task whether its last try is right, one value per seed, by the scorer if there was one."""
    last: dict[tuple[str, int], float] = {}
    for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (row["arm"], row["split"]) == (arm, split):
            # Rows of a task come in the order of its trials.
            last[row["task_id"], row["seed"]] = float(row.get("scored", row)["passed"])
    scores: Scores = {}
    for (task, _), value in last.items():
        scores.setdefault(task, []).append(value)
    return scores


def answers(out: Path, runs: Sequence[Run]) -> list[Answer]:
    """Return the answer to every hypothesis, which is empty if its benchmark is not finished or not in ``runs``."""
    done = {run.benchmark: out / run.benchmark for run in runs if run.done(out)}
    found = [_found(each, done) for each in HYPOTHESES]
    adjusted: dict[Hypothesis, float] = {}
    families: tuple[Family, ...] = ("primary", "secondary")
    for family in families:
        members = [one for one in found if one.hypothesis.family == family]
        # A hypothesis without a test keeps its place with p = 1: leaving out a benchmark must not make others easier.
        ps = holm([1.0 if one.found is None else one.found.p for one in members])
        adjusted |= {one.hypothesis: p for one, p in zip(members, ps, strict=True)}
    return [
        Answer(one.hypothesis, one.found, None if one.found is None else adjusted[one.hypothesis])
        for one in found
    ]


def _found(each: Hypothesis, done: Mapping[Benchmark, Path]) -> Answer:
    folder = done.get(each.benchmark)
    if folder is None:
        return Answer(each, None)
    first, second = (standing(folder, arm, each.split) for arm in (each.first, each.second))
    # For transfer, rooms are held out: the folder of a game ends with the number of its room.
    rooms = {task: task.partition("/")[0].rpartition("-")[2] for task in first}
    return Answer(
        each, paired_difference(first, second, clusters=rooms if each.benchmark == "transfer" else None)
    )


def answers_table(found: Sequence[Answer]) -> str:
    """Return the answers as a table."""
    heads = ("family", "hypothesis", "tasks", "difference (95 %)", "p", "Holm p", "answer")
    rows = []
    for each in found:
        figures = ["-"] * 4
        if each.found is not None and each.p_holm is not None:
            figures = [str(each.found.tasks), points(each.found), f"{each.found.p:.4f}", f"{each.p_holm:.4f}"]
        rows.append((each.hypothesis.family, each.hypothesis, *figures, each.words))
    return table(heads, rows)


def answers_json(found: Sequence[Answer]) -> list[dict[str, JSON]]:
    """Return the same as JSON."""
    return [
        {
            **asdict(each.hypothesis),
            "found": None if each.found is None else asdict(each.found),
            "p_holm": each.p_holm,
            "answer": each.words,
        }
        for each in found
    ]
