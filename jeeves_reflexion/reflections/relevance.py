"""Which reflections matter for a task, without vectors: those of the same task type, then of the same tool or API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jeeves_reflexion.lessons.endpoints import named_tools
from jeeves_reflexion.reflections.journal import Stored
from jeeves_reflexion.reflections.markdown import plain_id
from jeeves_reflexion.types import Task

if TYPE_CHECKING:
    from jeeves_reflexion.reflections.markdown import Entry
    from jeeves_reflexion.reflections.streams import StreamItem


def relevant(stored: Sequence[Stored], task: Task) -> list[tuple[Stored, str]]:
    """Return the reflections that matter for a task, best first, each with the reason.

    First those of the same task type, then those about the same tool or API, the later of equals first. One that is
    neither is not relevant, however recent.
    """
    found = [(one, relevance(one.entry, one.entry.body, task)) for one in stored]
    fit = [(one, why) for one, why in found if any(why)]
    fit.sort(key=lambda each: (*map(bool, each[1]), *each[0].order), reverse=True)
    return [(one, " and ".join(filter(None, why))) for one, why in fit]


def relevance(told: Entry | StreamItem, text: str, task: Task) -> tuple[str, str]:
    """Say how what was told of a task matters for another: as of the same type, and for the same tool; else empty."""
    same_type = told.task_kind and task.kind and told.task_kind.casefold() == task.kind.casefold()
    of_type = "the same task type" if same_type else ""
    if told.task_id and told.task_id == plain_id(task.id):
        of_type = "the same task"
    return of_type, _same_tool(told.tools, text, task)


def _same_tool(tools: tuple[str, ...], text: str, task: Task) -> str:
    """Name the tools, endpoints or APIs in common: both name it, given as a tool or in words."""
    ours, theirs = named_tools(task.tools, task.prompt), named_tools(tools, text)
    whole = "\n".join((text, *tools))
    shared = [name for key, name in ours.items() if key in theirs or _names(whole, key, name)]
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
