"""Reflections as Markdown files that people read and edit, written and read back.

::

    # Reflection: 2026-03-01 - researcher-agent - Fetch the listings

    ## What happened?

    ...

    <!-- jeeves-reflexion: {"format":1,"id":"...","task_kind":"web scraping", ...} -->

What a field says can't pose as the file's own structure: a line of it that would be a heading, a comment, a code fence
or the like gets a backslash, which Markdown doesn't show. Names of files are readable, lower case, redacted, and
unable to lead anywhere else.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pydantic import TypeAdapter

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.redaction import redact, redact_id, redact_record
from jeeves_reflexion.reflections.endpoints import named_tools
from jeeves_reflexion.reflections.forms import (
    BULLET,
    FORMS,
    Form,
    ReflectionFormError,
    checked_form,
    clean_text,
    flat_text,
    principle_of,
    procedure_in,
    steps_of,
)
from jeeves_reflexion.text import abridge, one_line
from jeeves_reflexion.types import Provenance, Reflection, Task

FORMAT: Final = 1
SUMMARY_CHARACTERS: Final = 100
TITLE_WORDS: Final = 5
MOST_NAME_BYTES: Final = 80
"""A file system gives a name 255 bytes; the date, a number and an ending come on top."""

_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", "archive", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
"""What Windows keeps for devices, and the name of the archive."""
_DATA: Final = "<!-- jeeves-reflexion: "
_EXTRA: Final = ("principle", "procedure")


class MarkdownError(LessonStoreError):
    """A file that is no reflection; ``line`` is the one at fault, from 1, and the message says what to do."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One reflection as it stands in a file.

    ``agent`` is the name that the file's folder has; ``summary`` says in one line what the task was. ``id`` is empty
    for a file that a person wrote, whose title is taken for its task.
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
    def body(self) -> str:
        """The reflection as people and agents read it: the file without its data."""
        return "\n\n".join(_paragraphs(self))


_ENTRY: Final = TypeAdapter(Entry)


def entry_of(task: Task, told: Reflection, source: Provenance, *, id: str) -> Entry:
    """Return the entry of a reflection on ``task``, dated in UTC, as it is written.

    It is without characters that hide or disguise, secrets and personal data. Ids of ours are random, or hashes: they
    are kept. Raises :class:`ReflectionFormError`, naming the field, for a reflection that its form refuses.
    """
    prompt = redact(clean_characters(task.prompt))
    cleaned = replace(
        told,
        fields={key: clean_characters(text) for key, text in told.fields.items()},
        principle=told.principle and clean_characters(told.principle),
        procedure=told.procedure and clean_characters(told.procedure),
    )
    return Entry(
        datetime.datetime.fromtimestamp(source.created_at, datetime.UTC).date(),
        agent_slug(source.agent or ""),
        summary_of(prompt),
        checked_form(redact_record(cleaned)),
        id,
        plain_id(task.id),
        None if task.kind is None else flat_text(redact(task.kind)),
        # What the task's text names is kept, because the summary is cut.
        tuple(flat_text(redact(tool)) for tool in named_tools(task.tools, prompt).values()),
        replace(redact_record(source), run_id=plain_id(source.run_id)),
    )


def plain_id(text: str) -> str:
    """Return an id as it is written: without secrets, in characters that a UTF-8 file can hold."""
    return flat_text(redact_id(text))


def summary_of(text: str) -> str:
    """Return a text in one line of at most 100 characters."""
    return abridge(clean_text(text), SUMMARY_CHARACTERS) or "untitled"


# -- names of files and folders ---------------------------------------------------------------------------------------


def slug(text: str, *, words: int | None = None) -> str:
    """Return a text as lower-case words joined by hyphens, the first ``words`` of them; empty if it has none.

    Accents go where the letter below is plain Latin; letters and digits of other scripts stay. Everything else, such
    as slashes, dots and characters that hide, is no part of a name. Two long names that begin alike stay apart.
    """
    flat = unicodedata.normalize("NFKD", text).casefold()
    flat = re.sub(r"(?<=[a-z])[\u0300-\u036f]+", "", flat)
    flat = re.sub(r"(?<=\w)['\u2019](?=\w)", "", unicodedata.normalize("NFKC", flat))
    data = "-".join(re.findall(r"[^\W_]+", flat)[:words]).encode("utf-8", "replace")
    if len(data) <= MOST_NAME_BYTES:
        return data.decode("utf-8").replace("?", "")
    digest = hashlib.sha256(data).hexdigest()[:8]
    return f"{data[: MOST_NAME_BYTES - 9].decode('utf-8', 'ignore').rstrip('-')}-{digest}"


