"""A language model as the player, with the action format of the original ALFWorld experiments.

The text form is that of ReAct (Yao et al. 2023) on ALFWorld: each turn is one line, ``> think: ...`` or a command, and
the game's answer follows; the answer to a thought is "OK.". The framework's :class:`~jeeves_reflexion.ReAct` is not
used, because its text form differs (``Action: tool[input]``) and figures should be comparable with the original.
"""

from __future__ import annotations

import re
from typing import Final

from jeeves_reflexion import ChatModel, Message, Sampling, Session, Task
from jeeves_reflexion.models.ask import ask

from .agent import DIALECT, LESSONS_BLOCK, THINK
from .dialect import Dialect, read_command, without_location
from .model_prompt import system_prompt
from .policy import Move

IDLE = "look"

_THOUGHT: Final = re.compile(r"(?:think|thought)\s*:\s*", re.IGNORECASE)
_LABEL: Final = re.compile(r"^(?:action|act|command)\s*:\s*", re.IGNORECASE)


class ModelPlayer:
    """Asks a model for each command or thought; a thought takes a turn too, as in the paper's code.

    The model sees the opening, the lessons and the observations, as text.
    """

    def __init__(self, model: ChatModel, task: Task, session: Session) -> None:
        self._model = model
        self._dialect: Dialect = "put" if task.metadata.get(DIALECT) == "put" else "move"
        lessons = session.blocks.get(LESSONS_BLOCK, "")
        self._messages = [Message("system", system_prompt(task.kind, self._dialect, lessons))]

    async def next(self, observation: str) -> Move:
        """Return the model's next command in the game's dialect, or its thought; an empty reply means ``look``."""
        self._messages.append(Message("user", without_location(observation)))
        sampling = Sampling(temperature=0.0, max_tokens=200)
        line = first_line((await ask(self._model, self._messages, sampling=sampling)).text)
        thought = _THOUGHT.match(line)
        command = f"{THINK}{line[thought.end() :].strip()}" if thought else read_command(line, self._dialect)
        self._messages.append(Message("assistant", f"> {command or IDLE}"))
        return Move("", command or IDLE)


def first_line(text: str) -> str:
    """Return the first line with text, without the prompt mark; models often invent the game's answer after it."""
    lines = (_LABEL.sub("", line.strip().strip("`").removeprefix(">").strip()) for line in text.splitlines())
    return next((line for line in lines if line), IDLE)
