"""Which reflections matter for a task, and how they stand in its prompt. What gives orders stands in none.

Each retry sees all the reflections of the task's earlier attempts, in order. They don't compete for the few places of
a recall, which leaves out what this run has stored itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jeeves_reflexion.lessons.injection import SHARED_NOTE, render
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.reflections.endpoints import named_tools
from jeeves_reflexion.reflections.forms import FORMS, PRINCIPLE
from jeeves_reflexion.reflections.markdown import Entry, plain_id
from jeeves_reflexion.text import cut_middle, fence, one_line
from jeeves_reflexion.types import Lesson, Recall, Reflection, Task, Trial

if TYPE_CHECKING:
    from jeeves_reflexion.reflections.streams import StreamItem

BODY_TOKENS = 1500
HEAD = "Your reflections on the earlier attempts at this very task, oldest first:"


def flaw(text: str) -> str:
    """Say how a text of a reflection tries to command its readers; empty if it is advice."""
    # The words that a principle begins with are the form's own: "follow this rule" is no order there.
    finding = screen(f"\n{text}".replace(f"\n{PRINCIPLE}", "\n"))
    return "" if finding is None else f"{finding.why} ({finding.excerpt!r})"


def flaw_of(entry: Entry) -> str:
    """Say how a reflection tries to command its readers; empty if it is advice."""
    return flaw(f"{entry.summary}\n{entry.body}")


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


def recalled_block(recall: Recall) -> str:
    """Write what a recall offers: whole reflections where the store has them, else its sentences.

    Other agents' reflections come last, fenced under a note that they are data.
    """
    lessons = [item.lesson for item in recall.offered]
    whole = [lesson for lesson in lessons if _body(lesson)]
    own = [inert(_body(lesson)) for lesson in whole if lesson.trust == "own"]
    others = [inert(_body(lesson), tags=True) for lesson in whole if lesson.trust != "own"]
    parts = [*own, render([lesson for lesson in lessons if not _body(lesson)])]
    if others:
        parts.append(fence("reflections_of_others", "\n\n".join(others), note=SHARED_NOTE))
    return "\n\n".join(filter(None, parts))


def chain_block(trials: Sequence[Trial]) -> str:
    """Write the reflections of a run's trials for a prompt, oldest first; empty where there is none."""
    parts = [_written(trial, trial.reflection) for trial in trials if trial.reflection is not None]
    return "\n\n".join([HEAD, *parts]) if parts else ""


def _body(lesson: Lesson) -> str:
    return cut_middle(str(lesson.metadata.get("reflection", "")), BODY_TOKENS)


def _written(trial: Trial, reflection: Reflection) -> str:
    score = trial.evaluation.score
    head = f"Attempt {trial.number} ({reflection.outcome}{'' if score is None else f', score {score:.2f}'})"
    told = [(each.heading, reflection.fields.get(each.key, "")) for each in FORMS[reflection.outcome].fields]
    lines = [f"{heading.rstrip('?:')}: {one_line(text)}" for heading, text in told if text.strip()]
    lines = lines or [f"Lesson: {one_line(reflection.lesson)}"]
    lines += [one_line(text) for text in (reflection.principle, reflection.procedure) if text]
    if flaw("\n".join((head, *lines))):
        lines = ["(What was written about it gave orders, and is left out.)"]
    return inert("\n- ".join((head, *lines)))
