"""Reads a judge's reply on one criterion or on several: a JSON object, or prose with headings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from jeeves_reflexion.evaluators.scores import (
    ParsedScore,
    Quotations,
    parse_fields,
    read_amount,
    read_score,
)
from jeeves_reflexion.models.fields import BULLET, items, listed
from jeeves_reflexion.models.replies import Stated, agreed, prose, reading_of, unwrapped
from jeeves_reflexion.models.thoughts import answer
from jeeves_reflexion.types import JSON, Evaluation
from jeeves_reflexion.values import is_number

UNSTATED_CONFIDENCE = 0.5
"""The confidence of a judge that states none: neither sure nor unsure."""

CLAMPED_CONFIDENCE = 0.5
"""The highest confidence of a score outside of 0 to 1: its judge did not keep to the scale."""

_WORDS = {"low": 0.25, "medium": 0.5, "moderate": 0.5, "high": 0.9}
_HEADING = re.compile(
    r"^[ \t>#*_-]*(?P<name>score|confidence|rationale|issues|suggestions)[ \t*_]*(?:[:=][ \t*_]*(?P<rest>.*)|)$",
    re.IGNORECASE,
)
_NAMES = ("score", "confidence", "rationale", "issues", "suggestions")
_LISTS = _NAMES[3:]
_TO_NUMBER = re.compile(r"[^\d]{0,200}\d[\d.,]*")


def read_reply(text: str, *, shown: Sequence[str] = (), in_json: bool = True) -> Evaluation:
    """Read a judge's reply on one criterion; without a score, ``score`` is None and the rationale is the problem.

    A score outside of 0 to 1 counts as the nearer end of the scale. ``shown`` are the judged texts: quotations of them
    don't count. ``in_json`` says which form was requested; it takes precedence if the reply has both.
    """
    text = unwrapped(answer(text))
    whole, own = _sections(text), _sections(prose(text, inline=True))
    parsed = read_score("\n".join(whole["said"]), shown=shown, in_json=in_json)
    if parsed.fields is not None:
        return _verdict(parsed, parsed.fields)
    rationale = [*whole["rationale"], *whole[""], *whole["score"], *whole["confidence"][1:]]
    fields: dict[str, JSON] = {
        "rationale": "\n".join(line.strip() for line in rationale if line.strip()),
        "issues": items(own["issues"]),
        "suggestions": items(own["suggestions"]),
        "confidence": "".join(own["confidence"][:1]),
    }
    return _verdict(parsed, fields)


def _verdict(parsed: ParsedScore, fields: Mapping[str, JSON]) -> Evaluation:
    """Return the verdict of a score and the fields beside it."""
    if parsed.score is None:
        return Evaluation(None, rationale=parsed.problem, confidence=0.0)
    confidence = share(fields.get("confidence"))
    confidence = UNSTATED_CONFIDENCE if confidence is None else confidence
    rationale = field_text(fields, "rationale", "reason", "justification", "explanation")
    if parsed.problem:
        rationale = f"{rationale} ({parsed.problem}: taken as {parsed.score:g})".strip()
        confidence = min(confidence, CLAMPED_CONFIDENCE)
    return Evaluation(
        parsed.score,
        rationale=rationale,
        issues=field_list(fields, "issues"),
        suggestions=field_list(fields, "suggestions"),
        confidence=confidence,
    )


def _sections(text: str) -> dict[str, list[str]]:
    """Split prose at its headings; the first line of a section is the rest of the heading's line.

    An issue that begins like a heading is still an issue. ``said`` holds all lines except the items of lists.
    """
    sections: dict[str, list[str]] = {name: [] for name in ("", "said", *_NAMES)}
    current = ""
    for line in text.splitlines():
        match = _HEADING.match(line)
        name = match["name"].lower() if match else ""
        is_item = current in _LISTS and name not in _LISTS and BULLET.match(line)
        if match and not is_item:
            current = name
        if not is_item:
            sections["said"].append(line)
        if not match or is_item:
            sections[current].append(line)
        elif name != "score":
            sections[name].append(match["rest"] or "")
    return sections


def read_replies(text: str, names: Sequence[str], *, shown: Sequence[str] = ()) -> dict[str, Evaluation]:
    """Read a judge's reply on several criteria; those of ``names`` without a readable verdict are unscored."""
    keys = {_key(name) for name in names}
    reading = reading_of(text, shown)
    parts: list[Stated[dict[str, Evaluation]]] = []
    for each in reading.objects:
        verdicts: dict[str, Evaluation] = {}
        # {"criteria": {name: ...}}, a list, or a flat object
        wrappers = (key for key in ("criteria", "criteria_scores", "scores") if key in each.value)
        inner = next((each.value[key] for key in wrappers), each.value)
        if isinstance(inner, list):
            named = (item for item in inner if isinstance(item, Mapping))
            inner = {field_text(item, "name", "criterion"): item for item in named}
        for name, part in inner.items() if isinstance(inner, Mapping) else ():
            fields = part if isinstance(part, Mapping) else {"score": part}
            parsed = parse_fields({key.strip().lower(): value for key, value in fields.items()})
            verdicts[_key(name)] = _verdict(parsed, parsed.fields or {})
        if keys & verdicts.keys():
            parts.append(each.read_as(verdicts))
    if any(one.plain for one in parts):
        one = agreed(
            parts, lambda part: tuple(sorted((name, verdict.score) for name, verdict in part.items()))
        )
        said = {} if one is None else one.value
    else:
        own = prose(reading.text)
        by_heading: dict[str, list[str]] = {}
        for stated in Quotations(shown).left_out(_by_heading(own, keys), own):
            by_heading.setdefault(stated.value[0], []).append(stated.value[1])
        said = {name: read_reply("\n".join(each), in_json=False) for name, each in by_heading.items()}
    unread = Evaluation(None, rationale="the reply says nothing of it", confidence=0.0)
    return {name: said.get(_key(name), unread) for name in names}


