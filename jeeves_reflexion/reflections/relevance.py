"""Which reflections matter for a task, without vectors: those of the same task type, then of the same tool or API."""

from __future__ import annotations

import re
from typing import Protocol

from jeeves_reflexion.lessons.endpoints import named_tools
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.types import Task


class About(Protocol):
    """What a reflection, or what came of one, is about: the task (empty where unknown), its type and its tools."""

    @property
    def task_id(self) -> str: ...  # noqa: D102
    @property
    def task_kind(self) -> str | None: ...  # noqa: D102
    @property
    def tools(self) -> tuple[str, ...]: ...  # noqa: D102


def relevance(told: About, text: str, task: Task) -> tuple[str, str]:
    """Say how a text on a task matters for another: as of the same type, and for the same tool; empty where not."""
    return _same_type(told, task), _same_tool(told.tools, text, task)


def _same_type(told: About, task: Task) -> str:
    if told.task_id and told.task_id == redact_id(task.id):
        return "the same task"
    same = told.task_kind and task.kind and told.task_kind.casefold() == task.kind.casefold()
    return "the same task type" if same else ""


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
