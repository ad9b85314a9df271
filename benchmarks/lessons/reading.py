"""``python -m benchmarks.lessons.reading``: does the offline player of ALFWorld understand lessons in other words?

This is measured on logged reflections of a real model that a person has judged (``corpora/alfworld_places.jsonl``), and
by playing with the same lessons in the reflector's wording and in twelve others (``alfworld_wordings.jsonl``).
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import click
import numpy as np

from benchmarks.alfworld.agent import WON, tasks_for, write_lesson
from benchmarks.alfworld.games import Game, load_games
from benchmarks.alfworld.goal import parse_goal
from benchmarks.alfworld.lesson_words import read_advice
from benchmarks.alfworld.observations import Thing, read_opening
from benchmarks.alfworld.place_words import join_words, plural, read_places, write_places
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.rules_reflector import Findings
from benchmarks.alfworld.setting import STEP_LIMIT
from benchmarks.lessons.games import Games
from benchmarks.lessons.retrieval import estimate
from benchmarks.lessons.retrieval_data import read_goals, sentence
from benchmarks.options import embedder_called
from benchmarks.report import out_option, percent, points, table, write_result
from jeeves_reflexion import LessonSettings, Reflection, Reflexion, RewardEvaluator, Task, Trial
from jeeves_reflexion.cli.bench_options import numbers
from jeeves_reflexion.experiments import ArmName, Plan, Results, RunLog, run_experiment
from jeeves_reflexion.experiments.arms import arm_lessons
from jeeves_reflexion.statistics import Difference
from vectorstores import FaissVectorStore

ARMS: Final[tuple[ArmName, ...]] = ("own", "selective", "monotonic", "irrelevant")
K: Final = 3
_CORPORA: Final = Path(__file__).with_name("corpora")

Wording: TypeAlias = Mapping[str, str]
Counts: TypeAlias = dict[str, tuple[int, int, int]]
"""By environment: places read correctly, places read, and places that the judgments name."""


def ratio(clusters: Iterable[tuple[float, float]]) -> Difference:
    """Return the sum of the first numbers divided by that of the second, with a bootstrap interval over clusters."""
    return estimate(np.array(list(clusters), dtype=float))


def judged(log: Path, kinds: frozenset[str]) -> dict[str, Counts]:
    """Compare the places that the player reads in logged reflections with a person's judgment, by part of the sample.

    A place is read correctly if the player takes it for one that holds the thing and the person says that the thing was
    there or should be looked for there, or if both take it for empty. Unclear places are left out.
    """
    texts = {
        (row["env"], row["run"], each["after_trial"]): each["text"]
        for row in _rows(log)
        for each in row["reflections"]
    }
    goals = {env: parse_goal(sentence(goal, env)) for env, goal in read_goals().items()}
    parts: dict[str, Counts] = defaultdict(lambda: defaultdict(lambda: (0, 0, 0)))
    for row in _rows(_CORPORA / "alfworld_places.jsonl"):
        says = {
            (thing, place): stance
            for thing, stances in row["says"].items()
            for stance, places in stances.items()
            for place in read_places(places)
        }
        read: dict[tuple[str, Thing], bool] = {}
        text = texts[row["env"], row["run"], row["after_trial"]]
        for advice in read_advice(text, goals[row["env"]], kinds):
            for place in advice.places:
                read.setdefault((advice.thing, place), advice.absent)
        clear = {key: stance == "absent" for key, stance in says.items() if stance != "unclear"}
        counted = [key for key in read if says.get(key) != "unclear"]
        right = sum(key in clear and clear[key] == read[key] for key in counted)
        all_right, all_counted, all_clear = parts[row["part"]][row["env"]]
        totals = all_right + right, all_counted + len(counted), all_clear + len(clear)
        parts[row["part"]][row["env"]] = totals
    return parts


def other_wordings() -> list[dict[str, str]]:
    """Return the twelve other wordings of a lesson."""
    return _rows(_CORPORA / "alfworld_wordings.jsonl")


def reworded(task: Task, trials: Sequence[Trial], *, wordings: Sequence[Wording], seed: int) -> Reflection:
    """Reflect like the rules, but in another wording, drawn at random for each attempt."""
    last = trials[-1]
    steps = [(step.thought, step.action, step.observation) for step in last.attempt.steps]
    words = random.Random(f"{seed} {task.id} {last.number}").choice(wordings)
    text = say(Findings.of(task.prompt, steps), words, won=last.passed)
    return Reflection(text, outcome="success" if last.passed else "failed")


def say(found: Findings, words: Wording, *, won: bool) -> str:
    """Put findings into a wording; it mentions empty places only if there are any."""
    seen = [
        words["seen"].format(thing=thing, place=place)
        for pairs in found.found.values()
        for thing, place in pairs
    ]
    places = _LISTS[words["list"]](found.empty) if found.empty and not won else ""
    absent = words["absent"].format(noun=found.noun, places=places) if places else ""
    text = words["lesson"].format(goal=found.goal, seen=" ".join(seen), absent=absent)
    return text.strip(" .").replace(". ", "; ") + "."  # a lesson is one sentence


def _names(places: Sequence[Thing]) -> str:
    return join_words([str(place) for place in sorted(places)])


def _ranges(places: Sequence[Thing]) -> str:
    """Write places as the logged model did: ``cabinets (1-4), drawer (2)``."""
    words = []
    for kind in sorted({place.kind for place in places}):
        numbers = sorted(place.number for place in places if place.kind == kind)
        runs = write_places(Thing(kind, number) for number in numbers).split(" ", 1)[1]
        words.append(f"{kind if len(numbers) == 1 else plural(kind)} ({runs.replace(' to ', '-')})")
    return join_words(words)


_LISTS: Final = {"words": write_places, "names": _names, "ranges": _ranges}


async def play(games: Sequence[Game], plan: Plan, runs: Path) -> tuple[list[Task], dict[str, Results]]:
    """Play all arms with the reflector's own wording and with others, in the same search orders."""
    wordings = other_wordings()
    results: dict[str, Results] = {}
    async with (
        EnginePool(plan.workers) as pool,
        FaissVectorStore(runs / "lessons", embedder=embedder_called("minilm"), namespace="reading") as store,
    ):
        tasks = await tasks_for(pool, games, workers=plan.workers)
        player = Games(pool, games)
        for words in ("own", "other"):

            def make(arm: ArmName, seed: int, words: str = words) -> Reflexion:
                scope = store.scoped(f"{words}-{arm}-{seed}")
                other = partial(reworded, wordings=wordings, seed=seed)
                return Reflexion(
                    partial(player.attempt, seed),
                    evaluator=RewardEvaluator(WON),
                    reflector=write_lesson if words == "own" else other,
                    lesson_store=arm_lessons(arm, scope, tasks, settings=LessonSettings(), seed=seed),
                    max_attempts=plan.trials,
                    top_k_lessons=K,
                )

            log = RunLog(runs / words)
            await log.open({"words": words, "games": [game.id for game in games]}, resume=log.exists)
            results[words] = await run_experiment(plan, tasks, make, log=log)
            click.echo(results[words].table(), err=True)
    return tasks, results


