"""Reads a score out of a judge's reply: JSON, ``score: 0.7``, ``8/10`` or ``85%``, and nothing else.

What can't be read is ``None`` with a reason for the judge, never 0.0 and never 1.0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.json_text import find_json_object
from jeeves_reflexion.types import JSON

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
# What makes a number something else than a score when it follows: 0,85  1st  0x1F  1.2.3  7/10/20  0 to 1  0 - 1
_NO_MORE = (
    rf"(?![ \t]*/|\w|[.,:-]\d|(?:[ \t]*(?:-|\u2013|to\b|or\b)|[ \t])[ \t]*{_NUMBER}[ \t]*(?:[^\w \t]|$))"
)
_SCALE = rf"\s*(?:(?P<percent>%)|(?:/|\bout\s+of\b)\s*(?P<scale>{_NUMBER}))"
_AMOUNT = rf"(?P<value>{_NUMBER})(?:{_SCALE})?(?![\d%]){_NO_MORE}"
_MARKS = r"[\s\"'*_`]*"
_LABELLED = re.compile(
    rf"\bscore\b{_MARKS}(?:[:=]|\bis\b|\bof\b){_MARKS}{_AMOUNT}", re.IGNORECASE | re.MULTILINE
)
_LEADING = re.compile(
    rf"^[ \t>#\"'*_`-]*score{_MARKS}[:=]{_MARKS}{_AMOUNT}(?!.*\bscore{_MARKS}[:=])",
    re.IGNORECASE | re.MULTILINE,
)
_BARE = re.compile(rf"^{_MARKS}{_AMOUNT}[\s\"'*_`.]*$")
# In prose "5/5 tests ran" and "100% of the drawers" are no verdicts: an amount counts that stands at the start of a
# line or after a word of judging, and that nothing is said to be counted by.
_SCALED = re.compile(
    r"(?:^[ \t>#\"'*_`-]*|\b(?:rat(?:e|ed|ing)|grad(?:e|ed)|mark|verdict|give|assign|award|deserves?|say|overall"
    rf"|total|result)\b[^.\n\d%]{{0,40}}?(?<![\w./-])){_AMOUNT}"
    r"(?=[ \t\"'*_`]*(?:$|[.,;:!?)\]\u2013\u2014-]|(?:for|because|since|as|overall)\b))",
    re.IGNORECASE | re.MULTILINE,
)
_HUGE = 1e12


@dataclass(frozen=True, slots=True)
class ParsedScore:
    """A score in [0, 1], or ``None`` and the problem to show to the judge; ``fields`` is the JSON object, if any."""

    score: float | None
    problem: str = ""
    fields: Mapping[str, JSON] | None = None


def parse_score(text: str, *, clamp: bool = False) -> ParsedScore:
    """Read the score of a judge's reply.

    In this order: a JSON object with ``score`` (also fenced or with prose around it); lines that begin with
    ``score: …``; ``score is …`` within a line; a reply that is nothing but an amount; amounts such as ``8/10`` or
    ``85%`` that stand as a verdict. Where several are found they must agree. A plain number above 1 has no stated
    scale and is not a score; nor is one that goes on as something else, such as ``0,85`` or ``0 to 1``. ``clamp``
    takes a number beyond its scale for the end of it: 7 for 1.0, -1 for 0.0.
    """
    fields = find_json_object(text)
    if fields is not None and "score" in fields:
        return parse_fields(fields, clamp=clamp)
    for pattern in (_LEADING, _LABELLED):
        labelled = [_amount(match, clamp=clamp) for match in pattern.finditer(text)]
        if labelled:
            return _agreed(labelled)
    if match := _BARE.match(text):
        return _agreed([_amount(match, clamp=clamp)])
    scaled = [_amount(m, clamp=clamp) for m in _SCALED.finditer(text) if m["percent"] or m["scale"]]
    if scaled:
        return _agreed(scaled)
    return ParsedScore(None, "no score was found in the reply")


def parse_fields(fields: Mapping[str, JSON], *, clamp: bool = False) -> ParsedScore:
    """Read the ``score`` of a JSON object that was read already; see :func:`parse_score`."""
    value = fields.get("score")
    if isinstance(value, int | float) and not isinstance(value, bool):
        score, problem = _checked(value, 1.0, clamp=clamp)
    elif isinstance(value, str) and (match := _BARE.match(value)):
        score, problem = _amount(match, clamp=clamp)
    else:
        score, problem = None, f"the score must be a number between 0 and 1, not {json.dumps(value)}"
    return ParsedScore(score, problem, fields)


def _amount(match: re.Match[str], *, clamp: bool) -> tuple[float | None, str]:
    scale = 100.0 if match["percent"] else float(match["scale"]) if match["scale"] else 1.0
    return _checked(float(match["value"]), scale, clamp=clamp)


def _checked(value: float, scale: float, *, clamp: bool) -> tuple[float | None, str]:
    if not (abs(value) < _HUGE and 0 < scale < _HUGE):
        return None, "the score is no finite number on a positive scale"
    if clamp:
        value = min(max(value, 0.0), scale)
    if not 0.0 <= value <= scale:
        return None, f"the score {value:g} lies outside 0 to {scale:g}"
    return abs(value / scale), ""


def _agreed(amounts: list[tuple[float | None, str]]) -> ParsedScore:
    scores = {score for score, _ in amounts}
    if len(scores) > 1:
        return ParsedScore(None, "the reply holds more than one score")
    return ParsedScore(*amounts[0])


def check_share(label: str, value: object) -> None:
    """Raise :class:`ConfigurationError` unless a value is a number from 0 to 1."""
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise ConfigurationError(f"{label} must lie in [0, 1], not {value!r}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is an int or float, and neither a bool nor NaN."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and not math.isnan(value))
