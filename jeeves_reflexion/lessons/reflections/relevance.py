"""Which reflections matter for a task, without vectors: seed 002, section 5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jeeves_reflexion.lessons.reflections.folder import Stored, order
from jeeves_reflexion.lessons.reflections.markdown import Entry
from jeeves_reflexion.redaction import redact_id
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


def same_type(entry: Entry, task: Task) -> str:
    """Say how an entry's task is of the same type; empty if it isn't, or if neither says its type."""
    if entry.task_id and entry.task_id == redact_id(task.id):
        return "the same task"
    if entry.task_kind and task.kind and entry.task_kind.casefold() == task.kind.casefold():
        return "the same task type"
    return ""


def same_tool(entry: Entry, task: Task) -> str:
    """Name the tool or API that an entry and a task share: both have it, or the words of one name it."""
    ours = {tool.casefold(): tool for tool in task.tools}
    theirs = {tool.casefold(): tool for tool in entry.tools}
    shared = [ours[name] for name in ours if name in theirs or _names(entry.body, ours[name])]
    shared += [tool for name, tool in theirs.items() if name not in ours and _names(task.prompt, tool)]
    return f"the same tool ({', '.join(sorted(shared))})" if shared else ""


def _names(text: str, tool: str) -> bool:
    """Whether a text names a tool: a plain word, such as ``search``, only where it is quoted or called as one."""
    if not tool.strip():
        return False
    name = re.escape(tool)
    if tool.isalpha() and tool[1:].islower():
        return re.search(rf"`{name}`|(?<!\w){name}[(\[]", text, re.IGNORECASE) is not None
    return re.search(rf"(?<!\w){name}(?!\w)", text, re.IGNORECASE) is not None


def reflections_block(bodies: Sequence[str]) -> str:
    """Write reflections for a system prompt, best first, fenced as data; empty where there is none."""
    if not bodies:
        return ""
    text = "\n\n".join(cut_middle(body, BODY_TOKENS) for body in bodies)
    return fence("past_reflections", text, note=LESSONS_NOTE)
