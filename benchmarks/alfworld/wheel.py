"""Reads the data of the installed ``alfworld`` package: floor plans, what may be where, and goals."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from .games import KINDS
from .requirements import alfworld_files

# Sliced things come into being only in play.
_SLICED: Final = "Sliced"
_LAYOUT: Final = re.compile(r"FloorPlan(\d+)-openable\.json")

Pose = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """One of ALFRED's floor plans: from where its receptacles are used, and its types of objects.

    ``poses`` maps an id such as ``Cabinet|+00.68|+00.50|-02.20`` to x, z (metres), rotation and horizon
    (degrees).
    """

    number: int
    room: str
    poses: Mapping[str, Pose]
    object_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """A kind of task: its PDDL with ``{obj}``, ``{recep}`` and ``{toggle}``, and its sentences."""

    pddl: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wheel:
    """The data files and tables of the ``alfworld`` package, sorted, so that nothing depends on the order of a set.

    ``contents`` has the types of objects that a type of receptacle may hold, ``treatable`` the types that are
    Cleanable, Heatable, Coolable, Toggleable or Sliceable, ``containers`` the objects that hold others, ``openable``
    the types with a door or a lid, and ``rooms`` the rooms of each kind of task.
    """

    version: str
    domain: str
    grammar: str
    plans: tuple[FloorPlan, ...]
    contents: Mapping[str, tuple[str, ...]]
    treatable: Mapping[str, tuple[str, ...]]
    containers: tuple[str, ...]
    openable: tuple[str, ...]
    rooms: Mapping[str, tuple[str, ...]]
    goals: Mapping[str, Goal]


@lru_cache(1)
def read_wheel() -> Wheel:
    """Read the package's files (about 250, once per process; blocking).

    Raises :class:`~jeeves_reflexion.errors.MissingDependencyError` if the package is not installed.
    """
    folder = alfworld_files()
    # These two modules are tables in Python. They are run by path, because importing them would import the package.
    constants = runpy.run_path(str(folder / "gen" / "constants.py"))
    library = runpy.run_path(str(folder / "gen" / "goal_library.py"))
    movable = set(constants["MOVABLE_RECEPTACLES"])
    return Wheel(
        version=version("alfworld"),
        domain=(folder / "data" / "alfred.pddl").read_text(encoding="utf-8"),
        grammar=(folder / "data" / "alfred.twl2").read_text(encoding="utf-8"),
        plans=tuple(_plans(folder / "gen" / "layouts", constants["SCENE_TYPE"])),
        contents={
            receptacle: _whole(types)
            for receptacle, types in sorted(constants["VAL_RECEPTACLE_OBJECTS"].items())
            if receptacle not in movable
        },
        treatable={name: _whole(types) for name, types in sorted(constants["VAL_ACTION_OBJECTS"].items())},
        containers=tuple(sorted(movable)),
        openable=tuple(sorted(constants["OPENABLE_CLASS_SET"] - movable)),
        rooms={kind: tuple(sorted(constants["GOALS_VALID"][kind])) for kind in KINDS},
        goals={kind: _goal(library["gdict"][kind]) for kind in KINDS},
    )


def _plans(folder: Path, scenes: Mapping[str, range]) -> list[FloorPlan]:
    plans = []
    for path in folder.glob("*-openable.json"):
        found = _LAYOUT.fullmatch(path.name)
        if found is None:
            continue
        number = int(found[1])
        poses = json.loads(path.read_text(encoding="utf-8"))
        objects = json.loads(path.with_name(f"FloorPlan{number}-objects.json").read_text(encoding="utf-8"))
        plans.append(
            FloorPlan(
                number=number,
                room=next(room for room, numbers in scenes.items() if number in numbers),
                poses={receptacle: _pose(pose) for receptacle, pose in sorted(poses.items())},
                object_types=tuple(sorted(objects)),
            )
        )
    return sorted(plans, key=lambda plan: plan.number)


def _pose(values: list[float]) -> Pose:
    x, z, rotation, horizon = values
    return x, z, rotation, horizon


def _goal(entry: dict[str, Any]) -> Goal:
    # ALFRED's tables write '#' for the '-' of a typed variable in PDDL.
    return Goal(pddl=entry["pddl"].replace("#", "-"), sentences=tuple(entry["templates"]))


def _whole(types: set[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in types if not name.endswith(_SLICED)))
