"""The task of a generated game, and the commands that solve it with full knowledge of the room."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .placement import Thing, lamp_stands
from .rooms import Receptacle, Room
from .wheel import Wheel

LIGHT: Final = "look_at_obj_in_light"
TWO: Final = "pick_two_obj_and_place"

# By kind of task: the property that the thing needs, the type of receptacle, and the command's verb.
_TREATMENTS: Final = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin", "clean"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave", "heat"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge", "cool"),
}


@dataclass(frozen=True, slots=True)
class Errand:
    """One task in one room: the type of thing, and where to put it or the lamp to look at it under.

    ``receptacle_type`` is empty for tasks with a lamp, ``lamp_type`` for all others. ``sentence`` is the task
    in ALFWorld's words.
    """

    kind: str
    room: Room
    object_type: str
    receptacle_type: str
    lamp_type: str
    sentence: str

    @property
    def things_needed(self) -> int:
        """How many things of the type the task needs."""
        return 2 if self.kind == TWO else 1


def choose_errand(kind: str, rooms: Sequence[Room], wheel: Wheel, rng: random.Random) -> Errand | None:
    """Draw a room and a task of this kind in it; ``None`` if the room allows no such task."""
    room = rng.choice([room for room in rooms if room.kind in wheel.rooms[kind]])
    pairs = list(_light(room) if kind == LIGHT else _put_away(kind, room, wheel))
    if not pairs:
        return None
    # In two steps: otherwise most games would ask for a thing that fits in many places.
    object_type = rng.choice(sorted({thing for thing, _ in pairs}))
    other = rng.choice(sorted({other for thing, other in pairs if thing == object_type}))
    receptacle_type, lamp_type = ("", other) if kind == LIGHT else (other, "")
    sentence = rng.choice(wheel.goals[kind].sentences).format(
        obj=object_type.lower(), recep=receptacle_type.lower(), toggle=lamp_type.lower()
    )
    return Errand(kind, room, object_type, receptacle_type, lamp_type, sentence)


def plan_errand(errand: Errand, things: Sequence[Thing], names: Mapping[str, str]) -> list[str]:
    """Return the commands that solve the task; ``names`` has the engine's name for each id in lower case."""
    targets = [thing for thing in things if thing.type == errand.object_type][: errand.things_needed]
    walk = _Walk(names)
    if errand.kind == LIGHT:
        lamp = next(thing for thing in things if thing.type == errand.lamp_type)
        walk.fetch(targets[0])
        walk.go(lamp.place)
        walk.commands.append(f"use {walk.name(lamp.id)}")
        return walk.commands
    goal = errand.room.of_type(errand.receptacle_type)[0]
    for target in targets:
        walk.fetch(target)
        if errand.kind in _TREATMENTS:
            _, appliance_type, verb = _TREATMENTS[errand.kind]
            appliance = errand.room.of_type(appliance_type)[0]
            walk.go(appliance)
            walk.commands.append(f"{verb} {walk.name(target.id)} with {walk.name(appliance.id)}")
        walk.go(goal)
        walk.open(goal)
        walk.commands.append(f"move {walk.name(target.id)} to {walk.name(goal.id)}")
    return walk.commands


class _Walk:
    """The commands so far, the current place, and the receptacles that are open."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.commands: list[str] = []
        self._names = names
        self._at: Receptacle | None = None
        self._opened: set[Receptacle] = set()

    def name(self, identifier: str) -> str:
        return self._names[identifier.lower()]

    def go(self, place: Receptacle) -> None:
        if place != self._at:
            self.commands.append(f"go to {self.name(place.id)}")
            self._at = place

    def open(self, place: Receptacle) -> None:
        if place.openable and place not in self._opened:
            self.commands.append(f"open {self.name(place.id)}")
            self._opened.add(place)

    def fetch(self, thing: Thing) -> None:
        self.go(thing.place)
        self.open(thing.place)
        self.commands.append(f"take {self.name(thing.id)} from {self.name(thing.place.id)}")


def _light(room: Room) -> Iterator[tuple[str, str]]:
    if lamp_stands(room):
        yield from ((thing, lamp) for thing in room.object_types for lamp in room.lamps)


def _put_away(kind: str, room: Room, wheel: Wheel) -> Iterator[tuple[str, str]]:
    treatment, appliance, _ = _TREATMENTS.get(kind, ("", "", ""))
    types = room.receptacle_types()
    if appliance and appliance not in types:
        return
    for thing in room.object_types:
        if treatment and thing not in wheel.treatable[treatment]:
            continue
        # The thing must fit somewhere else too, and putting it into the appliance again is no task.
        for goal in types:
            elsewhere = any(thing in wheel.contents[name] for name in types if name != goal)
            if goal != appliance and elsewhere and thing in wheel.contents[goal]:
                yield thing, goal
