"""The one reader of model replies: it separates the answer from thinking and from quotations.

Every reader of replies (scores, lessons, forms, notes, tool calls) goes through this module:

1. :func:`~jeeves_reflexion.models.thoughts.answer` removes what the model thinks aloud, and :func:`unwrapped` removes
   what is wrapped around the whole answer.
2. :func:`objects` finds JSON, however sloppy, notes how plainly it is stated, and leaves out quotations of texts that
   the model was shown; :func:`prose` returns the rest, without quotations.
3. :func:`agreed` compares several statements of one thing: if they differ, there is no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from jeeves_reflexion.models.near_json import NotJSONError, read_value, same
from jeeves_reflexion.models.thoughts import QUOTE_MARKS, answer, fences
from jeeves_reflexion.types import JSON

S = TypeVar("S")
T = TypeVar("T")

# -- 1. the answer ------------------------------------------------------------------------------------------------

_PAIRS: Final = (("**", "**"), ("__", "__"), ("`", "`"), ('"', '"'), ("\u201c", "\u201d"), ("\u00ab", "\u00bb"),
                 ("\u201e", "\u201c"), ("\u300c", "\u300d"), ("*", "*"), ("_", "_"))  # fmt: skip
_TAGGED: Final = re.compile(
    r"<(?P<tag>[a-z_]{2,30})>\s*(?P<inner>.*?)\s*</(?P=tag)>", re.DOTALL | re.IGNORECASE
)


def unwrapped(text: str) -> str:
    """Return an answer without a fence, a tag, quotation marks or emphasis around the whole of it."""
    text = text.strip()
    while not text[:1].isalnum():  # else nothing is wrapped around it, the usual case
        inner: str | None = None
        match = _TAGGED.fullmatch(text)
        if fences(text) == [(0, len(text))]:
            inner = text.split("\n", 1)[1].rsplit("\n", 1)[0] if text.count("\n") > 1 else None
        elif match and f"<{match['tag']}>" not in match["inner"]:
            inner = match["inner"]
        else:
            pairs = [(one, two) for one, two in _PAIRS if text.startswith(one) and text.endswith(two)]
            held = ((text[len(one) : len(text) - len(two)], one, two) for one, two in pairs)
            inner = next(
                (within for within, one, two in held if one not in within and two not in within), None
            )
        if inner is None or not inner.strip():
            break
        text = inner.strip()
    return text


# Behind a bullet and a number, which are no emphasis.
_OPENED: Final = re.compile(r"(?:[^\w*_`]|\*(?=\s)|\d{1,3}[.)])*+([*_`]++)")


def after_label(label: str, text: str) -> str:
    """Return the text behind a label that was matched with all marks of emphasis around it.

    Marks directly before the text belong to it (``Lesson: **Never** ask``), unless they close the label's own
    (``**Lesson:**``). Marks that open before the label and close at the end of the text (``**Lesson: Ask.**``) belong
    to neither.
    """
    bare, own = label.rstrip("*_`"), _OPENED.match(label)
    adjacent = label[len(bare) :]
    is_open = own is not None and bare.count(own[1], own.end()) % 2 == 0
    if adjacent:
        closes = own is not None and own[1] == adjacent and is_open
        return text if closes or not text[:1].strip() else adjacent + text
    if own is not None and is_open and text.count(own[1]) % 2:
        return text.rstrip().removesuffix(own[1])
    return text


_GONE: Final = "\ufffc"

# -- 2. JSON and prose ---------------------------------------------------------------------------------------------

_TRIES: Final = 500
_STARTS: Final = re.compile(r"[{\[]")
_BEFORE: Final = re.compile(r"[^\w>\ufffc\"'\u201c\u2018\u00ab]*(?:```[\w+-]*[ \t]*)?")
_AFTER: Final = re.compile(r"[^\w\ufffc]*")
_BEGINS: Final = re.compile(r"(?:\A|(?:```|~~~)[\w+-]*)\s*\Z")
_FINAL: Final = re.compile(r"\bfinal\b[^\n]{0,40}(?:\n\s*){0,2}(?:```\w*\s*)?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stated(Generic[T]):
    """A value that a reply states between two positions.

    ``plain`` if it stands on lines of its own and not within other words, ``final`` if the reply calls it final.
    """

    value: T
    start: int
    end: int
    plain: bool
    final: bool = False

    def read_as(self, value: S) -> Stated[S]:
        """Return the same statement with another value."""
        return Stated(value, self.start, self.end, self.plain, self.final)


def values(text: str) -> Iterator[Stated[JSON]]:
    """Yield the outermost JSON objects in an answer, and the arrays that stand on lines of their own.

    Those in block quotations and in quotation marks are left out.
    """
    at = tries = 0
    while tries < _TRIES and (start := _STARTS.search(text, at)):
        tries += 1
        try:
            value, at = read_value(text, start.start())
        except NotJSONError as error:
            at = max(error.position, start.end())
            continue
        before = text[: start.start()].rsplit("\n", 1)[-1]
        after = text[at:].split("\n", 1)[0]
        plain = bool(_BEFORE.fullmatch(before) and _AFTER.fullmatch(after))
        if before.lstrip().startswith(">") or (
            before[-1:] in QUOTE_MARKS[:2] + "\u201c\u2018\u00ab" and before
        ):
            continue
        # An array counts if it holds objects, or begins a fence or the text.
        listed = (
            isinstance(value, list)
            and plain
            and (
                any(isinstance(item, dict) for item in value)
                or _BEGINS.search(text, max(0, start.start() - 90), start.start())
            )
        )
        if isinstance(value, dict) or listed:
            final = bool(_FINAL.search(text, max(0, start.start() - 90), start.start()))
            yield Stated(value, start.start(), at, plain, final)
        else:
            at = start.end()  # an array within prose is a reference such as [1], but it may hold an object


def objects(text: str, shown: Sequence[str] = ()) -> list[Stated[Mapping[str, JSON]]]:
    """Return the JSON objects in an answer, except quotations of texts that the model was shown.

    An object is a quotation if at least half of its fields have the values of an object that was shown. An answer that
    consists of a single object is one only if all fields are equal: the requested form may resemble what was shown.
    """
    theirs: list[Mapping[str, JSON]] = []
    waiting: list[JSON] = [stated.value for one in shown if "{" in one for stated in values(one)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            theirs.append(value)
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value

    found: list[Stated[Mapping[str, JSON]]] = []
    for stated in values(text):
        value = stated.value
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        alone = not (text[: stated.start].strip() or text[stated.end :].strip())
        if isinstance(value, dict) and not _quoted(opened(value), theirs, alone=alone):
            found.append(stated.read_as(value))
    return found


def _quoted(value: Mapping[str, JSON], theirs: Sequence[Mapping[str, JSON]], *, alone: bool) -> bool:
    telling = [key for key, item in value.items() if item not in (None, "", [], {})]
    for other in theirs:
        alike = sum(key in other and same(value[key], other[key]) for key in telling)
        whole = value.keys() == other.keys() and alike == len(telling)
        if whole or (alike and 2 * alike >= len(telling) and not alone):
            return True
    return False


def opened(value: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return an object, or the object that is all it holds: ``{"result": {...}}``."""
    while len(value) == 1:
        (inner,) = value.values()
        if not isinstance(inner, dict):
            break
        value = inner
    return value