def agent_slug(name: str) -> str:
    """Return the name of an agent's folder; names that read alike are one agent. ``agent`` for one without words."""
    found = slug(redact(name)) or "agent"
    return f"{found}-agent" if found in _RESERVED else found


def title_slug(title: str) -> str:
    """Return the short title of a file: at most five words, ``untitled`` for one without any."""
    return slug(redact(title), words=TITLE_WORDS) or "untitled"


# -- writing -----------------------------------------------------------------------------------------------------------


def to_markdown(entry: Entry) -> str:
    """Write an entry as a file."""
    told = entry.reflection
    data = {
        "format": FORMAT,
        "id": entry.id,
        "outcome": told.outcome,
        "task_id": entry.task_id,
        "task_kind": entry.task_kind,
        "tools": entry.tools,
        **asdict(entry.source),
        "evidence": told.evidence,
    }
    text = json.dumps(data, separators=(",", ":"))
    # Nothing in it looks like the comment's end.
    text = text.replace("--", "-\\u002d").replace(">", "\\u003e")
    return "\n\n".join([*_paragraphs(entry), f"{_DATA}{text} -->"]) + "\n"


def _paragraphs(entry: Entry) -> Iterator[str]:
    form, reflection = FORMS[entry.reflection.outcome], entry.reflection
    yield f"# {form.title}: {entry.date.isoformat()} - {entry.agent} - {entry.summary}"
    for part in form.fields:
        yield f"## {part.heading}"
        yield escaped(reflection.fields[part.key])
    for name, text in (("Principle", reflection.principle), ("Procedure", reflection.procedure)):
        if text is not None:
            yield f"### {name}"
            yield text


_STRUCTURE: Final = (
    r"\\*(?:\#{1,2}(?:[ \t]|$)|\#{3}[ \t]+(?i:principle|procedure)[ \t\#]*$"  # headings
    r"|(?:-[ \t]*)+$|=+[ \t]*$"  # what makes a heading of the line above, and rules
    r"|<[!?/a-zA-Z]|`{3,}|~{3,})"  # comments, tags and code fences
)
_UNSAFE: Final = re.compile(rf"^( {{0,3}})(?={_STRUCTURE})", re.MULTILINE)
_ESCAPED: Final = re.compile(rf"^( {{0,3}})\\(?={_STRUCTURE})")


def escaped(text: str) -> str:
    """Write a field's text so that no line of it is a heading, a comment or a code fence."""
    return _UNSAFE.sub(r"\1\\", text)


# -- reading -----------------------------------------------------------------------------------------------------------

_DASH: Final = r"[ \t]+[-\u2013\u2014][ \t]+"
_TITLE: Final = re.compile(
    r"#[ \t]+(?P<title>(?:Decision )?Reflection|Decision|Procedure):[ \t]*\[?(?P<date>[^ \t\]]+)\]?"
    rf"{_DASH}(?P<agent>.+?){_DASH}(?P<summary>\S.*)$"
)
_HEADING: Final = re.compile(r" {0,3}(?P<marks>#{1,3})(?:[ \t]+(?P<text>.*?))?[ \t]*#*[ \t]*$")
_HEADINGS: Final = {
    **{each.heading.casefold().rstrip("?"): each.key for form in FORMS.values() for each in form.fields},
    **{name: name for name in _EXTRA},
}
_FENCE: Final = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})")


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
    by_hand = not lines[-1].startswith(_DATA)
    data = {} if by_hand else _data_of(lines[-1], len(lines))
    parts = _read_parts(lines if by_hand else lines[:-1])
    form = _form_of(title["title"], parts, data.get("outcome"))
    summary = title["summary"].strip()
    reflection = _reflection(form, parts, len(lines))
    try:
        return _ENTRY.validate_python(
            {
                "task_id": Task(summary).id if by_hand else "",
                **data,
                "date": date,
                "agent": agent_slug(title["agent"]),
                "summary": summary,
                "reflection": replace(reflection, evidence=data.get("evidence", ())),
                "source": {"run_id": "", "attempt": 0, "score": None, **data},
            }
        )
    except (TypeError, ValueError) as error:
        raise _unreadable(error, len(lines)) from error


