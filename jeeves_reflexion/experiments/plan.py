"""The plan of an experiment: its arms, trials, seeds and held-out tasks, and an estimate of its cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import ArmName, arm_of
from jeeves_reflexion.models.prices import Prices
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, Task
from jeeves_reflexion.values import check_whole, plain_number

JudgedBy: TypeAlias = Literal["oracle", "self"]
"""Who decides that an attempt passed: an oracle that knows the gold answer, or the agent's own side without it."""

Cluster: TypeAlias = Literal["task", "opening"]
"""The unit of the intervals: a task with its seeds, or all tasks whose prompts share their first paragraph, such as
games of one room."""

Split: TypeAlias = Literal["learning", "held-out"]
"""Whether lessons are learned from a task, or it is held out."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A design: all arms see the same tasks, trials and seeds. The number of ``workers`` does not change the results.

    ``holdout`` is the share of tasks that lessons are not learned from. ``split_seed`` draws them (:func:`split`);
    tasks with the same metadata ``holdout_by`` are drawn together. ``judged_by`` says who the loops' evaluator is,
    ``cluster`` what the unit of the intervals is. The run stops once ``max_cost_usd`` are spent, and can be resumed.
    """

    arms: tuple[ArmName, ...] = ("retry", "selective")
    trials: int = 4
    seeds: tuple[int, ...] = (0,)
    workers: int = 2
    k: int = 5
    holdout: float = 0.0
    split_seed: int = 0
    judged_by: JudgedBy = "oracle"
    max_cost_usd: float | None = None
    cluster: Cluster = "task"
    holdout_by: str | None = None

    def __post_init__(self) -> None:
        if not self.arms:
            raise ConfigurationError("a plan needs at least one arm")
        for arm in self.arms:
            arm_of(arm)
        if len(set(self.arms)) != len(self.arms) or len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ConfigurationError("a plan names each arm and seed once, and needs at least one seed")
        for name in ("trials", "workers", "k"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name)))
        object.__setattr__(self, "seeds", tuple(map(plain_number, self.seeds)))
        object.__setattr__(self, "holdout", plain_number(self.holdout))
        _check_share(self.holdout)
        for name, kind in (("judged_by", JudgedBy), ("cluster", Cluster)):
            if getattr(self, name) not in get_args(kind):
                raise ConfigurationError(
                    f"{name} must be {' or '.join(get_args(kind))}, not {getattr(self, name)!r}"
                )
        if self.max_cost_usd is not None and not self.max_cost_usd > 0:
            raise ConfigurationError(f"max_cost_usd must be above 0 or None, not {self.max_cost_usd}")