def json_value(text: str) -> JSON:
    """Return the one JSON object or array that an answer states; fenced ones come first. None for none or several."""
    text = unwrapped(answer(text))
    stated = list(values(text))
    fenced = [one for one in stated if any(start < one.start < end for start, end in fences(text))]
    one = agreed(fenced or stated, lambda value: json.dumps(value, sort_keys=True))
    return None if one is None else one.value


_QUOTED: Final = re.compile(
    r"(?<![\w\"])\"(?=\S)[^\"]{1,2000}?(?<=\S)\"(?!\w)|\u201c[^\u201d]{1,2000}\u201d|\u00ab[^\u00bb]{1,2000}\u00bb"
    r"|\u201e[^\u201c\u201d]{1,2000}[\u201c\u201d]|\u300c[^\u300d]{1,2000}\u300d|`[^`\n]{1,500}`|(?<!\w)'(?=\S)[^'\n]{1,500}'(?!\w)"
)
_TELLS: Final = re.compile(r"[\w\ufffc]\W{0,6}[:=\uff1a/{%]|\d\W*%|\bof\s+[\d.]")
_BOXED: Final = re.compile(r"\\(?:boxed|text\w*|math\w+)\s*\{|\$+|\\[\[\]()]")


def _unquoted(match: re.Match[str]) -> str:
    whole = match[0][0] == "`" and match.string[match.start() - 1 : match.start()] in ("", "\n")
    if whole and match.string[match.end() : match.end() + 1] in ("", "\n"):
        return match[0][1:-1]  # backquotes around a whole line are emphasis
    return _GONE if _TELLS.search(match[0]) else match[0]


def prose(text: str, *, fenced: bool = False, inline: bool = False) -> str:
    """Return an answer's own words, without JSON objects and quotations.

    Quotations are block quotations, closed fences, indented blocks, and words in quotation marks that state a value.
    Each is replaced by a mark that is not a word. ``fenced`` keeps the text in fences, ``inline`` the text in quotation
    marks.
    """
    for start, end in () if fenced else reversed(fences(text)):
        text = f"{text[:start]}{_GONE}{text[end:]}"
    for stated in reversed(list(values(text))):
        text = f"{text[: stated.start]}{_GONE}{text[stated.end :]}"
    text = text if inline else _QUOTED.sub(_unquoted, text)
    if "\\" in text or "$$" in text:
        text = _BOXED.sub(" ", text)
    lines, blank, indented = [], True, False
    open_text = any(line and not line[0].isspace() for line in text.splitlines())
    for line in text.splitlines():
        deep = line.startswith(("    ", "\t"))
        indented = bool(line.strip()) and deep and open_text and (blank or indented)
        blank = not line.strip()
        lines.append(_GONE if indented or line.lstrip().startswith(">") else line)
    return "\n".join(lines)


def reading_of(text: str, shown: Sequence[str] = ()) -> Reading:
    """Read a reply without thinking and wrapping; see :func:`objects` for ``shown``."""
    text = unwrapped(answer(text))
    return Reading(objects(text, shown), text)


@dataclass(frozen=True, slots=True)
class Reading:
    """A reply for its readers: the JSON objects that it states, and its whole text, quotations included."""

    objects: Sequence[Stated[Mapping[str, JSON]]]
    text: str


# -- 3. one answer -------------------------------------------------------------------------------------------------


def agreed(stated: Sequence[Stated[T]], key: Callable[[T], object] = lambda value: value) -> Stated[T] | None:
    """Return what the statements agree on; None if there are none, or if their ``key`` differs.

    Plain statements take precedence over those within other words, and among them those that are called final.
    """
    plain = [one for one in stated if one.plain]
    chosen = [one for one in plain if one.final] or plain or list(stated)
    return chosen[0] if chosen and len({key(one.value) for one in chosen}) == 1 else None
