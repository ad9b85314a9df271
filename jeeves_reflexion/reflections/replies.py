"""Reads a filled-in form out of a model's reply: a JSON object, or prose under the form's headings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.models.replies import agreed, objects, opened, unwrapped
from jeeves_reflexion.models.sections import says_nothing
from jeeves_reflexion.models.thoughts import answer
from jeeves_reflexion.reflections.forms import Form
from jeeves_reflexion.types import JSON

_NO: Final = frozenset({"false", "no", "0", ""})
_EXTRA: Final = ("cause", "important", "rule", "steps", "evidence")
_OTHER_NAMES: Final = {
    "principle": "rule",
    "procedure": "steps",
    "root cause": "cause",
    "systemic": "important",
}
_STEP: Final = re.compile(r"^\s*(?:[-*\u2022]|\(?\d{1,3}[.)])\s+")


@dataclass(frozen=True, slots=True)
class FilledForm:
    """What a reply says; what it doesn't is empty."""

    fields: Mapping[str, str] = field(default_factory=dict)
    cause: str = ""
    important: bool = False
    rule: str = ""
    steps: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()


def read_form(text: str, form: Form) -> FilledForm:
    """Read a reply; one that can't be read has no fields."""
    said = unwrapped(answer(text))
    found = _object(said, form) or _prose(said, form)
    steps = found.get("steps")
    lines = steps if isinstance(steps, Sequence) and not isinstance(steps, str) else _text(steps).split("\n")
    return FilledForm(
        {key: _text(found[key]) for key in form.keys if _text(found.get(key))},
        _text(found.get("cause")),
        _text(found.get("important")).strip().casefold().rstrip(".") not in _NO,
        _said(_text(found.get("rule"))),
        tuple(step for line in lines if (step := _said(_STEP.sub("", _text(line))))),
        tuple(int(number) for number in re.findall(r"\d{1,6}", _text(found.get("evidence")))),
    )


def _object(text: str, form: Form) -> Mapping[str, JSON] | None:
    """Return the one JSON object that has a field of the form; its keys in the form's own spelling."""
    names = _names(form)
    named = [
        one.read_as({names.get(_plain(key), ""): item for key, item in opened(one.value).items()})
        for one in objects(text)
    ]
    filled = [one for one in named if set(form.keys) & one.value.keys()]
    one = agreed(filled, lambda value: json.dumps(value, sort_keys=True))
    return None if one is None else one.value


def _prose(text: str, form: Form) -> Mapping[str, JSON]:
    """Return what stands under each heading, however decorated: on its own line, or before a colon."""
    names = _names(form)
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        heading, rest = _heading(line, names)
        if heading:
            current = parts.setdefault(heading, [])
        if current is not None:
            current.append(rest if heading else line)
    return {key: "\n".join(lines).strip() for key, lines in parts.items()}


def _heading(line: str, names: Mapping[str, str]) -> tuple[str, str]:
    match = re.match(r"^[\s>#*_`\d.)-]{0,12}(?P<name>[A-Za-z][A-Za-z _]{2,40}?)[*_`\s]*(?P<end>[?:]|$)", line)
    if match is None or _plain(match["name"]) not in names:
        return "", ""
    rest = line[match.end() :].lstrip("?:*_` \t")
    return names[_plain(match["name"])], rest


def _names(form: Form) -> dict[str, str]:
    """Return the key of each name that a field goes by."""
    names = {_plain(each.heading): each.key for each in form.fields} | {_plain(key): key for key in form.keys}
    return names | {name: name for name in _EXTRA} | _OTHER_NAMES


def _plain(name: str) -> str:
    return " ".join(re.sub(r"[^a-z]+", " ", name.casefold()).split())


def _text(value: JSON) -> str:
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(filter(None, map(_text, value)))
    return value.strip() if isinstance(value, str) else str(value)


def _said(text: str) -> str:
    return "" if says_nothing(text) else text