def split(
    tasks: Sequence[Task], share: float, *, seed: int = 0, by: str | None = None
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the learning tasks and the held-out tasks, each in the order given.

    Tasks are ordered by the SHA-256 of ``"<seed>:<task id>"``, and the first ``round(share * n)`` of them are held out,
    with at least one task on each side. So the split depends on the seed and the ids alone, not on the order of tasks.
    A share of 0 holds out none. With ``by``, the name of a metadata field, its values are drawn instead of the tasks,
    by the same rule: all tasks with the same value are on one side. Raises :class:`ConfigurationError` for a share
    outside of [0, 1), for a single task or value, and for tasks without the field.
    """
    _check_share(share)
    if share == 0.0:
        return tuple(tasks), ()
    groups = {}
    for task in tasks:
        if by is not None and by not in task.metadata:
            raise ConfigurationError(f"task {task.id!r} has no metadata {by!r}, by which tasks are held out")
        groups[task.id] = task.id if by is None else str(task.metadata[by])
    names = set(groups.values())
    if len(names) < 2:
        raise ConfigurationError(
            f"holding out tasks needs at least two {'tasks' if by is None else by + 's'}"
        )
    number = min(max(round(share * len(names)), 1), len(names) - 1)
    seeded = {name: f"{seed}:{name}".encode("utf-8", "surrogatepass") for name in names}
    drawn = set(sorted(names, key=lambda name: hashlib.sha256(seeded[name]).hexdigest())[:number])
    learning = tuple(task for task in tasks if groups[task.id] not in drawn)
    return learning, tuple(task for task in tasks if groups[task.id] in drawn)


def design_of(
    plan: Plan, learning: Sequence[Task], held_out: Sequence[Task], *, redacted: bool = False
) -> dict[str, JSON]:
    """Return a plan and its tasks as a run records them: each task by id, with a digest of its contents.

    With ``redacted``, an id with a secret is recorded as earlier versions did: without the secret, not as a digest.
    """
    names: dict[str, str] = {}
    digests: dict[str, JSON] = {}
    for task in (*learning, *held_out):
        name = redact(task.id)
        if name != task.id and not redacted:
            name = digest_of(task)
        names[task.id] = name
        parts = [task.prompt, task.template, task.kind, list(task.tools), task.expected_output]
        text = json.dumps([*parts, task.reference, task.metadata], sort_keys=True, default=str)
        digests[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    drawn, by = ("them", "task id") if plan.holdout_by is None else (f"{plan.holdout_by}s", plan.holdout_by)
    rule = (
        f"{len(held_out)} of {len(learning) + len(held_out)} tasks are held out: the first {plan.holdout:g} of {drawn}"
        f" in the order of SHA-256('{plan.split_seed}:<{by}>')"
    )
    return {
        "arms": list(plan.arms),
        "trials": plan.trials,
        "seeds": list(plan.seeds),
        "k": plan.k,
        "workers": plan.workers,
        "max_cost_usd": plan.max_cost_usd,
        "judged_by": plan.judged_by,
        "holdout": plan.holdout,
        "split_seed": plan.split_seed,
        "split_rule": rule if held_out else "no task is held out",
        "held_out": [names[task.id] for task in held_out],
        "tasks": digests,
    }


def name_of(task: Task) -> str:
    """Return a task's name in the log: its id, or a digest of an id that is long, unprintable or has a secret."""
    if len(task.id) <= 64 and task.id.isprintable() and redact(task.id) == task.id:
        return task.id
    return digest_of(task)


def digest_of(task: Task) -> str:
    """Return a digest of a task's id."""
    return f"sha256:{hashlib.sha256(task.id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _check_share(share: float) -> None:
    if not 0.0 <= share < 1.0:
        raise ConfigurationError(f"the share of held-out tasks (holdout) must be in [0, 1), not {share}")


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected tokens of one try, with its evaluation and its reflection."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The most that a plan can take: all its tries, with none saved by an early success.

    ``tokens`` and ``cost_usd`` are None if they are unknown.
    """

    tries: int
    tokens: int | None = None
    cost_usd: float | None = None

    def __str__(self) -> str:
        tokens = "tokens unknown" if self.tokens is None else f"about {self.tokens:,} tokens"
        cost = "cost unknown" if self.cost_usd is None else f"about {self.cost_usd:.2f} USD"
        return f"at most {self.tries} tries, {tokens}, {cost}"

    def as_json(self) -> dict[str, JSON]:
        """Return the estimate as JSON."""
        return {"most_tries": self.tries, "tokens": self.tokens, "cost_usd": self.cost_usd}


def estimate(plan: Plan, tasks: Sequence[Task], expected: Expected | None, prices: Prices | None) -> Estimate:
    """Estimate the most that a plan can cost, from the expected tokens of a try and the prices of tokens."""
    learning, held_out = split(tasks, plan.holdout, seed=plan.split_seed, by=plan.holdout_by)
    each = [arm_of(arm).trials(plan.trials) * len(learning) + len(held_out) for arm in plan.arms]
    tries = sum(each) * len(plan.seeds)
    if expected is None:
        return Estimate(tries)
    tokens = tries * (expected.input_tokens + expected.output_tokens)
    cost = None
    if prices is not None:
        cost = prices.cost(tries * expected.input_tokens, tries * expected.output_tokens)
    return Estimate(tries, tokens, cost)