def _by_heading(text: str, keys: Collection[str]) -> list[Stated[tuple[str, str]]]:
    """Return the text below each heading that names a criterion; the statement spans heading and first number."""
    found: list[tuple[str, int, list[str]]] = []
    at = 0
    for line in text.splitlines(keepends=True):
        name, _, rest = line.strip(" |\n").partition("|" if line.lstrip().startswith("|") else ":")
        if (key := _key(name)) in keys:
            found.append((key, at, [f"score:{rest}\n"] if rest.strip(" *_`") else []))
        elif found:
            found[-1][2].append(line)
        at += len(line)
    ends = [number.end() if (number := _TO_NUMBER.match(text, start)) else start for _, start, _ in found]
    return [
        Stated((key, "".join(lines)), start, end, plain=True)
        for (key, start, lines), end in zip(found, ends, strict=True)
    ]


def _key(name: str) -> str:
    """Return a key that the spellings of a name share: ``Edge cases:`` and ``## edge_cases`` have one key."""
    return " ".join(re.findall(r"[^\W_]+", name)).casefold() or name


def share(value: JSON) -> float | None:
    """Read a share such as a confidence from a number, ``80%`` or ``low``, clamped to [0, 1]; None if unreadable."""
    if isinstance(value, str):
        return _WORDS.get(value.strip(" \t*_.\"'").lower()) or read_amount(value).score
    return float(min(max(value, 0.0), 1.0)) if is_number(value) else None


def field_text(fields: Mapping[str, JSON], *names: str) -> str:
    """Return the first of these fields that is a text, else an empty text."""
    return next((value for name in names if isinstance(value := fields.get(name), str)), "")


def field_list(fields: Mapping[str, JSON], name: str) -> tuple[str, ...]:
    """Return a field that should be a list of texts; a single text is a list of one, an object its first text."""
    value = fields.get(name)
    given = value if isinstance(value, list | tuple) else [value] if isinstance(value, str) else []
    texts: list[str] = []
    for item in given:
        parts = item.values() if isinstance(item, Mapping) else [item]
        texts += [part for part in parts if isinstance(part, str)][:1]
    return listed(texts)
