"""Reads a judge's reply on one criterion or on several: a JSON object, or prose with headings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from jeeves_reflexion.evaluators.scores import (
    ParsedScore,
    Quotations,
    parse_fields,
    read_amount,
    read_score,
)
from jeeves_reflexion.models.fields import BULLET, Section, items, key_of, listed, sections
from jeeves_reflexion.models.replies import Stated, agreed, prose, reading_of, unwrapped
from jeeves_reflexion.models.thoughts import answer
from jeeves_reflexion.types import JSON, Evaluation
from jeeves_reflexion.values import is_number

UNSTATED_CONFIDENCE = 0.5
"""The confidence of a judge that states none: neither sure nor unsure."""

CLAMPED_CONFIDENCE = 0.5
"""The highest confidence of a score outside of 0 to 1: its judge did not keep to the scale."""

_WORDS = {"low": 0.25, "medium": 0.5, "moderate": 0.5, "high": 0.9}
_LISTS = ("issues", "suggestions")
_NAMES = {name: name for name in ("score", "confidence", "rationale", *_LISTS)}
_TO_NUMBER = re.compile(r"[^\d]{0,200}\d[\d.,]*")


def read_reply(text: str, *, shown: Sequence[str] = (), in_json: bool = True) -> Evaluation:
    """Read a judge's reply on one criterion; without a score, ``score`` is None and the rationale is the problem.

    A score outside of 0 to 1 counts as the nearer end of the scale. ``shown`` are the judged texts: quotations of them
    don't count. ``in_json`` says which form was requested; it takes precedence if the reply has both.
    """
    text = unwrapped(answer(text))
    said: list[str] = []
    reasons: list[str] = []
    for part in sections(text, _NAMES, every=True):
        is_list = part.key in _LISTS
        said += [part.heading, *(line for line in part.lines if not (is_list and BULLET.match(line)))]
        if not is_list:
            reasons += [part.rest if part.key == "rationale" else "", *part.lines]
    parsed = read_score("\n".join(said), shown=shown, in_json=in_json)
    if parsed.fields is not None:
        return _verdict(parsed, parsed.fields)
    own: defaultdict[str, list[str]] = defaultdict(list)
    for part in sections(prose(text, inline=True), _NAMES, every=True):
        own[part.key] += (part.rest, *part.lines)
    fields: dict[str, JSON] = {
        "rationale": "\n".join(line.strip() for line in reasons if line.strip()),
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


def read_replies(text: str, names: Sequence[str], *, shown: Sequence[str] = ()) -> dict[str, Evaluation]:
    """Read a judge's reply on several criteria; those of ``names`` without a readable verdict are unscored."""
    keys = {key_of(name) for name in names}
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
            verdicts[key_of(name)] = _verdict(parsed, parsed.fields or {})
        if keys & verdicts.keys():
            parts.append(each.read_as(verdicts))
    if any(one.plain for one in parts):
        one = agreed(
            parts, lambda part: tuple(sorted((name, verdict.score) for name, verdict in part.items()))
        )
        said = {} if one is None else one.value
    else:
        own = prose(reading.text)
        below: list[Stated[Section]] = []
        for section in sections(own, {name: name for name in names}, every=True)[1:]:
            number = _TO_NUMBER.match(own, section.start)
            end = number.end() if number else section.start
            below.append(Stated(section, section.start, end, plain=True))
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for section in (each.value for each in Quotations(shown).left_out(below, own)):
            scored = [f"score: {section.rest}"] if section.rest.strip(" *_`") else []
            texts[key_of(section.key)] += [*scored, *section.lines]
        said = {key: read_reply("\n".join(lines), in_json=False) for key, lines in texts.items()}
    unread = Evaluation(None, rationale="the reply says nothing of it", confidence=0.0)
    return {name: said.get(key_of(name), unread) for name in names}


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
