"""Which reflections matter for a task, without vectors: seed 002, section 5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from jeeves_reflexion.lessons.endpoints import named_tools
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.reflections.folder import Stored, order
from jeeves_reflexion.reflections.gate import flaw
from jeeves_reflexion.text import LESSONS_NOTE, cut_middle, fence
from jeeves_reflexion.types import Task

BODY_TOKENS = 1500


def relevant(stored: Iterable[Stored], task: Task, *, k: int) -> list[tuple[Stored, str]]:
    """Return the ``k`` reflections that matter most for a task, best first, each with the reason.

    First those of the same task type, then those about the same tool or API, the later of equals first. One that is
    neither is not relevant, however recent: fewer than ``k`` is a valid answer.
    """
    scored = [(one, same_type(one.entry, task), same_tool(one.entry, task)) for one in stored]
    fit = [(one, kind, tool) for one, kind, tool in scored if kind or tool]
    fit.sort(key=lambda each: (bool(each[1]), bool(each[2]), *order(each[0])), reverse=True)
    return [(one, " and ".join(filter(None, (kind, tool)))) for one, kind, tool in fit[:k]]


class Told(Protocol):
    """What relevance looks at: a reflection, or what came of one."""

    @property
    def task_id(self) -> str:
        """The task that it is about; empty where that is not known."""

    @property
    def task_kind(self) -> str | None:
        """The type of that task."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools of that task."""

    @property
    def body(self) -> str:
        """Its text."""


def same_type(told: Told, task: Task) -> str:
    """Say how an entry's task is of the same type; empty if it isn't, or if neither says its type."""
    if told.task_id and told.task_id == redact_id(task.id):
        return "the same task"
    if told.task_kind and task.kind and told.task_kind.casefold() == task.kind.casefold():
        return "the same task type"
    return ""


def same_tool(told: Told, task: Task) -> str:
    """Name the tools, endpoints or APIs that an entry and a task share: both name it, given as a tool or in words."""
    ours, theirs = named_tools(task.tools, task.prompt), named_tools(told.tools, told.body)
    text = "\n".join((told.body, *told.tools))
    shared = [name for key, name in ours.items() if key in theirs or _names(text, key, name)]
    shared += [name for key, name in theirs.items() if key not in ours and _names(task.prompt, key, name)]
    return f"the same tool ({', '.join(sorted(shared))})" if shared else ""


def _names(text: str, key: str, tool: str) -> bool:
    """Whether a text names a tool: a plain word, such as ``search``, only where it is quoted or called as one."""
    name = re.escape(key)
    if tool.isalpha() and tool[1:].islower():
        return re.search(rf"`{name}`|(?<!\w){name}[(\[]", text, re.IGNORECASE) is not None
    begins = "" if key.startswith("/") else r"(?<!\w)"  # a path begins behind a host
    ends = r"(?![\w-])" if "/" in key else r"(?!\w)"
    return re.search(f"{begins}{name}{ends}", text, re.IGNORECASE) is not None


def reflections_block(bodies: Sequence[str]) -> str:
    """Write reflections for a system prompt, best first, fenced as data; empty where there is none.

    Those that give orders to their reader are left out.
    """
    texts = [inert(cut_middle(body, BODY_TOKENS)) for body in bodies if not flaw(body)]
    if not texts:
        return ""
    text = "\n\n".join(texts)
    return fence("past_reflections", text, note=LESSONS_NOTE)