def drops(tasks: Sequence[Task], results: Mapping[str, Results], trial: int) -> list[list[str]]:
    """Return by arm the share solved by a trial with each wording, and the paired difference."""
    rows: list[list[str]] = []
    for arm in ARMS:
        clusters: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for seed in results["own"].played(arm):
            won = {words: found.played(arm)[seed] for words, found in results.items()}
            for task in tasks:
                own, other = (
                    any(each.passed for each in won[words].get(task.id, ())[:trial])
                    for words in ("own", "other")
                )
                clusters[task.prompt].append((own, other))
        sums = [(sum(a for a, _ in each), sum(b for _, b in each), len(each)) for each in clusters.values()]
        rows.append(
            [
                arm,
                percent(ratio((own, n) for own, _, n in sums)),
                percent(ratio((other, n) for _, other, n in sums)),
                points(ratio((other - own, n) for own, other, n in sums)),
            ]
        )
    return rows


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


_PAGE: Final = """{judged}

{games} games, {openings} openings, {steps} commands, seeds {seeds}, trial {trials}:

{drops}
"""


@click.command()
@click.argument("log", type=click.Path(exists=True, path_type=Path))
@click.option("--games", type=click.Path(exists=True, path_type=Path), required=True, help="Genuine ones.")
@click.option("--limit", type=click.IntRange(min=1), help="About N games, of all kinds.")
@click.option("--seeds", callback=numbers, default="0,1,2", show_default=True, help="Of the player.")
@click.option("--trials", type=click.IntRange(min=2), default=2, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs/reading"), show_default=True)
@out_option("alfworld_reading.md and .json")
def main(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Measure both. LOG is the file of logged reflections."""
    games = load_games(options["games"])
    games = games[:: -(-len(games) // (options["limit"] or len(games)))]
    trials, seeds = options["trials"], tuple(options["seeds"])
    plan = Plan(arms=ARMS, trials=trials, seeds=seeds, workers=options["workers"], k=K)
    tasks, results = anyio.run(play, games, plan, options["runs"])
    kinds = frozenset(place.kind for task in tasks for place in read_opening(task.prompt))
    rows = [
        [
            part,
            len(found),
            percent(ratio((right, read) for right, read, _ in found.values())),
            percent(ratio((right, named) for right, _, named in found.values())),
        ]
        for part, found in judged(options["log"], kinds).items()
    ]
    text = _PAGE.format(
        judged=table(["part", "environments", "precision", "recall"], rows),
        games=len(games),
        openings=len({task.prompt for task in tasks}),
        steps=STEP_LIMIT,
        seeds=", ".join(map(str, options["seeds"])),
        trials=options["trials"],
        drops=table(
            ["arm", "own words", "other words", "difference"], drops(tasks, results, options["trials"])
        ),
    )
    write_result(options["out"], "alfworld_reading", rows, text)
    click.echo(text)


if __name__ == "__main__":
    main()
