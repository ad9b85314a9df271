"""Makes rooms from ALFRED's floor plans; each receptacle has its own location."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .names import encode_id
from .wheel import FloorPlan, Pose, Wheel

_GRID: Final = 0.25  # metres of one step of ALFRED's agent; locations are counted in steps
_TURN: Final = 90  # degrees
_TILT: Final = 15  # degrees between two horizons

# The layouts leave out receptacles that can be used from many places, though the floor plans list their types. We add
# them to the rooms, in these numbers.
_UNPLACED: Final = {
    "CoffeeMachine": 1,
    "GarbageCan": 1,
    "HandTowelHolder": 2,
    "LaundryHamper": 1,
    "StoveBurner": 4,
    "Toaster": 1,
    "Toilet": 1,
    "ToiletPaperHanger": 1,
    "TowelHolder": 1,
}
_FEWEST: Final = 7  # receptacles; with fewer there is nothing to search
_MOST: Final = 45  # the engine's time grows with the square of their number


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place that holds things: PDDL id, type, and the location from which it is used."""

    id: str
    type: str
    location: str
    openable: bool


@dataclass(frozen=True, slots=True)
class Room:
    """A floor plan with its receptacles, which are the same in every game.

    ``start`` is a location without a receptacle. ``object_types`` can be picked up and fit into some receptacle here;
    ``lamps`` can be switched on.
    """

    plan: int
    kind: str
    receptacles: tuple[Receptacle, ...]
    start: str
    object_types: tuple[str, ...]
    lamps: tuple[str, ...]

    def of_type(self, receptacle_type: str) -> list[Receptacle]:
        """Return the receptacles of one type, in the order of their ids."""
        return [receptacle for receptacle in self.receptacles if receptacle.type == receptacle_type]

    def receptacle_types(self) -> list[str]:
        """Return the types of the receptacles, sorted."""
        return sorted({receptacle.type for receptacle in self.receptacles})


def build_rooms(wheel: Wheel) -> list[Room]:
    """Return the floor plans with a suitable number of receptacles, in the order of their numbers."""
    rooms = [_build(plan, wheel) for plan in wheel.plans]
    return [room for room in rooms if _FEWEST <= len(room.receptacles) <= _MOST]


def _build(plan: FloorPlan, wheel: Wheel) -> Room:
    taken: set[str] = set()
    receptacles = []
    for identifier, pose in [*plan.poses.items(), *_unplaced(plan)]:
        kind = _type_of(identifier)
        if kind in wheel.contents:
            location = _free_location(pose, taken)
            receptacles.append(Receptacle(encode_id(identifier), kind, location, kind in wheel.openable))
    x, z, _, _ = next(iter(plan.poses.values()))
    held = {name for receptacle in receptacles for name in wheel.contents[receptacle.type]}
    return Room(
        plan=plan.number,
        kind=plan.room,
        receptacles=tuple(sorted(receptacles, key=lambda receptacle: receptacle.id)),
        start=_free_location((x, z, 0, 30), taken),
        object_types=_present(held, plan),
        lamps=_present(wheel.treatable["Toggleable"], plan),
    )


def _unplaced(plan: FloorPlan) -> list[tuple[str, Pose]]:
    # The seed is the floor plan alone, so that a room is the same in every game.
    rng = random.Random(f"floor plan {plan.number}")
    known = {_type_of(identifier) for identifier in plan.poses}
    spots = list(plan.poses.values())
    placed: list[tuple[str, Pose]] = []
    for kind, number in _UNPLACED.items():
        if kind not in plan.object_types or kind in known:
            continue
        for _ in range(number):
            x, z, rotation, _ = rng.choice(spots)
            near_x, near_z = x + rng.uniform(-0.6, 0.6), z + rng.uniform(-0.6, 0.6)
            identifier = f"{kind}|{near_x:+06.2f}|{rng.random():+06.2f}|{near_z:+06.2f}"
            placed.append((identifier, (x, z, rotation, 45.0)))
    return placed


def _free_location(pose: Pose, taken: set[str]) -> str:
    # One command would go to both of two receptacles with the same location: tilt until the location is free.
    x, z, rotation, horizon = pose
    while True:
        steps = (round(x / _GRID), round(z / _GRID), round(rotation / _TURN), round(horizon))
        location = encode_id("|".join(["loc", *(str(value) for value in steps)]))
        if location not in taken:
            taken.add(location)
            return location
        horizon += _TILT


def _type_of(identifier: str) -> str:
    # 'Sink|-00.12|+00.88|-02.01|SinkBasin' is a SinkBasin.
    parts = identifier.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def _present(types: Iterable[str], plan: FloorPlan) -> tuple[str, ...]:
    return tuple(sorted(set(types) & set(plan.object_types)))
