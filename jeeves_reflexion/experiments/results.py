"""What came of an experiment: one row a try, and the learning curve with its intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ArmName, arm_of
from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.statistics import Share, wilson
from jeeves_reflexion.types import JSON, NO_USAGE, Evaluation, Task, Trial, Usage

Split: TypeAlias = Literal["learning", "held-out"]


@dataclass(frozen=True, slots=True)
class Tried:
    """One try of one task: which arm and seed, and the trial itself.

    ``split`` says whether lessons were learned from the task; ``scored`` is the verdict of a scorer that knows the gold
    answer and of whom the loop never heard; None where there was none.
    """

    arm: ArmName
    seed: int
    task: Task
    trial: Trial
    split: Split = "learning"
    scored: Evaluation | None = None

    @property
    def usage(self) -> Usage:
        """What the try used, of all roles together."""
        return sum(self.trial.usage.values(), NO_USAGE)

    def as_json(self) -> dict[str, JSON]:
        """Return the row as JSON, without prompt or trajectory."""
        trial = self.trial
        usage: dict[str, JSON] = {
            role: {"calls": u.calls, "input_tokens": u.input_tokens, "output_tokens": u.output_tokens}
            for role, u in trial.usage.items()
        }
        row: dict[str, JSON] = {
            "arm": self.arm,
            "seed": self.seed,
            "split": self.split,
            "task_id": self.task.id,
            "task_kind": self.task.kind,
            "trial": trial.number,
            "passed": trial.passed,
            "score": trial.evaluation.score,
            "steps": len(trial.attempt.steps),
            "interrupted": trial.attempt.interrupted,
            "error": trial.attempt.error,
            "recalled": list(trial.recall.texts) if trial.recall else [],
            "lesson": trial.reflection.lesson if trial.reflection else None,
            "seconds": round(trial.seconds, 4),
            "usage": usage,
            "cost_usd": self.usage.cost_usd,
        }
        if self.scored is not None:
            row["scored"] = {"passed": bool(self.scored.passed), "score": self.scored.score}
        return row


@dataclass(frozen=True, slots=True)
class Point:
    """Tasks solved up to and including a trial."""

    trial: int
    share: Share


@dataclass(frozen=True, slots=True)
class Curve:
    """An arm's learning curve, cumulative over trials, its seeds pooled, and who judged it."""

    arm: ArmName
    points: tuple[Point, ...]
    judged_by: JudgedBy = "oracle"


@dataclass(frozen=True, slots=True)
class Cost:
    """What an arm used; ``per_solved`` and the like are None where nothing was solved, or a price is unknown."""

    usage: Usage
    seconds: float
    tries: int
    solved: int

    def __add__(self, other: Cost) -> Cost:
        """Return what both used together."""
        return Cost(
            self.usage + other.usage,
            self.seconds + other.seconds,
            self.tries + other.tries,
            self.solved + other.solved,
        )

    def per_solved(self, amount: float | None) -> float | None:
        """Return an amount for each task solved."""
        return None if amount is None or not self.solved else amount / self.solved

    def as_json(self) -> dict[str, JSON]:
        """Return the figures as JSON."""
        used = self.usage
        return {
            "tries": self.tries,
            "solved": self.solved,
            "calls": used.calls,
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "calls_without_reported_tokens": used.unreported,
            "cost_usd": used.cost_usd,
            "seconds": round(self.seconds, 3),
            "tokens_per_solved": self.per_solved(used.tokens),
            "cost_usd_per_solved": self.per_solved(used.cost_usd),
            "seconds_per_solved": self.per_solved(self.seconds),
        }


@dataclass(frozen=True, slots=True)
class Story:
    """A task that failed, the lessons recalled for it afterwards, and the try that then succeeded."""

    task: Task
    failed: Trial
    solved: Trial
    arm: ArmName


