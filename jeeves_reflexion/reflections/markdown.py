"""Reflections as Markdown files that people read and edit, written and read back.

::

    # Reflection: 2026-03-01 - researcher-agent - Fetch the listings

    ## What happened?

    ...

    <!-- jeeves-reflexion: {"format":1,"id":"...","task_kind":"web scraping", ...} -->

The text of a field can't pose as structure of the file: a line that would be a heading, a comment, a code fence or the
like gets a backslash, which Markdown does not show. File names are readable, lower-case and redacted, and can't lead
out of the folder.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pydantic import TypeAdapter

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.redaction import redact, redact_id, redact_record
from jeeves_reflexion.reflections.endpoints import named_tools
from jeeves_reflexion.reflections.forms import (
    BULLET,
    FORMS,
    ReflectionFormError,
    checked_form,
    clean_text,
    flat_text,
)
from jeeves_reflexion.text import abridge, one_line
from jeeves_reflexion.types import Outcome, Provenance, Reflection, Task

FORMAT: Final = 1
SUMMARY_CHARACTERS: Final = 100
TITLE_WORDS: Final = 5
MOST_NAME_BYTES: Final = 80
"""Most file systems allow 255 bytes; the date, a number and the extension are added to these."""

_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", "archive", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
"""Names that Windows reserves for devices, and the name of the archive folder."""
_DATA: Final = "<!-- jeeves-reflexion: "
_EXTRA: Final = ("principle", "procedure")


class MarkdownError(LessonStoreError):
    """A file is not a reflection; ``line`` is the line at fault, from 1, and the message says what to do."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One reflection in a file.

    ``agent`` is the name of the file's folder; ``summary`` is the task in one line. ``id`` is empty for a file that a
    person wrote; its title then names the task.
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
        """The reflection as people and agents read it: the file without its data line."""
        reflection, form = self.reflection, FORMS[self.reflection.outcome]
        parts = [f"# {form.title}: {self.date.isoformat()} - {self.agent} - {self.summary}"]
        for part in form.fields:
            parts += [f"## {part.heading}", escaped(reflection.fields[part.key])]
        for name, text in (("Principle", reflection.principle), ("Procedure", reflection.procedure)):
            if text is not None:
                parts += [f"### {name}", text]
        return "\n\n".join(parts)


_ENTRY: Final = TypeAdapter(Entry)


def entry_of(task: Task, reflection: Reflection, source: Provenance, *, id: str) -> Entry:
    """Return the entry of a reflection on ``task``, dated in UTC, as it is written.

    Secrets, personal data and characters that hide or disguise text are removed. Our own ids are random or hashes, and
    are kept. Raises :class:`ReflectionFormError`, which names the field, if the form is not filled in correctly.
    """
    try:
        date = datetime.datetime.fromtimestamp(source.created_at, datetime.UTC).date()
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigurationError(
            f"created_at must be in seconds since 1970, not {source.created_at}"
        ) from error
    prompt = redact(clean_characters(task.prompt))
    cleaned = replace(
        reflection,
        fields={key: clean_characters(text) for key, text in reflection.fields.items()},
        principle=reflection.principle and clean_characters(reflection.principle),
        procedure=reflection.procedure and clean_characters(reflection.procedure),
    )
    return Entry(
        date,
        agent_slug(source.agent or ""),
        summary_of(prompt),
        checked_form(redact_record(cleaned)),
        id,
        plain_id(task.id),
        None if task.kind is None else flat_text(redact(task.kind)),
        # The tools that the prompt names, too, because the summary is cut.
        tuple(flat_text(redact(tool)) for tool in named_tools(task.tools, prompt).values()),
        replace(redact_record(source), run_id=plain_id(source.run_id)),
    )


def plain_id(text: str) -> str:
    """Return an id as it is written: redacted, with characters that a UTF-8 file can hold."""
    return flat_text(redact_id(text))


def summary_of(text: str) -> str:
    """Return a text on one line of at most 100 characters; "untitled" for a blank one."""
    return abridge(clean_text(text), SUMMARY_CHARACTERS) or "untitled"


# -- names of files and folders ---------------------------------------------------------------------------------------


def slug(text: str, *, words: int | None = None) -> str:
    """Return the first ``words`` words of a text in lower case, joined by hyphens; empty if it has none.

    Latin letters lose their accents; letters and digits of other scripts stay. Everything else, such as slashes, dots
    and hidden characters, is dropped. A long name ends in a digest, so that names with one beginning differ.
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
    """Return the name of an agent's folder: names with the same slug share it; ``agent`` if the slug is empty."""
    folder = slug(redact(name)) or "agent"
    return f"{folder}-agent" if folder in _RESERVED else folder


def title_slug(title: str) -> str:
    """Return the short title of a file: at most five words, or ``untitled``."""
    return slug(redact(title), words=TITLE_WORDS) or "untitled"


# -- writing -----------------------------------------------------------------------------------------------------------


def to_markdown(entry: Entry) -> str:
    """Return the text of an entry's file."""
    reflection = entry.reflection
    data = {
        "format": FORMAT,
        "id": entry.id,
        "outcome": reflection.outcome,
        "task_id": entry.task_id,
        "task_kind": entry.task_kind,
        "tools": entry.tools,
        **asdict(entry.source),
        "evidence": reflection.evidence,
    }
    text = json.dumps(data, separators=(",", ":"))
    # Escaped, so that nothing in it ends the comment.
    text = text.replace("--", "-\\u002d").replace(">", "\\u003e")
    return f"{entry.body}\n\n{_DATA}{text} -->\n"


