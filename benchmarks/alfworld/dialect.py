"""The two dialects of ALFWorld: ``put X in/on Y`` of the older games, ``move X to Y`` of the current package."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from .games import Game, read_game_data

Dialect: TypeAlias = Literal["put", "move"]

_PUT: Final = re.compile(
    r"(?:put|move|place)\s+(.+?)\s+(?:in\s*/\s*on|in or on|into|onto|inside|in|on|to)\s+(.+)", re.IGNORECASE
)
_ARTICLE: Final = re.compile(r"\bthe\s+(?=[a-z]+ \d)", re.IGNORECASE)
_LOCATION: Final = re.compile(r"You arrive at loc \d+\. ")
_MOVED: Final = re.compile(r"^You move the (\w+ \d+) to the (\w+ \d+)\.$", re.MULTILINE)
_MOVE: Final = re.compile(r"^> move (\(object\)|\w+ \d+) to (\(receptacle\)|\w+ \d+)$", re.MULTILINE)
_ARRIVAL: Final = re.compile(r"^You arrive at \w+ \d+\. ", re.MULTILINE)


def dialect_of(game: Game) -> Dialect:
    """Return the dialect of a game by its grammar; reads the game's file."""
    return "put" if "put {o} in/on {r}" in read_game_data(game.path)["grammar"] else "move"


def read_command(text: str, dialect: Dialect) -> str:
    """Return a command in the game's form, whichever dialect, case or articles the player used.

    Nothing else is corrected: an unknown command stays unknown.
    """
    command = " ".join(_ARTICLE.sub("", text.strip("`'\" \t")).split()).rstrip(".").lower()
    if found := _PUT.fullmatch(command):
        thing, place = found.groups()
        return f"put {thing} in/on {place}" if dialect == "put" else f"move {thing} to {place}"
    return command


def without_location(observation: str) -> str:
    """Remove the ``You arrive at loc 30.`` of older games, which nothing refers to, as ReAct and Reflexion do."""
    return _LOCATION.sub("", observation, count=1)


def in_dialect(text: str, dialect: Dialect) -> str:
    """Translate commands and answers from the dialect ``move`` into ``dialect``."""
    if dialect == "move":
        return text
    text = _MOVE.sub(r"> put \1 in/on \2", text)
    return _ARRIVAL.sub("", _MOVED.sub(r"You put the \1 in/on the \2.", text))
