"""The offline player of ALFWorld as a task of an ensemble, with and without task notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeAlias, get_args

from benchmarks.alfworld.agent import LESSONS_BLOCK, WON, GameAgent, OfflinePlayer
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.rules_reflector import distil
from jeeves_reflexion import RewardEvaluator, Session, Task
from jeeves_reflexion.tasknotes import (
    Ensemble,
    EnsembleTask,
    InMemoryReflectionStore,
    ReflectionConfig,
    ReflectionInput,
    TaskReflection,
)
from jeeves_reflexion.text import bullets

Arm: TypeAlias = Literal["off", "on"]
ARMS: Final[tuple[Arm, ...]] = get_args(Arm)


@dataclass(frozen=True, slots=True)
class Played:
    """One run of one game: in which arm, for the how many-th time (from 1), and whether it was won."""

    arm: Arm
    seed: int
    run: int
    game: str
    kind: str
    won: bool


class RulesStrategy:
    """Reflects by rules: what worked in a game that was won, in one sentence, for the next run of the same game."""

    async def reflect(self, given: ReflectionInput) -> TaskReflection:
        """Return the sentence as the better instructions."""
        steps = given.attempt.steps if given.attempt is not None else ()
        sentence = distil(
            given.task.prompt, [(step.thought, step.action, step.observation) for step in steps]
        )
        return TaskReflection.of_first_run(sentence, "")


def player(task: Task, session: Session, *, seed: int) -> OfflinePlayer:
    """Return a player that reads the notes in its prompt as advice, and the task after them as the opening."""
    notes, _, opening = task.prompt.rpartition("\n---\n\n## Task\n\n")
    advice = [line for line in notes.splitlines() if line.strip() and not line.startswith("#")]
    session = session.for_attempt(session.attempt, {LESSONS_BLOCK: bullets(advice)})
    return OfflinePlayer(replace(task, prompt=opening), session, seed=seed)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is played: how many runs of each game, in how many processes, with how many commands each."""

    runs: int
    workers: int
    step_limit: int


async def play(
    pool: EnginePool, games: Mapping[str, Game], tasks: Sequence[Task], arm: Arm, seed: int, setting: Setting
) -> list[Played]:
    """Run all games again and again in one arm; the search orders are the same in both arms."""
    store = InMemoryReflectionStore()
    config = ReflectionConfig(strategy=RulesStrategy())
    works = [
        EnsembleTask(
            task.prompt,
            reflect=config if arm == "on" else False,
            kind=task.kind,
            reference=task.reference,
            metadata=task.metadata,
            id=task.id,
        )
        for task in tasks
    ]
    played: list[Played] = []
    for run in range(1, setting.runs + 1):
        # The order of the search is drawn anew for each run, as a person would look elsewhere next time.
        draw = partial(player, seed=1000 * seed + run)
        agent = GameAgent(pool, games, draw, step_limit=setting.step_limit)
        ensemble = Ensemble(agent=agent, evaluator=RewardEvaluator(WON), reflection_store=store)
        result = await ensemble.run(*works, workers=setting.workers)
        for task, outcome in zip(tasks, result.outcomes, strict=True):
            if outcome.status == "failed":
                raise RuntimeError(f"game {task.id} could not be played: {outcome.reason}")
            played.append(Played(arm, seed, run, task.id, task.kind or "", outcome.accepted))
    return played
