"""Reads a score from a judge's reply: JSON, ``score: 0.7``, ``8/10`` or ``85%``, and nothing else.

A score that can't be read is ``None`` with a reason for the judge, never 0.0 or 1.0.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from jeeves_reflexion.models.replies import Stated, agreed, opened, prose, reading_of, unwrapped
from jeeves_reflexion.models.thoughts import answer
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import is_number

T = TypeVar("T")

_NUMBER = r"[+-]?(?:0,\d+|\d+,(?!\d{3}\b)\d+|\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
# Text that makes the number before it something other than a score: 1st  0x1F  1.2.3  7/10/20  0 to 1  0 - 1
_NO_MORE = (
    rf"(?:\s?[\u5206\u70b9\uc810])?(?![ \t]*/|\w|[^\w\s(\[*_`|]\d|(?:[ \t]*[-~\u2013\u2014\u2026][ \t]*"
    rf"|[ \t]+(?:[^\W\d_]{{1,4}}[ \t]+)?){_NUMBER}[ \t]*(?:[^\w \t]|$)"
    rf"|(?<![.,]\d)(?<![.,]\d\d)[ \t]+(?:[^\W\d_]+[ \t]+){{0,3}}of[ \t]+(?:the[ \t]+)?{_NUMBER})"
)
_SCALE = rf"[ \t*_`]*(?:(?P<percent>%)|\(?(?:/|\b(?:out[ \t]+of|of|von|sur|de|su)\b)\s*(?P<scale>{_NUMBER}))"
_AMOUNT = rf"(?P<value>{_NUMBER})(?:{_SCALE})?(?![\d%]){_NO_MORE}"
_MARKS = r"[\s\"'*_`>{}]*(?:[<\[(](?=[01]?\.\d+[>\])]))?"  # the prompt's own <0.7> too
_IS = r"(?:[:=|\uff1a]|\bis\b|\bof\b|\bwould[ \t]+be\b|$)"
_FIRST = r"^[^\w\n>\ufffc.+]{0,20}+"
_LABELS = r"score|rating|grade|mark"
# The same words in other languages. A word in other than Latin letters is recognised by its position alone.
_WORDS = (
    r"bewertung|wertung|punktzahl|note|nota|punteggio|voto|valutazione|puntaje|calificacion|skor|wynik|ocena|cijfer"
    r"|betyg|puan|(?=\w*[^\W\d_a-zA-Z])[^\W\d_]+(?:[ \t]+[^\W\d_]+){0,2}?"
)
_LABELLED: Final = re.compile(
    rf"{_FIRST}(?P<lead>(?:(?:the|my|your|so|thus|overall|final|total)[ \t]+){{0,3}})(?:{_LABELS})"
    rf"{_MARKS}{_IS}{_MARKS}{_AMOUNT}(?P<rest>(?!.*\bscore{_MARKS}[:=]).*)$",
    re.IGNORECASE | re.MULTILINE,
)
_FOREIGN: Final = re.compile(
    rf"{_FIRST}(?:{_WORDS})(?P<lead>[ \t]+final\w*)?{_MARKS}[:=\uff1a]{_MARKS}{_AMOUNT}(?P<rest>.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_BARE = re.compile(rf"^{_MARKS}{_AMOUNT}[\s\"'*_`.}}]*$")
_BEHIND_WORDS: Final = re.compile(rf"\D{{0,20}}?{_AMOUNT}")
_JUDGING = (
    r"\b(?:rat(?:e|ed|ing)|grad(?:e|ed)|mark|verdict|give|assign|award|deserves?|say|overall|total|result)\b"
)
# In prose "5/5 tests ran" and "100% of the drawers" are not verdicts. An amount counts at the start of a line or after
# a word of judging, unless a noun follows that it counts.
_SCALED: Final = re.compile(
    rf"(?:{_FIRST}|(?P<given>\b(?:rate|give|assign|award|grade)\b[^.\n\d%]{{0,40}}?(?<![\w./-])(?=[01]?\.\d))|{_JUDGING}[^.\n\d%]{{0,40}}?(?<![\w./-])){_AMOUNT}"
    r"(?=[ \t\"'*_`]*(?:$|[.,;:!?)\]\u2013\u2014-]|(?:for|because|since|as|overall)\b))",
    re.IGNORECASE | re.MULTILINE,
)
_IN_WORDS: Final = re.compile(
    rf"{_JUDGING}[^.\n\d%]{{0,40}}?\bscore{_MARKS}{_IS}{_MARKS}{_AMOUNT}", re.IGNORECASE
)
_WITHIN: Final = re.compile(rf"\bscore{_MARKS}[:=]{_MARKS}{_AMOUNT}", re.IGNORECASE)
_NEGATED: Final = re.compile(r"(?:\b(?:not|never|cannot)|n['\u2019]t)\W+(?:\w+\W+)?$", re.IGNORECASE)
_OF_OTHERS: Final = re.compile(r"(?:mark|verdict|deserves?|say|total|result)\b.*%$", re.IGNORECASE)
_TAGGED: Final = re.compile(r"<(?:final_)?score>\s*([^<>\n]{1,60}?)\s*</(?:final_)?score>", re.IGNORECASE)
_ZEROS: Final = re.compile(r"\.0*(?!\d)")
_BETWEEN_WORDS: Final = re.compile(r"[^\w.%/]+|_")
_WORDLESS: Final = re.compile(r"\W*")
_GONE: Final = "\ufffc"
_HUGE = 1e12


@dataclass(frozen=True, slots=True)
class ParsedScore:
    """A score in [0, 1], or ``None`` and the problem to show to the judge; ``fields`` is the JSON object, if any.

    :func:`read_score` alone may return a score with a problem: the score was off its scale and was clamped.
    """

    score: float | None
    problem: str = ""
    fields: Mapping[str, JSON] | None = None


_NONE: Final = ParsedScore(None, "no score was found in the reply")
_SEVERAL: Final = ParsedScore(None, "the reply holds more than one score")


def parse_score(text: str, *, shown: Sequence[str] = (), in_json: bool = False) -> ParsedScore:
    """Read the score of a judge's reply like :func:`read_score`; a score off its scale is None."""
    parsed = read_score(text, shown=shown, in_json=in_json)
    return replace(parsed, score=None) if parsed.problem else parsed