@dataclass(slots=True)
class Results:
    """The rows of an experiment; grows as it runs.

    ``tasks`` are those that were learned from, ``held_out`` the others. ``judged_by`` says who decided what passed;
    ``scored`` that a scorer with the gold answer judged every try too.
    """

    tasks: tuple[Task, ...]
    arms: tuple[ArmName, ...]
    seeds: tuple[int, ...]
    trials: int
    rows: list[Tried] = field(default_factory=list)
    interrupted: str = ""
    held_out: tuple[Task, ...] = ()
    judged_by: JudgedBy = "oracle"
    scored: bool = False

    def history(self, arm: ArmName, seed: int, task: Task) -> list[Trial]:
        """Return the trials of one task so far, in order."""
        return [row.trial for row in self._rows(arm, seed) if row.task.id == task.id]

    def histories(self, arm: ArmName, seed: int) -> dict[str, list[Trial]]:
        """Return the trials of every learning task so far, in order, by the task's id."""
        found: dict[str, list[Trial]] = {task.id: [] for task in self.tasks}
        for row in self._rows(arm, seed):
            found[row.task.id].append(row.trial)
        return found

    def curve(self, arm: ArmName, *, by: JudgedBy | None = None) -> Curve:
        """Return an arm's curve over the seeds that it finished; without points where it finished none.

        An arm that tries once stays where it is. ``by`` is who judged: by default the judge of the loops. By a scorer
        (``by="oracle"`` of a self-judged run), a task counts as solved at a trial if its last attempt by then is right.
        Raises :class:`ConfigurationError` for a judge that there was not.
        """
        judge = by or self.judged_by
        if judge != self.judged_by and not (judge == "oracle" and self.scored):
            raise ConfigurationError(
                f"these results are judged by {self.judged_by}, and there was no scorer beside it"
            )
        tables = [table for seed in self.seeds if (table := self._verdicts(arm, seed, judge)) is not None]
        if not tables:
            return Curve(arm, (), judge)
        n = len(self.tasks) * len(tables)
        points = [
            Point(trial, wilson(sum(row[trial - 1] for table in tables for row in table), n))
            for trial in range(1, self.trials + 1)
        ]
        return Curve(arm, tuple(points), judge)

    def transfer(self, arm: ArmName, *, by: JudgedBy | None = None) -> Share | None:
        """Return the share of held-out tasks that an arm solved at the first try with what it had learned.

        Over the seeds that tried all of them; None where there is none such.
        """
        judge = by or self.judged_by
        self.curve(arm, by=judge)
        done = [
            rows
            for seed in self.seeds
            if len(rows := self._rows(arm, seed, "held-out")) == len(self.held_out)
        ]
        rows = [row for each in done for row in each]
        return wilson(sum(self._right(row, judge) for row in rows), len(rows)) if rows else None

    def cost(self, arm: ArmName) -> Cost:
        """Return what an arm used in all its tries, held-out ones included, and how many tasks it solved."""
        rows = [row for row in self.rows if row.arm == arm]
        solved = sum(row.trial.passed for row in rows)
        return Cost(total(rows), sum(row.trial.seconds for row in rows), len(rows), solved)

    def stories(self, arm: ArmName) -> list[Story]:
        """Return the tasks that failed and were solved right after lessons were recalled, quickest success first."""
        last: dict[tuple[int, str], Trial] = {}
        stories = []
        for row in (row for row in self.rows if row.arm == arm):
            key = (row.seed, row.task.id)
            if row.trial.passed and key in last and row.trial.recall and row.trial.recall.offered:
                stories.append(Story(row.task, last[key], row.trial, arm))
            last[key] = row.trial
        return sorted(stories, key=lambda story: len(story.solved.attempt.steps))

    @property
    def errors(self) -> int:
        """How many tries ended in an error; they count as not solved."""
        return sum(row.trial.attempt.error is not None for row in self.rows)

    def lessons(self, arm: ArmName) -> list[str]:
        """Return the lessons that an arm wrote, in order, each once."""
        texts = (row.trial.reflection.lesson for row in self.rows if row.arm == arm and row.trial.reflection)
        return list(dict.fromkeys(texts))

    def table(self) -> str:
        """Return the learning curves as a Markdown table: solved of all so far, with 95 % intervals."""
        heads = [f"trial {trial}" for trial in range(1, self.trials + 1)]
        heads += ["held out, first try"] * bool(self.held_out)
        lines = [f"| arm | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
        for arm in self.arms:
            cells = [_cell(point.share) for point in self.curve(arm).points]
            cells += ["not finished"] * (self.trials - len(cells))
            if self.held_out:
                share = self.transfer(arm)
                cells.append(_cell(share) if share else "not finished")
            lines.append(f"| {arm} | {' | '.join(cells)} |")
        if self.judged_by == "self":
            lines += ["", "Self-judged: what passed is what the agent's own side took for right."]
        if self.errors:
            lines += [
                "",
                f"{self.errors} of {len(self.rows)} tries ended in an error and count as not solved.",
            ]
        return "\n".join(lines)

    def _rows(self, arm: ArmName, seed: int, part: Split = "learning") -> list[Tried]:
        return [row for row in self.rows if row.arm == arm and row.seed == seed and row.split == part]

    def _right(self, row: Tried, judge: JudgedBy) -> bool:
        if judge == self.judged_by:
            return row.trial.passed
        return row.scored is not None and bool(row.scored.passed)

    def _verdicts(self, arm: ArmName, seed: int, judge: JudgedBy) -> list[list[bool]] | None:
        """Of each task, whether it counts as solved after each trial; None where the seed was not played to its end."""
        by_task: dict[str, list[Tried]] = {}
        for row in self._rows(arm, seed):
            by_task.setdefault(row.task.id, []).append(row)
        trials = arm_of(arm).trials(self.trials)
        found = []
        for task in self.tasks:
            rows = by_task.get(task.id, [])
            if not rows or (len(rows) < trials and not rows[-1].trial.passed):
                return None
            verdicts = [self._right(row, judge) for row in rows]
            found.append((verdicts + [verdicts[-1]] * self.trials)[: self.trials])
        return found


def together(results: Iterable[Results]) -> JudgedBy:
    """Return who judged results that are to stand in one column.

    Raises :class:`ConfigurationError` where some are judged by an oracle and others by the agent's own side: what one
    calls solved is not what the other does.
    """
    judges = {each.judged_by for each in results}
    if len(judges) != 1:
        raise ConfigurationError(
            "oracle-judged and self-judged results can't stand in one column: give each a column of its own"
            if judges
            else "there are no results"
        )
    return judges.pop()


def total(rows: Iterable[Tried]) -> Usage:
    """Return what tries used together."""
    return sum((row.usage for row in rows), NO_USAGE)


def _cell(share: Share) -> str:
    return f"{share.successes}/{share.n} = {share.value:.0%} ({share.low:.0%} to {share.high:.0%})"