_STRUCTURE: Final = (
    r"\\*(?:\#{1,2}(?:[ \t]|$)|\#{3}[ \t]+(?i:principle|procedure)[ \t\#]*$"  # headings
    r"|(?:-[ \t]*)+$|=+[ \t]*$"  # underlines of headings, and rules
    r"|<[!?/a-zA-Z]|`{3,}|~{3,})"  # comments, tags and code fences
)
_UNSAFE: Final = re.compile(rf"^( {{0,3}})(?={_STRUCTURE})", re.MULTILINE)
_ESCAPED: Final = re.compile(rf"^( {{0,3}})\\(?={_STRUCTURE})")


def escaped(text: str) -> str:
    """Return the text of a field with a backslash before each line that would be structure of the file."""
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
    """Read the text of a file. Raises :class:`MarkdownError`, which names the line, if it is not a reflection."""
    lines = flat_text(text.removeprefix("\ufeff")).rstrip().split("\n")
    blank = next((number for number, line in enumerate(lines) if line.strip()), 0)
    # Swapped, so that the numbers of the lines below stay true.
    lines[0], lines[blank] = lines[blank], lines[0]
    title = _TITLE.match(lines[0].rstrip())
    if title is None:
        raise MarkdownError(
            1, f"{abridge(lines[0], 80)!r} should read '# Reflection: YYYY-MM-DD - agent-name - task summary'"
        )
    try:
        date = datetime.date.fromisoformat(title["date"])
    except ValueError as error:
        raise MarkdownError(1, f"{title['date']!r} is not a date: write YYYY-MM-DD") from error
    number = next((each for each in range(len(lines), 0, -1) if lines[each - 1].startswith(_DATA)), 0)
    data: Mapping[str, Any] = {}
    try:
        if number:
            data = json.loads(lines[number - 1].removeprefix(_DATA).removesuffix("-->"))
            form = data.get("format") if isinstance(data, Mapping) else None
            if form != FORMAT:
                raise MarkdownError(
                    number,
                    f"the data has format {form!r}, and this version reads {FORMAT}: update jeeves-reflexion",
                )
            # A person may have added text below the data: it belongs to the last field.
            lines[number - 1] = ""
        reflection = _read_reflection(title["title"], lines, data.get("outcome"))
        summary = title["summary"].strip()
        return _ENTRY.validate_python(
            {
                "task_id": "" if number else Task(summary).id,
                **data,
                "date": date,
                "agent": agent_slug(title["agent"]),
                "summary": summary,
                "reflection": replace(reflection, evidence=data.get("evidence", ())),
                "source": {"run_id": "", "attempt": 0, "score": None, **data},
            }
        )
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"{type(error).__name__}: {abridge(str(error), 200)}"
        message = f"the data can't be read ({problem}): restore the line, or delete it"
        raise MarkdownError(number or len(lines), message) from error


def _read_parts(lines: Sequence[str]) -> dict[str, str]:
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    fence, opened = "", 0
    for number, line in enumerate(lines[1:], 2):
        key = None if fence else _heading(line, number)
        if key in parts:
            raise MarkdownError(
                number, f"the heading {line.strip()!r} is here a second time: join the two parts"
            )
        if key is not None:
            current = parts.setdefault(key, [])
        elif current is None:
            if line.strip():
                raise MarkdownError(
                    number, "this text comes before the first '## ' heading: move it below one"
                )
        elif fence:  # lines of code are not escaped
            current.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        else:
            current.append(_ESCAPED.sub(r"\1", line))
            fence, opened = (found["fence"], number) if (found := _FENCE.match(line)) else ("", 0)
    if fence:
        raise MarkdownError(opened, "this code fence is never closed: close it, or put a backslash before it")
    return {key: "\n".join(part).strip() for key, part in parts.items()}


def _heading(line: str, number: int) -> str | None:
    """Return the key of the part that a line begins, or None if it begins no part."""
    match = _HEADING.match(line)
    if match is None:
        return None
    text = (match["text"] or "").casefold().strip(" \t")
    if len(match["marks"]) == 3:
        return text if text in _EXTRA else None
    # Writing escapes every line that begins with two marks, so reading can be lenient here.
    key = _HEADINGS.get(text.strip("?:*_ ")) if len(match["marks"]) == 2 else None
    if key is None:
        raise MarkdownError(
            number,
            f"{abridge(line, 60)!r} is not a heading of a form: to keep it as text, put a backslash before it",
        )
    return key


def _read_reflection(title: str, lines: Sequence[str], outcome: object) -> Reflection:
    parts = _read_parts(lines)
    form: Outcome = "partial"
    if title == "Procedure":
        form = "success"
    elif {"decision", "alternatives", "why_chosen"} & parts.keys():
        form = "decision"
    elif {"why", "tactical_rule"} & parts.keys() or outcome == "failed":
        form = "failed"
    fields = {key: text for key, text in parts.items() if key not in _EXTRA}
    rule, principle, steps = (parts.get(key, "") for key in ("tactical_rule", *_EXTRA))
    if "\n" in rule and not any(map(BULLET.match, rule.split("\n"))):
        fields["tactical_rule"] = one_line(rule)  # a person's editor breaks long lines
    try:
        return checked_form(Reflection("", form, fields, principle or None, steps or None))
    except ReflectionFormError as error:
        raise MarkdownError(len(lines), f"{error}; write it below its heading in this file") from error
