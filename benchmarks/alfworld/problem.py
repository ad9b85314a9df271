"""Writes a generated game as PDDL and as the files of a game folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from .errands import Errand
from .placement import Thing
from .rooms import Room
from .wheel import Wheel

_AGENT: Final = "agent1"
_PLACEHOLDER: Final = "UNKNOWN GOAL"
# Types that the domain's actions name: PDDL requires every constant to be declared, even if the room has none of them.
_TYPE_CONSTANT: Final = re.compile(r"^[^;\n]*\((receptacleType|objectType) \?\w+ (\w+)\)", re.MULTILINE)
_PREDICATES: Final = {
    "Cleanable": "cleanable",
    "Heatable": "heatable",
    "Coolable": "coolable",
    "Toggleable": "toggleable",
    "Sliceable": "sliceable",
}


def game_file(name: str, errand: Errand, things: Sequence[Thing], plan: Sequence[str], wheel: Wheel) -> str:
    """Return the text of ``game.tw-pddl``."""
    data = {
        "pddl_domain": wheel.domain,
        "grammar": wheel.grammar.replace(_PLACEHOLDER, errand.sentence),
        "pddl_problem": _problem(name, errand, things, wheel),
        "solvable": True,
        "walkthrough": list(plan),
    }
    return json.dumps(data, indent=1) + "\n"


def trajectory_file(name: str, errand: Errand) -> str:
    """Return the text of ``traj_data.json``, with the keys that ALFWorld's loaders read."""
    data = {
        "task_id": name,
        "task_type": errand.kind,
        "pddl_params": {
            "mrecep_target": "",
            "object_sliced": False,
            "object_target": errand.object_type,
            "parent_target": errand.receptacle_type,
            "toggle_target": errand.lamp_type,
        },
        "scene": {"floor_plan": f"FloorPlan{errand.room.plan}"},
        "turk_annotations": {"anns": [{"task_desc": errand.sentence, "high_descs": []}]},
    }
    return json.dumps(data, indent=1) + "\n"


def entity_ids(room: Room, things: Sequence[Thing]) -> list[str]:
    """Return the ids that get a numbered name in the engine, in lower case, as its PDDL reader makes them."""
    ids = [receptacle.id for receptacle in room.receptacles] + [thing.id for thing in things]
    return [identifier.lower() for identifier in ids]


def _problem(name: str, errand: Errand, things: Sequence[Thing], wheel: Wheel) -> str:
    goal = wheel.goals[errand.kind].pddl.format(
        obj=errand.object_type, recep=errand.receptacle_type, toggle=errand.lamp_type
    )
    lines = [
        f"(define (problem plan_{name})",
        "(:domain alfred)",
        "(:objects",
        *(f"    {line}" for line in _objects(errand.room, things, wheel)),
        ")",
        "(:init",
        *(f"    ({fact})" for fact in _facts(errand.room, things, wheel)),
        ")",
    ]
    # In ALFRED's tables, the text of the goal also closes the bracket of the problem.
    return "\n".join(lines) + goal


def _objects(room: Room, things: Sequence[Thing], wheel: Wheel) -> Iterator[str]:
    receptacle_types, object_types = _declared_types(room, things, wheel)
    yield f"{_AGENT} - agent"
    yield from (f"{kind}Type - otype" for kind in object_types)
    yield from (f"{kind}Type - rtype" for kind in receptacle_types)
    yield from (f"{thing.id} - object" for thing in things)
    yield from (f"{receptacle.id} - receptacle" for receptacle in room.receptacles)
    yield from (
        f"{location} - location" for location in [room.start, *(one.location for one in room.receptacles)]
    )


def _facts(room: Room, things: Sequence[Thing], wheel: Wheel) -> Iterator[str]:
    yield f"atLocation {_AGENT} {room.start}"
    for receptacle in room.receptacles:
        yield f"receptacleType {receptacle.id} {receptacle.type}Type"
        yield f"receptacleAtLocation {receptacle.id} {receptacle.location}"
        if receptacle.openable:
            yield f"openable {receptacle.id}"
    present = sorted({thing.type for thing in things})
    for holder in room.receptacle_types():
        yield from (
            f"canContain {holder}Type {kind}Type" for kind in present if kind in wheel.contents[holder]
        )
    for thing in things:
        yield f"objectType {thing.id} {thing.type}Type"
        yield f"inReceptacle {thing.id} {thing.place.id}"
        yield f"objectAtLocation {thing.id} {thing.place.location}"
        if thing.type not in wheel.treatable["Toggleable"]:
            yield f"pickupable {thing.id}"
        if thing.type in wheel.containers:
            yield f"isReceptacleObject {thing.id}"
        for ability, predicate in _PREDICATES.items():
            if thing.type in wheel.treatable[ability]:
                yield f"{predicate} {thing.id}"


def _declared_types(room: Room, things: Sequence[Thing], wheel: Wheel) -> tuple[list[str], list[str]]:
    named = [
        (predicate, kind.removesuffix("Type")) for predicate, kind in _TYPE_CONSTANT.findall(wheel.domain)
    ]
    receptacles = {
        *room.receptacle_types(),
        *(kind for predicate, kind in named if predicate == "receptacleType"),
    }
    objects = {
        *(thing.type for thing in things),
        *(kind for predicate, kind in named if predicate == "objectType"),
    }
    return sorted(receptacles), sorted(objects)
