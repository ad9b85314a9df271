"""A language model as the player, with the action format of the original ALFWorld experiments.

The text form is that of ReAct (Yao et al. 2023) on ALFWorld: each turn is one line, ``> think: ...`` or a
command, and the game's answer follows, which to a thought is "OK.". It is not the framework's
:class:`~jeeves_reflexion.ReAct`, whose text form (``Action: tool[input]``) is another one: figures are to be compared
with those of the original.
"""

from __future__ import annotations

import re
from typing import Final

from jeeves_reflexion import ChatModel, Message, Sampling, Session, Task
from jeeves_reflexion.models.ask import ask

from .agent import COMMANDS_NOTE, DIALECT, HEARD, LESSONS_BLOCK, THINK
from .dialect import Dialect, read_command, without_location
from .model_prompt import system_prompt
from .policy import Move

MAX_THOUGHTS = 3
"""Free thoughts in a row before the model is made to act."""

IDLE = "look"

_THOUGHT: Final = re.compile(r"(?:think|thought)\s*:\s*", re.IGNORECASE)
_LABEL: Final = re.compile(r"^(?:action|act|command)\s*:\s*", re.IGNORECASE)


class ModelPlayer:
    """Asks a model for each move; sees the opening, the lessons and the observations, as text.

    With ``thoughts_cost`` a thought is a move of its own, as in the paper's code; else it comes with the command that
    follows it, after :data:`MAX_THOUGHTS` at most.
    """

    def __init__(
        self, model: ChatModel, task: Task, session: Session, *, thoughts_cost: bool = False
    ) -> None:
        self._model = model
        self._thoughts_cost = thoughts_cost
        self._dialect: Dialect = "put" if task.metadata.get(DIALECT) == "put" else "move"
        lessons = session.blocks.get(LESSONS_BLOCK, "")
        self._messages = [Message("system", system_prompt(task.kind, self._dialect, lessons))]

    async def next(self, observation: str) -> Move:
        """Return the model's next command in the game's dialect, or its thought where a thought costs a turn.

        A reply without words, or one more free thought than it may have, is played as ``look``: it costs a turn.
        """
        self._messages = [_without_commands(message) for message in self._messages]
        self._messages.append(Message("user", without_location(observation)))
        thoughts: list[str] = []
        while True:
            completion = await ask(
                self._model, self._messages, sampling=Sampling(temperature=0.0, max_tokens=200)
            )
            line = first_line(completion.text)
            thought = _THOUGHT.match(line)
            if thought is None:
                command = read_command(line, self._dialect) or IDLE
                self._messages.append(Message("assistant", f"> {command}"))
                return Move(" ".join(thoughts), command)
            said = line[thought.end() :].strip()
            self._messages.append(Message("assistant", f"> {THINK}{said}"))
            if self._thoughts_cost:
                return Move("", f"{THINK}{said}")
            thoughts.append(said)
            if len(thoughts) > MAX_THOUGHTS:
                return Move(" ".join(thoughts), IDLE)
            self._messages.append(
                Message("user", HEARD if len(thoughts) < MAX_THOUGHTS else f"{HEARD} Now a command.")
            )


def first_line(text: str) -> str:
    """Return the first line that says something, without the prompt mark; models often go on inventing answers."""
    lines = (_LABEL.sub("", line.strip().strip("`").removeprefix(">").strip()) for line in text.splitlines())
    return next((line for line in lines if line), IDLE)


def _without_commands(message: Message) -> Message:
    # What could be done earlier is of no use any more, and a list a turn would make up most of the prompt.
    if message.role != "user" or COMMANDS_NOTE not in message.content:
        return message
    return Message("user", message.content.partition(COMMANDS_NOTE)[0])
