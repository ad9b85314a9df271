"""Game files in the folder layout that ``alfworld-download`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

from .failures import GameFileError

GAME_FILE: Final = "game.tw-pddl"
TRAJECTORY_FILE: Final = "traj_data.json"

KINDS: Final = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)

_ENGINE_PARTS: Final = ("pddl_domain", "grammar", "pddl_problem")
# ALFWorld's own loader leaves these out: its domain has no action for them.
_UNSUPPORTED: Final = ("movable", "Sliced")
_SENTENCE_STARTS: Final = "Your task is to: "


@dataclass(frozen=True, slots=True)
class Game:
    """One game: its task, and the file that the engine plays.

    ``id`` is the last two folders of its path (task and trial), ``kind`` one of :data:`KINDS`, and ``sentence`` the
    task as the opening says it after "Your task is to:". ``data`` is the result of :func:`read_game_data`, for machines
    that don't have the file.
    """

    id: str
    kind: str
    path: Path
    sentence: str
    data: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    @property
    def room(self) -> str:
        """The number of its floor plan, which ends the name of the task's folder."""
        return self.id.partition("/")[0].rpartition("-")[2]


def load_games(folder: Path | str) -> list[Game]:
    """Return the games under ``folder`` that ALFWorld would play, sorted by path.

    As in ALFWorld, this leaves out games that are not marked solvable, involve movable receptacles or slicing, or are
    of none of the six kinds. The file of a game contains expressions that the engine evaluates: load only games that
    you trust.

    Raises :class:`~benchmarks.alfworld.failures.GameFileError` if the folder is missing or holds no game, or a file
    can't be read.
    """
    root = Path(folder)
    if not root.is_dir():
        raise GameFileError(
            f"{root} is no folder; give the folder that alfworld-download or the generator wrote"
        )
    games = [
        game for path in sorted(root.rglob(TRAJECTORY_FILE)) if (game := _game_at(path.parent)) is not None
    ]
    if not games:
        raise GameFileError(
            f"{root} holds no playable game; expected <task>/<trial>/{GAME_FILE} beside {TRAJECTORY_FILE}, "
            "as alfworld-download writes them"
        )
    return games


def spread(games: Sequence[Game]) -> list[Game]:
    """Order games so that the first few are of all kinds: the first of each kind, then the second of each, ..."""
    by_kind: dict[str, list[Game]] = {}
    for game in games:
        by_kind.setdefault(game.kind, []).append(game)
    turns = zip_longest(*by_kind.values())
    return [game for turn in turns for game in turn if game is not None]


def read_game_data(path: Path) -> dict[str, str]:
    """Return the three texts that the engine plays: ``pddl_domain``, ``grammar`` and ``pddl_problem``.

    Nothing else of the file is returned, in particular no stored walkthrough.
    Raises :class:`~benchmarks.alfworld.failures.GameFileError`.
    """
    data = _read_json(path)
    return {part: _text(data, part, path) for part in _ENGINE_PARTS}


def _game_at(folder: Path) -> Game | None:
    path = folder / GAME_FILE
    if any(word in folder.parent.name for word in _UNSUPPORTED) or not path.is_file():
        return None
    trajectory = folder / TRAJECTORY_FILE
    kind = _text(_read_json(trajectory), "task_type", trajectory)
    data = _read_json(path)
    if kind not in KINDS or not data.get("solvable"):
        return None
    for part in _ENGINE_PARTS:
        _text(data, part, path)
    sentence = _sentence(_text(data, "grammar", path), path)
    return Game(id=f"{folder.parent.name}/{folder.name}", kind=kind, path=path, sentence=sentence)


def _sentence(grammar: str, path: Path) -> str:
    _, found, rest = grammar.partition(_SENTENCE_STARTS)
    if not found:
        raise GameFileError(
            f"{path}: the grammar has no '{_SENTENCE_STARTS.strip()}'; make or download the game again"
        )
    return rest.partition('"')[0].strip()


def _read_json(path: Path) -> dict[str, object]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise GameFileError(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}; "
            "the file is damaged, remove its folder or download it again"
        ) from error
    except UnicodeDecodeError as error:
        raise GameFileError(
            f"{path}, byte {error.start}: not UTF-8; "
            "the file is damaged, remove its folder or download it again"
        ) from error
    except OSError as error:
        raise GameFileError(f"{path} can't be read: {error.strerror}") from error
    if not isinstance(data, dict):
        raise GameFileError(
            f"{path}: expected a JSON object, found {type(data).__name__}; download the game again"
        )
    return data


def _text(data: Mapping[str, object], key: str, path: Path) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise GameFileError(
            f"{path}: '{key}' is missing or not a string; remove its folder or download the game again"
        )
    return value