def read_score(text: str, *, shown: Sequence[str] = (), in_json: bool = False) -> ParsedScore:
    """Read the score of a judge's reply; a score off its scale is clamped: 7 is read as 1.0, -1 as 0.0.

    Thinking and quotations are left out: block quotations, fences, quotation marks, and repetitions of ``shown``, the
    judged texts, except for a score that begins the reply and none of these texts. The score is then looked for in
    this order (with ``in_json`` the second place comes first): lines that begin with ``score: …``, those that say
    nothing else first; a JSON object with ``score``; a reply that is only an amount; amounts such as ``8/10`` or
    ``85%`` that are given as a verdict. Several scores must agree, unless one is called final. A plain number above 1
    has no stated scale. A number that continues as something else, such as ``0 to 1``, is not a score.
    """
    reading = reading_of(text, shown)
    text = _TAGGED.sub(r"\nscore: \1\n", reading.text)
    quotations = Quotations(shown)
    scored = [
        each.read_as(parse_fields(fields))
        for each in reading.objects
        if (fields := scored_fields(each.value)) is not None
    ]
    scored = quotations.left_out(scored, reading.text)
    own = prose(text)
    labelled = (quotations.left_out(_lines(label, own), own) for label in (_LABELLED, _FOREIGN))
    lines = next(filter(None, labelled), [])
    plain = any(one.plain for one in scored)
    if lines and not (in_json and plain):
        return _one(lines if any(one.plain for one in lines) or not plain else [*lines, *scored])
    matches = [each for each in _SCALED.finditer(own) if each["percent"] or each["scale"] or each["given"]]
    matches = [each for each in (*matches, *_IN_WORDS.finditer(own)) if not _OF_OTHERS.match(each[0])]
    # "I would not give it 1.0" is no verdict; "I would give it 1.0; score: 0.2" holds two.
    matches = [each for each in matches if not _NEGATED.search(own, max(each.start() - 30, 0), each.start())]
    matches += _WITHIN.finditer(own) if matches else ()
    said = [Stated(_amount(each), each.start(), each.end(), plain=False) for each in matches]
    said = quotations.left_out(said, own)
    in_form = reading.text.startswith(("{", "[", "```", "~~~"))
    if in_json and plain and not in_form:
        return _one([replace(each, plain=True, final=False) for each in (*scored, *(lines or said))])
    if scored:
        return _one(
            scored if in_form or not said else [replace(each, plain=False) for each in (*scored, *said)]
        )
    bare = _BARE.match(unwrapped(own)) or _BARE.match(own.split("\n", 1)[0])
    if bare or said:
        return _amount(bare) if bare else _one(said)
    fenced = prose(text, fenced=True)
    within = quotations.left_out(_lines(_LABELLED, fenced), fenced)
    found = _one([each for each in within if each.plain])
    return ParsedScore(None, "the JSON object has no score") if found is _NONE and reading.objects else found


