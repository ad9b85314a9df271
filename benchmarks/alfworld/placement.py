"""Places the things in a room by habit, not by rule, so that some starts of a search are better than others."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from .names import encode_id
from .rooms import Receptacle, Room
from .wheel import Wheel

_MOST_OF_A_TYPE: Final = 3  # as in ALFRED's scenes
_CROWD: Final = 4  # a receptacle with this many things is half as likely to get another

# The weight of a type of receptacle; 1 for types that are not listed.
_EASE: Final = {
    "CounterTop": 4.0, "DiningTable": 4.0, "Desk": 4.0, "CoffeeTable": 3.0, "SideTable": 3.0, "Dresser": 3.0,
    "Bed": 3.0, "Sofa": 3.0, "Shelf": 2.0, "Cabinet": 2.0, "Drawer": 2.0, "ArmChair": 2.0,
    "Microwave": 0.4, "GarbageCan": 0.4, "CoffeeMachine": 0.5, "StoveBurner": 0.7, "Safe": 0.5,
}  # fmt: skip

# Where people keep things: a further factor. The other receptacles remain possible.
_HABITS: Final = {
    ("Apple", "Egg", "Lettuce", "Potato", "Tomato", "Bread"): {"Fridge": 7.0, "CounterTop": 1.5},
    ("WineBottle", "Glassbottle"): {"Fridge": 3.0, "Cabinet": 2.0},
    ("Fork", "Spoon", "ButterKnife", "Knife", "Spatula", "Ladle"): {"Drawer": 5.0},
    ("Pan", "Pot", "Kettle"): {"StoveBurner": 9.0, "Cabinet": 2.0},
    ("Plate", "Bowl", "Cup", "Mug"): {"Cabinet": 2.5, "Shelf": 2.0, "SinkBasin": 2.0, "CoffeeMachine": 2.0},
    ("SaltShaker", "PepperShaker"): {"Cabinet": 2.0, "Shelf": 3.0},
    ("DishSponge", "SoapBottle", "SoapBar", "SprayBottle"): {"SinkBasin": 4.0, "Cabinet": 2.0, "Toilet": 2.0},
    ("Cloth", "HandTowel"): {
        "BathtubBasin": 3.0,
        "Cabinet": 2.0,
        "LaundryHamper": 4.0,
        "HandTowelHolder": 8.0,
    },
    ("Towel",): {"TowelHolder": 8.0},
    ("ToiletPaper", "ToiletPaperRoll"): {"ToiletPaperHanger": 6.0, "Toilet": 3.0, "Cabinet": 2.0},
    ("Pen", "Pencil", "CD", "Book"): {"Desk": 3.0, "Shelf": 2.0, "Drawer": 2.0},
    ("KeyChain", "CreditCard", "Watch", "CellPhone"): {"Drawer": 2.0, "Safe": 5.0, "SideTable": 2.0},
    ("RemoteControl", "Newspaper", "Laptop"): {"Sofa": 3.0, "CoffeeTable": 2.0, "ArmChair": 2.0},
    ("Pillow",): {"Sofa": 3.0, "Bed": 4.0},
}

# Lamps are only placed where they can be reached without opening anything.
_LAMP_STANDS: Final = ("Desk", "SideTable", "Dresser", "Shelf", "CoffeeTable", "DiningTable")


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of a game: PDDL id, type, and the receptacle that holds it."""

    id: str
    type: str
    place: Receptacle


def place_things(
    room: Room, wheel: Wheel, rng: random.Random, *, target: str, at_least: int, not_in: str
) -> list[Thing] | None:
    """Place the things of a room and return them sorted by id; ``None`` if there is no place for a target.

    There are up to three things of each type, of the type ``target`` at least ``at_least``, and none of that type in a
    receptacle of the type ``not_in``.
    """
    load = dict.fromkeys(room.receptacles, 0)
    things = []
    for kind in room.object_types:
        number = _number(rng, at_least if kind == target else 0)
        banned = not_in if kind == target else None
        for _ in range(number):
            place = _choose(room, wheel, rng, load, kind=kind, banned=banned)
            if place is None:
                if kind == target:
                    return None
                break
            load[place] += 1
            things.append(Thing(_new_id(kind, rng), kind, place))
    return sorted([*things, *_lamps(room, rng)], key=lambda thing: thing.id)


def lamp_stands(room: Room) -> list[Receptacle]:
    """Return the receptacles of this room that may hold a lamp."""
    return [receptacle for receptacle in room.receptacles if receptacle.type in _LAMP_STANDS]


def _number(rng: random.Random, at_least: int) -> int:
    number = rng.choices(range(_MOST_OF_A_TYPE + 1), weights=(8, 40, 28, 24))[0]
    return max(number, at_least)


def _choose(
    room: Room,
    wheel: Wheel,
    rng: random.Random,
    load: dict[Receptacle, int],
    *,
    kind: str,
    banned: str | None,
) -> Receptacle | None:
    types = [name for name in room.receptacle_types() if kind in wheel.contents[name] and name != banned]
    if not types:
        return None
    habits = next((habits for kinds, habits in _HABITS.items() if kind in kinds), {})
    # First draw the type, then one of that type: otherwise twenty cabinets would be twenty times as likely as a fridge.
    chosen = rng.choices(types, weights=[_EASE.get(name, 1.0) * habits.get(name, 1.0) for name in types])[0]
    places = room.of_type(chosen)
    return rng.choices(places, weights=[0.5 if load[place] >= _CROWD else 1.0 for place in places])[0]


def _lamps(room: Room, rng: random.Random) -> list[Thing]:
    stands = lamp_stands(room)
    return [Thing(_new_id(kind, rng), kind, rng.choice(stands)) for kind in room.lamps if stands]


def _new_id(kind: str, rng: random.Random) -> str:
    # ALFRED's ids are positions. Ours must be unique and in random order, because the numbers in the names ("mug 2")
    # follow the order of the ids.
    x, y, z = (rng.randrange(-500, 500) / 100 for _ in range(3))
    return encode_id(f"{kind}|{x:+06.2f}|{abs(y):+06.2f}|{z:+06.2f}")
