"""A language model as the player, with the action format of the original ALFWorld experiments.

The text form is that of ReAct (Yao et al. 2023) on ALFWorld: each turn is one line, ``> think: ...`` or a
command, and the game's answer follows. It is not the framework's :class:`~jeeves_reflexion.ReAct`, whose text form
(``Action: tool[input]``) is another one: figures are to be compared with those of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from benchmarks.alfworld.policy import Move
from jeeves_reflexion import ChatModel, Message, Sampling, Session, Task
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.text import LESSONS_NOTE, fence

LESSONS_BLOCK = "reflexion_lessons"
MAX_THOUGHTS = 3
"""Thoughts in a row before the model is made to act: a thought costs no step of the game."""

IDLE = "look"


class ModelPlayer:
    """Asks a model for each move; sees the opening, the lessons and the observations, as text."""

    def __init__(self, model: ChatModel, task: Task, session: Session) -> None:
        self._model = model
        system = (
            resources.files("benchmarks.alfworld")
            .joinpath("prompts/player.md")
            .read_text(encoding="utf-8")
            .strip()
        )
        if lessons := session.blocks.get(LESSONS_BLOCK, ""):
            system += "\n\n" + fence("lessons", lessons, note=LESSONS_NOTE)
        self._messages = [Message("system", system)]
        self._task = task

    @property
    def used(self) -> Sequence[str]:
        """Nothing: which lesson a model minded, it does not say."""
        return ()

    async def next(self, observation: str) -> Move:
        """Return the model's next command, with the thoughts that led to it.

        A reply without words, or one more thought than it may have, is played as ``look``: it costs a command.
        """
        self._messages.append(Message("user", observation))
        thoughts: list[str] = []
        while True:
            completion = await ask(
                self._model, self._messages, sampling=Sampling(temperature=0.0, max_tokens=200)
            )
            line = first_line(completion.text)
            self._messages.append(Message("assistant", f"> {line}"))
            if not line.lower().startswith("think:"):
                return Move(" ".join(thoughts), line)
            thoughts.append(line[len("think:") :].strip())
            if len(thoughts) > MAX_THOUGHTS:
                return Move(" ".join(thoughts), IDLE)
            self._messages.append(
                Message("user", "OK." if len(thoughts) < MAX_THOUGHTS else "OK. Now a command.")
            )


def first_line(text: str) -> str:
    """Return the first line that says something, without the prompt mark; models often go on inventing answers."""
    lines = (line.strip().removeprefix(">").strip() for line in text.splitlines())
    return next((line for line in lines if line), IDLE)