class Quotations:
    """Recognises what a judge repeats from the judged texts.

    Case, white space, punctuation and the form of a number (1 or 1.0) make no difference.
    """

    def __init__(self, shown: Sequence[str]) -> None:
        self._shown = shown

    @functools.cached_property
    def _texts(self) -> list[str]:
        return [f" {_folded(form)} " for one in self._shown for form in {one, answer(one)}]

    def left_out(self, stated: Sequence[Stated[T]], text: str) -> list[Stated[T]]:
        """Return the statements that are not quotations. One that begins the reply, and none of the texts, is kept."""
        kept: list[Stated[T]] = []
        for one in stated:
            said = f" {_folded(text[one.start : one.end])} "
            quoted = any(said in each for each in self._texts)
            begins = quoted and any(each.startswith(said) for each in self._texts)
            if not quoted or (_is_first(text, one.start) and not begins):
                kept.append(one)
        return kept


def _folded(text: str) -> str:
    text = _ZEROS.sub(" ", text.casefold().replace(",", "."))
    return " ".join(_BETWEEN_WORDS.sub(" ", text).split())


def _is_first(text: str, at: int) -> bool:
    """Whether neither words nor a quotation come before a position."""
    return _WORDLESS.fullmatch(text, 0, at) is not None and _GONE not in text[:at]


def _lines(label: re.Pattern[str], own: str) -> list[Stated[ParsedScore]]:
    """Return the lines that begin with a label and an amount; plain if nothing precedes them or follows the amount."""
    found = []
    for match in label.finditer(own):
        plain = _is_first(own, match.start()) or _WORDLESS.fullmatch(match["rest"]) is not None
        final = bool(re.search("final|overall", match["lead"] or "", re.IGNORECASE))
        # "Final score: 1" repeats a "score: 1" too.
        start = match.end("lead") if label is _LABELLED else match.start()
        found.append(Stated(_amount(match), start, match.start("rest"), plain, final))
    return found


def _one(stated: Sequence[Stated[ParsedScore]]) -> ParsedScore:
    if one := agreed(stated, lambda parsed: (parsed.score, not parsed.problem)):
        return one.value
    # 1 and 7 are two scores, though the second is clamped to 1.
    taken = agreed(stated, lambda parsed: parsed.score)
    return replace(taken.value, problem=_SEVERAL.problem) if taken else _SEVERAL if stated else _NONE


def scored_fields(fields: Mapping[str, JSON]) -> Mapping[str, JSON] | None:
    """Return a JSON object with a score, or the object that is all it holds; None if neither has a score."""
    named = {key.strip().lower(): value for key, value in opened(fields).items()}
    for name in ("score", "final_score", "overall_score", "final score", "overall score"):
        if name in named:
            return {**named, "score": named[name]}
    return None


def parse_fields(fields: Mapping[str, JSON]) -> ParsedScore:
    """Read the ``score`` of a JSON object; see :func:`read_score`."""
    value = fields.get("score")
    if is_number(value):
        parsed = _checked(value, 1.0)
    elif isinstance(value, str) and (match := _BARE.match(value)):
        parsed = _amount(match)
    else:
        parsed = ParsedScore(None, f"the score must be a number between 0 and 1, not {json.dumps(value)}")
    return replace(parsed, fields=fields)


def read_amount(text: str) -> ParsedScore:
    """Read the amount that begins a text, behind a few words at most."""
    match = _BEHIND_WORDS.match(text)
    return _NONE if match is None else _amount(match)


def _amount(match: re.Match[str]) -> ParsedScore:
    value, scale = (float((match[name] or "1").replace(",", ".")) for name in ("value", "scale"))
    return _checked(value, 100.0 if match["percent"] else scale)


def _checked(value: float, scale: float) -> ParsedScore:
    if not (abs(value) < _HUGE and 0 < scale < _HUGE):
        return ParsedScore(None, "the score is no finite number on a positive scale")
    beyond = f"the score {value:g} lies outside 0 to {scale:g}" if not 0.0 <= value <= scale else ""
    return ParsedScore(abs(min(max(value, 0.0), scale) / scale), beyond)
