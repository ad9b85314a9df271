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
    """Return the dialect that a game understands, by its own grammar; reads the game's file."""
    return "put" if "put {o} in/on {r}" in read_game_data(game.path)["grammar"] else "move"


def read_command(text: str, dialect: Dialect) -> str:
    """Return a command as the game writes it, whichever dialect, case or articles the player used.

    Nothing else is mended: a command that the game does not know stays one.
    """
    command = " ".join(_ARTICLE.sub("", text.strip("`'\" \t")).split()).rstrip(".").lower()
    if found := _PUT.fullmatch(command):
        thing, place = found.groups()
        return f"put {thing} in/on {place}" if dialect == "put" else f"move {thing} to {place}"
    return command


def without_location(observation: str) -> str:
    """Return what older games say without ``You arrive at loc 30.``, a number that nothing else refers to.

    ReAct and Reflexion leave it out, too.
    """
    return _LOCATION.sub("", observation, count=1)


def in_dialect(text: str, dialect: Dialect) -> str:
    """Turn a text of commands and answers written for ``move`` into what a game of ``dialect`` would show."""
    if dialect == "move":
        return text
    text = _MOVE.sub(r"> put \1 in/on \2", text)
    return _ARRIVAL.sub("", _MOVED.sub(r"You put the \1 in/on the \2.", text))
