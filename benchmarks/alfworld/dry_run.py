"""A scripted model for ``--dry-run``: rules that read the prompts and answer in the form of a model.

It shows, without a key, that prompts, engine, limits, memory and files work together, and how many calls and tokens
a run takes. It solves some games and fails at others; the figures say nothing about language models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion import Message, ScriptedModel

from .model_prompt import rules
from .policy import Explorer, Move

NAME: Final = "dry-run"
_LESSON: Final = (
    "When the thing is not where one looks first, begin with the places that were not reached (note {})."
)
_FORMS: Final = ("> put {} in {}", "put {} in/on {}", "> Move the {} to the {}.", "Action: place {} on {}")


def dry_run_model() -> ScriptedModel:
    """Return the model. Its choices depend on the conversation alone, like those of a model at temperature 0."""
    return ScriptedModel(_reply, name=NAME)


def _reply(messages: Sequence[Message]) -> str:
    if not messages[0].content.startswith((rules("move"), rules("put"))):
        # A number makes lessons differ: only one of two equal lessons would be recalled.
        return _LESSON.format(_draw("".join(message.content for message in messages)) % 10_000)
    move, before = _moves(messages)
    answered_thought = messages[-1].content.startswith("OK.")
    if not answered_thought and move.thought != before.thought:
        return f"> think: {move.thought}\nOK.\n> {move.command}"
    return _written(move.command, len(messages))


def _moves(messages: Sequence[Message]) -> tuple[Move, Move]:
    """Return the next move and the one before it, by replaying the conversation."""
    opening = messages[1].content
    player = Explorer(opening, seed=_draw(f"{messages[0].content}\n{opening}"))
    before, move = Move("", ""), Move("", "")
    for message in messages[1:]:
        if message.role == "user" and not message.content.startswith("OK."):
            before, move = move, player.next(message.content)
    return move, before


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _written(command: str, turn: int) -> str:
    """Return a command as models write it; putting things down varies over the forms of both dialects."""
    words = command.split()
    if words[0] not in {"put", "move"}:
        return f"> {command}"
    thing, place = " ".join(words[1:3]), " ".join(words[-2:])
    return _FORMS[turn % len(_FORMS)].format(thing, place)