def _data_of(line: str, number: int) -> Mapping[str, Any]:
    """Read what the comment of a file says; an older version noted less."""
    try:
        data: Mapping[str, Any] = json.loads(line.removeprefix(_DATA).removesuffix("-->"))
    except (ValueError, RecursionError) as error:
        raise _unreadable(error, number) from error
    found = data.get("format") if isinstance(data, Mapping) else None
    if found != FORMAT:
        raise MarkdownError(
            number, f"the data are of format {found!r}, and this version reads {FORMAT}: update it"
        )
    return data


def _unreadable(error: Exception, number: int) -> MarkdownError:
    said = f"{type(error).__name__}: {abridge(str(error), 200)}"
    return MarkdownError(number, f"the data can't be read ({said}): restore the line, or delete it")


def _read_parts(lines: Sequence[str]) -> dict[str, str]:
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    fence, opened = "", 0
    for number, line in enumerate(lines[1:], 2):
        key = None if fence else _heading(line, number)
        if key in parts:
            raise MarkdownError(
                number, f"the heading {line.strip()!r} stands here a second time: join the two"
            )
        if key is not None:
            current = parts.setdefault(key, [])
        elif current is None:
            if line.strip():
                raise MarkdownError(
                    number, "this text stands before the first '## ' heading: move it below one"
                )
        elif fence:  # nothing is escaped within
            current.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        else:
            current.append(_ESCAPED.sub(r"\1", line))
            fence, opened = (found["fence"], number) if (found := _FENCE.match(line)) else ("", 0)
    if fence:
        raise MarkdownError(
            opened, "this code fence is never closed: close it, or write a backslash before it"
        )
    return {key: "\n".join(part).strip() for key, part in parts.items()}


def _heading(line: str, number: int) -> str | None:
    """Return the key of the part that a line begins, or None for one that begins none."""
    match = _HEADING.match(line)
    if match is None:
        return None
    text = (match["text"] or "").casefold().strip(" \t")
    if len(match["marks"]) == 3:
        return text if text in _EXTRA else None
    # Writing escapes every line that begins with two marks, so reading may be generous with these.
    key = _HEADINGS.get(text.strip("?:*_ ")) if len(match["marks"]) == 2 else None
    if key is None:
        raise MarkdownError(
            number,
            f"{abridge(line, 60)!r} is no heading of a form: to keep it as text, write a backslash before it",
        )
    return key


def _form_of(title: str, parts: Mapping[str, str], outcome: object) -> Form:
    if title == "Procedure":
        return FORMS["success"]
    if {"decision", "alternatives", "why_chosen"} & parts.keys():
        return FORMS["decision"]
    failed = {"why", "tactical_rule"} & parts.keys() or outcome == "failed"
    return FORMS["failed" if failed else "partial"]


def _reflection(form: Form, parts: Mapping[str, str], last: int) -> Reflection:
    fields = {key: text for key, text in parts.items() if key not in _EXTRA}
    rule, principle, steps = (parts.get(key, "") for key in ("tactical_rule", *_EXTRA))
    if "\n" in rule and not any(map(BULLET.match, rule.split("\n"))):
        fields["tactical_rule"] = one_line(rule)  # a person's editor breaks long lines
    told = Reflection(
        "",
        form.outcome,
        fields,
        principle_of(principle) if principle else None,
        (steps if steps_of(steps) else procedure_in(steps)) if steps else None,
    )
    try:
        return checked_form(told)
    except ReflectionFormError as error:
        raise MarkdownError(last, f"{error}; write it below its heading in this file") from error
