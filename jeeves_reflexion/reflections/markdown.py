"""Reflections as Markdown files that people read and edit: the exact format of seed 002, written and read back.

::

    # Reflection: 2026-03-01 - researcher-agent - Fetch the listings

    ## What happened?

    ...

    <!-- jeeves-reflexion: {"format":1,"id":"...","task_kind":"web scraping", ...} -->

What a field says can't pose as the file's own structure: a line of it that would be a heading, a comment or the like
gets a backslash, which Markdown doesn't show; code fences that are closed are kept as they are.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.forms import (
    FORMS,
    Form,
    ReflectionFormError,
    check_form,
    clean_text,
    flat_text,
    normalised,
)
from jeeves_reflexion.lessons.endpoints import named_tools
from jeeves_reflexion.mars import BULLET, principle_of, procedure_in, steps_of
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.escaping import OPENER, closing_line, escaped, unescaped
from jeeves_reflexion.reflections.naming import agent_slug
from jeeves_reflexion.text import abridge, one_line
from jeeves_reflexion.types import JSON, Provenance, Reflection, Task

FORMAT: Final = 1
SUMMARY_CHARACTERS: Final = 100
_DATA: Final = "<!-- jeeves-reflexion: "


class MarkdownError(LessonStoreError):
    """A file that is no reflection; ``line`` is the one at fault, from 1, and the message says what to do."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One reflection as it stands in a file.

    ``agent`` is the name that the file's folder has; ``summary`` says in one line what the task was. ``id`` is empty
    for a file that a person wrote, whose title is taken for its task; ``created_at`` is in seconds since 1970, 0 where
    it is not known.
    """

    date: datetime.date
    agent: str
    summary: str
    reflection: Reflection
    id: str = ""
    task_id: str = ""
    task_kind: str | None = None
    tools: tuple[str, ...] = ()
    source: Provenance = field(default_factory=lambda: Provenance("", 0, None))

    @property
    def form(self) -> Form:
        """The form of its outcome."""
        return FORMS[self.reflection.outcome]

    @property
    def created_at(self) -> float:
        """When it was written, in seconds since 1970; 0 where that is not known."""
        return self.source.created_at

    @property
    def body(self) -> str:
        """The reflection as people and agents read it: the file without its data."""
        return "\n\n".join(_paragraphs(self))


def entry_of(
    task: Task, reflection: Reflection, source: Provenance, *, id: str, zone: datetime.tzinfo = datetime.UTC
) -> Entry:
    """Return the entry of a reflection on ``task``, dated in ``zone``.

    Raises :class:`ReflectionFormError`, naming the field, for a reflection that its form refuses.
    """
    reflection = normalised(reflection)
    check_form(reflection)
    return Entry(
        datetime.datetime.fromtimestamp(source.created_at, zone).date(),
        agent_slug(source.agent or ""),
        summary_of(redact(task.prompt)),
        reflection,
        id,
        task.id,
        task.kind,
        # What the task's text names is kept, because the summary is cut.
        tuple(named_tools(task.tools, redact(task.prompt)).values()),
        source,
    )


def summary_of(text: str) -> str:
    """Return a text in one line of at most 100 characters."""
    return abridge(clean_text(text), SUMMARY_CHARACTERS) or "untitled"


def to_markdown(entry: Entry) -> str:
    """Write an entry as a file. Raises :class:`ReflectionFormError` for one that its form refuses."""
    entry = replace(
        entry,
        agent=agent_slug(entry.agent),
        summary=summary_of(entry.summary),
        reflection=normalised(entry.reflection),
    )
    check_form(entry.reflection)
    return "\n\n".join([*_paragraphs(entry), _DATA + _data(entry) + " -->"]) + "\n"


def from_markdown(text: str) -> Entry:
    """Read a file back. Raises :class:`MarkdownError`, which names the line, for one that is no reflection."""
    lines = flat_text(text.removeprefix("\ufeff")).rstrip().split("\n")
    blank = next((number for number, line in enumerate(lines) if line.strip()), 0)
    lines[0], lines[blank] = lines[blank], lines[0]  # what errors say of the lines below stays true
    title = _TITLE.match(lines[0].rstrip())
    if title is None:
        raise MarkdownError(
            1, f"{abridge(lines[0], 80)!r} should read '# Reflection: YYYY-MM-DD - agent-name - task summary'"
        )
    try:
        date = datetime.date.fromisoformat(title["date"])
    except ValueError as error:
        raise MarkdownError(1, f"{title['date']!r} is no date: write YYYY-MM-DD") from error
    agent = agent_slug(title["agent"])
    data_line, data = _read_data(lines)
    parts = _read_parts(lines[:data_line])
    form = _form_of(title["title"], parts, data)
    reflection = _reflection(form, parts, len(lines))
    return _entry(Entry(date, agent, title["summary"].strip(), reflection), data, data_line + 1)


# -- writing -----------------------------------------------------------------------------------------------------------


def _paragraphs(entry: Entry) -> Iterator[str]:
    form, reflection = entry.form, entry.reflection
    yield f"# {form.title}: {entry.date.isoformat()} - {entry.agent} - {entry.summary}"
    for part in form.fields:
        yield f"## {part.heading}"
        yield escaped(reflection.fields[part.key])
    for name, text in (("Principle", reflection.principle), ("Procedure", reflection.procedure)):
        if text is not None:
            yield f"### {name}"
            yield text


def _data(entry: Entry) -> str:
    source = entry.source
    data: dict[str, JSON] = {
        "format": FORMAT,
        "id": entry.id,
        "outcome": entry.reflection.outcome,
        "task_id": entry.task_id,
        "task_kind": entry.task_kind,
        "tools": list(entry.tools),
        "agent": source.agent,
        "run_id": source.run_id,
        "attempt": source.attempt,
        "score": source.score,
        "model": source.model,
        "created_at": source.created_at,
        "evidence": list(entry.reflection.evidence),
    }
    # Nothing in a comment may look like its end.
    return json.dumps(data, separators=(",", ":")).replace("--", "-\\u002d").replace(">", "\\u003e")


# -- reading -----------------------------------------------------------------------------------------------------------

_DASH: Final = r"[ \t]+[-\u2013\u2014][ \t]+"
_TITLE: Final = re.compile(
    r"#[ \t]+(?P<title>(?:Decision )?Reflection|Decision|Procedure):[ \t]*\[?(?P<date>[^ \t\]]+)\]?"
    rf"{_DASH}(?P<agent>.+?){_DASH}(?P<summary>\S.*)$"
)
_HEADING: Final = re.compile(r" {0,3}(?P<marks>#{1,3})(?:[ \t]+(?P<text>.*?))?[ \t]*#*[ \t]*$")
_EXTRA: Final = ("principle", "procedure")


def _read_data(lines: Sequence[str]) -> tuple[int, Mapping[str, Any]]:
    """Return where the data stand and what they say; a file that a person wrote has none."""
    last = len(lines) - 1
    if not lines[last].startswith(_DATA):
        return len(lines), {}
    try:
        data = json.loads(lines[last].removeprefix(_DATA).removesuffix("-->"))
        if data["format"] != FORMAT:
            raise MarkdownError(
                last + 1,
                f"the data are of format {data['format']!r}, and this version reads {FORMAT}: update it",
            )
    except (ValueError, KeyError, TypeError) as error:
        raise MarkdownError(
            last + 1,
            f"the data can't be read ({type(error).__name__}: {error}): restore the line, or delete it",
        ) from error
    return last, data


def _read_parts(lines: Sequence[str]) -> dict[str, str]:
    headings = {
        field.heading.casefold().rstrip("?"): field.key for form in FORMS.values() for field in form.fields
    }
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    number = 1
    while number < len(lines):
        line = lines[number]
        key = _heading(line, number + 1, headings)
        if key in parts:
            raise MarkdownError(
                number + 1, f"the heading {line.strip()!r} stands here a second time: join the two"
            )
        if key is not None:
            current = parts.setdefault(key, [])
        elif (stop := closing_line(lines, number)) is not None and current is not None:
            current += lines[number : stop + 1]
            number = stop
        elif current is None:
            if line.strip():
                raise MarkdownError(
                    number + 1, "this text stands before the first '## ' heading: move it below one"
                )
        else:
            if OPENER.match(line):
                raise MarkdownError(
                    number + 1, "this code fence is never closed: close it, or write a backslash before it"
                )
            current.append(unescaped(line))
        number += 1
    return {key: "\n".join(part).strip() for key, part in parts.items()}


def _heading(line: str, number: int, headings: Mapping[str, str]) -> str | None:
    """Return the key of the part that a line begins, or None for one that begins none."""
    match = _HEADING.match(line)
    if match is None:
        return None
    text = (match["text"] or "").casefold().strip(" \t")
    if len(match["marks"]) == 3:
        return text if text in _EXTRA else None
    # Writing escapes every line that begins with two marks, so reading may be generous with these.
    plain = text.strip("?:*_ ")
    key = headings.get(plain, plain if plain in _EXTRA else None) if len(match["marks"]) == 2 else None
    if key is None:
        raise MarkdownError(
            number,
            f"{abridge(line, 60)!r} is no heading of a form: to keep it as text, write a backslash before it",
        )
    return key


def _form_of(title: str, parts: Mapping[str, str], data: Mapping[str, Any]) -> Form:
    if title == "Procedure":
        form = FORMS["success"]
    elif {"decision", "alternatives", "why_chosen"} & parts.keys():
        form = FORMS["decision"]
    elif {"why", "tactical_rule"} & parts.keys() or data.get("outcome") == "failed":
        form = FORMS["failed"]
    else:
        form = FORMS["partial"]
    for key in parts:
        if key not in (*form.keys, *_EXTRA):
            raise MarkdownError(
                1, f"a {form.outcome} reflection has no {key!r}: its headings are {_listed(form)}"
            )
    given = [key for key in parts if key not in _EXTRA]
    if given != [key for key in form.keys if key in parts] or [*parts][: len(given)] != given:
        raise MarkdownError(1, f"the headings stand in another order than {_listed(form)}: put them in order")
    return form


def _listed(form: Form) -> str:
    return ", ".join(f"'## {field.heading}'" for field in form.fields)


def _reflection(form: Form, parts: Mapping[str, str], last: int) -> Reflection:
    fields = {key: text for key, text in parts.items() if key in form.keys}
    rule, principle, steps = (parts.get(key, "") for key in ("tactical_rule", *_EXTRA))
    if "\n" in rule and not any(map(BULLET.match, rule.split("\n"))):
        fields["tactical_rule"] = one_line(rule)  # a person's editor breaks long lines
    reflection = Reflection(
        "",
        form.outcome,
        fields,
        principle_of(principle) if principle else None,
        (steps if steps_of(steps) else procedure_in(steps)) if steps else None,
    )
    try:
        check_form(reflection)
    except ReflectionFormError as error:
        raise MarkdownError(last, f"{error}; write it below its heading in this file") from error
    return normalised(reflection)


def _entry(entry: Entry, data: Mapping[str, Any], line: int) -> Entry:
    try:
        reflection = replace(entry.reflection, evidence=tuple(map(int, data.get("evidence", ()))))
        score = data.get("score")
        return replace(
            entry,
            reflection=reflection,
            id=str(data.get("id", "")),
            task_id=str(data.get("task_id", "")) if data else Task(entry.summary).id,
            task_kind=None if data.get("task_kind") is None else str(data["task_kind"]),
            tools=tuple(map(str, data.get("tools", ()))),
            source=Provenance(
                str(data.get("run_id", "")),
                int(data.get("attempt", 0)),
                None if score is None else float(score),
                data.get("model"),
                data.get("agent"),
                float(data.get("created_at", 0.0)),
            ),
        )
    except (TypeError, ValueError) as error:
        raise MarkdownError(
            line, f"the data can't be read: {error}: restore the line, or delete it"
        ) from error
