"""Checks: would a lesson change an attempt? The protocol of a check, and one that asks a language model.

A check is asked before a lesson is stored, so that its reason can go back to the reflector. A check that can't decide
lets the lesson pass.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from jeeves_reflexion.callables import run
from jeeves_reflexion.errors import HOPELESS, described
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.lessons.screening.screens import stated_verdict
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Message
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.text import abridge, cut_middle, fence, read_prompt
from jeeves_reflexion.types import Task
from jeeves_reflexion.values import plain_number

_SHOWN: Final = 200
_TASK_TOKENS: Final = 2000


@dataclass(frozen=True, slots=True)
class Opinion:
    """A check's opinion of a lesson: whether it would change an attempt at a similar task, and why.

    ``changes`` is None if the check could not decide.
    """

    changes: bool | None
    why: str = ""


class Check(Protocol):
    """Says whether a lesson would change an attempt. A plain function will do, async or not, and may return a bool.

    A sync function runs in a worker thread. If a check raises, it has not decided.
    """

    def __call__(self, task: Task, lesson: str, /) -> Opinion | bool | Awaitable[Opinion | bool]:
        """Judge the lesson that an attempt at the task taught."""
        ...


async def opinion_of(check: Check, task: Task, lesson: str) -> Opinion:
    """Ask a check. An error leaves the lesson undecided, except a hopeless one, which is raised."""
    try:
        reply = await run(check, lambda: check(task, lesson))
    except HOPELESS:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing about the lesson
        changes, why = None, f"the check failed: {described(error)}"
    else:
        said, why = (reply.changes, reply.why) if isinstance(reply, Opinion) else (reply, "")
        said = plain_number(said)  # numpy has a bool of its own
        changes = said if isinstance(said, bool) else None
        if changes is None and (said is not None or reply is None):
            why = f"the check returned {reply!r} instead of an Opinion"
    return Opinion(changes, abridge(redact(str(why)), _SHOWN))


class ModelCheck:
    """Asks a language model, once, whether a lesson would change an attempt at a task like the one that taught it.

    A reply with no verdict, or with two, leaves the lesson undecided. Raises ``ModelError`` if the model can't be
    reached. ``prompt`` is a text, or the ``Path`` of a file.
    """

    def __init__(self, model: ChatModel, *, prompt: str | Path | None = None) -> None:
        self.model = model
        self._prompt = read_prompt(prompt, "jeeves_reflexion.lessons", "check.md")

    async def __call__(self, task: Task, lesson: str, /) -> Opinion:
        """Return the model's opinion of a lesson."""
        # A marker of a chat template could make either text look like the model's answer.
        asked, lesson = cut_middle(inert(task.prompt), _TASK_TOKENS), inert(lesson)
        material = f"{fence('task', asked)}\n\n{fence('lesson', lesson)}"
        completion = await ask(self.model, [Message("system", self._prompt), Message("user", material)])
        stated = stated_verdict(completion.text, "changes", [asked, lesson])
        return Opinion(None, "the model's reply states no verdict") if stated is None else Opinion(*stated)
