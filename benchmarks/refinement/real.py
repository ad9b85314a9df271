"""The same problems with a real model as writer, judge and reviser, through the pattern of seed 001."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from jeeves_reflexion import (
    Attempt,
    ChatModel,
    ExperimentError,
    Message,
    ModelError,
    QualityCriterion,
    ReflectionPattern,
    Session,
    Task,
)
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.statistics import Share

from ..report import share_of
from .play import FURTHER, LOOKS
from .problem import Problem
from .rates import THRESHOLD
from .record import IMPROVEMENT, Record, record_of, spread_of
from .tasks import Key, problem_of

WRITER_PROMPT = (
    "You write what the task asks for: exactly that, in the form asked for, and nothing around it."
)


class ModelWriter:
    """A model that writes the first draft: an ``Agent`` whose model the pattern can see."""

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the model's answer to the task."""
        completion = await ask(self.model, [Message("system", WRITER_PROMPT), Message("user", task.prompt)])
        return Attempt(completion.text, usage=completion.usage)


def criteria_of(problem: Problem) -> list[QualityCriterion]:
    """Return a problem's requirements as criteria, each with the default threshold, which vetoes."""
    return [QualityCriterion(one.name, one.description, weight=one.weight) for one in problem.requirements]


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays: the writer's model revises too, and judges where there is no other; ``at_once`` problems at a time."""

    model: ChatModel
    judge: ChatModel | None = None
    max_revisions: int = 3
    at_once: int = 4


@dataclass(slots=True)
class Played:
    """The runs that came to an end, in the order of the problems, and what ended the others."""

    records: list[Record] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


async def play_real(keys: Sequence[Key], cast: Cast, tell: Callable[[str, int, int], None]) -> Played:
    """Run each problem. A run whose model can't be reached or used is left out and counted.

    Raises :class:`ExperimentError` where none came to an end.
    """
    done: dict[int, Record] = {}
    failures: dict[int, str] = {}
    room = anyio.CapacityLimiter(cast.at_once)

    async def one(place: int) -> None:
        problem = problem_of(keys[place])
        async with room:
            try:
                done[place] = await _play(problem, cast)
            except (ModelError, ExperimentError) as error:
                failures[place] = f"{problem.id}: {type(error).__name__}: {error}"
        tell("runs", len(done) + len(failures), len(keys))

    async with anyio.create_task_group() as tasks:
        for place in range(len(keys)):
            tasks.start_soon(one, place)
    if not done:
        raise ExperimentError(f"no run came to an end; the first failure: {failures[min(failures)]}")
    return Played([done[place] for place in sorted(done)], [failures[place] for place in sorted(failures)])


async def _play(problem: Problem, cast: Cast) -> Record:
    pattern = ReflectionPattern(
        max_iterations=cast.max_revisions,
        quality_criteria=criteria_of(problem),
        quality_threshold=THRESHOLD,
        improvement_threshold=IMPROVEMENT,
        model=cast.model,
        reflection_model=cast.judge,
    )
    refined = await pattern.refinement(ModelWriter(cast.model), problem.task).refine(problem.task)
    if refined.error is not None:
        raise ExperimentError(f"the run broke off: {refined.error}") from refined.error
    verdicts = [await pattern.reflect(refined.drafts[0].output, task=problem.task) for _ in range(LOOKS)]
    scores = [verdict.overall_score for verdict in verdicts if verdict.scored]
    further = await _gain_of_more(pattern, problem, refined.best.output)
    spread = spread_of(scores) if len(scores) == LOOKS else math.inf
    return record_of(problem, refined, spread=spread, further=further)


async def _gain_of_more(pattern: ReflectionPattern, problem: Problem, output: str) -> float:
    """Return what two more revisions add to the true quality; once, not many times, for each costs calls."""
    best, verdict = output, await pattern.reflect(output, task=problem.task)
    for _ in range(FURTHER):
        new = await pattern.revise(best, verdict, task=problem.task)
        judged = await pattern.reflect(new, task=problem.task)
        if (judged.satisfactory, judged.overall_score) >= (verdict.satisfactory, verdict.overall_score):
            best, verdict = new, judged
    return problem.quality(best) - problem.quality(output)


def errors_of(records: Sequence[Record]) -> dict[str, Share | None]:
    """Return how often writer, judge and reviser were wrong, by the oracle: the model's place on the grid.

    ``right``, ``miss``, ``alarm``, ``fail`` (of real faults that were named) and ``breaks`` as
    :class:`~benchmarks.refinement.rates.Rates` has them; requirements of all drafts are pooled.
    """
    drafts = [draft for record in records for draft in record.drafts]
    faced = [(place in one.named, holds) for one in drafts for place, holds in enumerate(one.state)]
    revised = [
        (place in record.drafts[new.base - 1].named, record.drafts[new.base - 1].state[place], holds)
        for record in records
        for new in record.drafts
        if new.base is not None
        for place, holds in enumerate(new.state)
    ]
    return {
        "right": share_of(holds for record in records for holds in record.first.state),
        "miss": share_of(not named for named, holds in faced if not holds),
        "alarm": share_of(named for named, holds in faced if holds),
        "fail": share_of(not after for named, before, after in revised if named and not before),
        "breaks": share_of(not after for named, before, after in revised if not named and before),
    }
