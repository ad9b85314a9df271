"""The labelled retrieval set: lessons of a real model, tasks as queries, and the relevance of each lesson to each task.

The log of ALFWorld reflections (noahshinn/reflexion) names environments but not their tasks, so the tasks are read from
the reflections: ``corpora/alfworld_goals.jsonl`` has kind, thing and place for 48 of the 50 environments with
reflections, each with the words that say so. Two environments never say their task and are left out.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jeeves_reflexion import Task

GOALS: Final = Path(__file__).with_name("corpora") / "alfworld_goals.jsonl"
BEARS: Final = 2
"""From this grade on a lesson counts as relevant."""
BEST: Final = 3

_DESCRIPTIONS: Final = 3  # of each game; a few have more
_SENTENCES: Final[Mapping[str, tuple[str, str]]] = {
    "pick_and_place_simple": ("put a {0} in {1}.", "put some {0} on {1}."),
    "look_at_obj_in_light": ("look at {0} under the {1}.", "examine the {0} with the {1}."),
    "pick_clean_then_place_in_recep": ("put a clean {0} in {1}.", "clean some {0} and put it in {1}."),
    "pick_heat_then_place_in_recep": ("put a hot {0} in {1}.", "heat some {0} and put it in {1}."),
    "pick_cool_then_place_in_recep": ("put a cool {0} in {1}.", "cool some {0} and put it in {1}."),
    "pick_two_obj_and_place": ("put two {0} in {1}.", "find two {0} and put them in {1}."),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """A household task: its kind, the thing, and its destination (or the lamp to look at it under)."""

    kind: str
    thing: str
    place: str


@dataclass(frozen=True, slots=True)
class Query:
    """A task for which lessons are recalled.

    Lessons are graded by ``goal``: a :class:`Goal`, or the id of a question. Queries of one ``cluster`` are not
    independent. ``apart`` is the id of a task whose own lessons are left out.
    """

    task: Task
    goal: Goal | str
    cluster: str
    apart: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A lesson of the library, the task that taught it, and what that task asked for."""

    task: Task
    text: str
    goal: Goal | str


def grade(wanted: Goal | str, given: Goal | str) -> int:
    """Return the relevance of a lesson to a task, from 0 to 3.

    3: the same kind of task, thing and place (or the same question); 2: the same kind, and thing or place; 1: the same
    kind alone, or thing and place without it; 0: less.
    """
    if isinstance(wanted, str) or isinstance(given, str):
        return BEST if wanted == given else 0
    shared = (wanted.thing == given.thing) + (wanted.place == given.place)
    if wanted.kind != given.kind:
        return int(shared == BEARS)
    return 1 + shared


def sentence(goal: Goal, draw: str) -> str:
    """Return a goal as one of ALFWorld's two sentences for it; ``draw`` decides which."""
    at = hashlib.sha256(draw.encode()).digest()[0] % 2
    return _SENTENCES[goal.kind][at].format(goal.thing, goal.place)


def read_goals(path: Path = GOALS) -> dict[str, Goal]:
    """Return the goals of the environments, by name."""
    return {row["env"]: Goal(row["kind"], row["object"], row["place"]) for row in _rows(path)}


def alfworld_lessons(log: Path, goals: Mapping[str, Goal]) -> list[Document]:
    """Return the distinct reflections in the log on environments whose task is known."""
    found: dict[tuple[str, str], Document] = {}
    for row in _rows(log):
        goal = goals.get(row["env"])
        if goal is None:
            continue
        task = Task(sentence(goal, row["env"]), id=row["env"], kind=goal.kind)
        for reflection in row["reflections"]:
            found.setdefault((row["env"], reflection["text"]), Document(task, reflection["text"], goal))
    return list(found.values())


def held_out_queries(documents: Sequence[Document]) -> list[Query]:
    """Return the tasks of the library, each without the lessons of its own environment."""
    tasks = {each.task.id: each for each in documents}
    return [Query(each.task, each.goal, str(each.goal), apart=id) for id, each in tasks.items()]


def described_queries(archive: Path) -> list[Query]:
    """Return people's descriptions of the games of ``valid_seen`` (other games than the log's), three per game.

    Reads ``traj_data.json`` of each game from the archive, with the descriptions and the exact goal.
    """
    queries: list[Query] = []
    with tarfile.open(archive) as tar:
        for member in sorted(tar.getmembers(), key=lambda each: each.name):
            file = tar.extractfile(member) if member.name.endswith("traj_data.json") else None
            if file is not None:
                queries += _described(json.load(file))
    return queries


def _described(game: dict[str, Any]) -> Iterable[Query]:
    wanted = game["pddl_params"]
    place = wanted["parent_target"] or wanted["toggle_target"]
    goal = Goal(game["task_type"], wanted["object_target"].lower(), place.lower())
    for number, words in enumerate(game["turk_annotations"]["anns"][:_DESCRIPTIONS]):
        task = Task(words["task_desc"].strip(), id=f"{game['task_id']}#{number}", kind=goal.kind)
        yield Query(task, goal, str(goal))


def hotpotqa(log: Path) -> tuple[list[Query], list[Document]]:
    """Return the questions of logged runs that have reflections, and the distinct reflections."""
    queries: list[Query] = []
    documents: dict[tuple[str, str], Document] = {}
    for row in _rows(log):
        task = Task(row["question"].strip(), id=row["id"], kind="question")
        texts = [text for trial in row["trials"] for text in trial["reflections_after"]]
        if texts:
            queries.append(Query(task, task.id, task.id))
        for text in texts:
            documents.setdefault((task.id, text), Document(task, text, task.id))
    return queries, list(documents.values())


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
