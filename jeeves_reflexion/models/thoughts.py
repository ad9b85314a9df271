"""Removes from a reply what a model thinks aloud before it answers, in the marks of many models."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion.models.near_json import json_or_none

_TAGS: Final = r"(?:\w+:)?(?:ant)?think(?:ing)?"
_MORE_TAGS: Final = r"thoughts?|reasoning|reason|analysis|scratchpad|inner_?monologue"


_MARK, _ANY_MARK = (
    re.compile(
        rf"[<\u25c1][|\uff5c]?(?P<close>/|end_(?:of_)?)?(?:(?:begin|start)_(?:of_)?)?"
        rf"(?:{tags}|(?<=_of_)thought)(?:\s[^<>\n]{{0,80}}(?<!/))?[|\uff5c]?[>\u25b7]|\[(?P<shut>/)?THINK\]",
        re.IGNORECASE,
    )
    for tags in (_TAGS, f"{_TAGS}|{_MORE_TAGS}")
)
QUOTE_MARKS: Final = "\"'`\u201c\u201d\u2018\u2019"
_BOTH_NAMED: Final = re.compile(r"\s*(?:and|or|to|,|/|\u2026|\.{3})\s*")
_SOLID: Final = re.compile(r"\S")
_NEAR: Final = 200
_CHANNEL: Final = re.compile(
    r"(?<!`)<\|channel\|>\s*(?:analysis|commentary|final)\b|\Aanalysis(?=[A-Z]).*assistantfinal", re.DOTALL
)
_FINAL_CHANNEL: Final = re.compile(r"<\|channel\|>\s*final\s*(?:<\|message\|>)?|(?<=[\s.!?])assistantfinal")
# Tokens of chat templates around a turn, and the next turn that a model may make up after its own.
_TURN_MARK: Final = r"(?:<[|\uff5c][^|<>\n\uff5c]{1,40}[|\uff5c]>|</s>|<end_of_turn>)"
_NEXT_TURN: Final = re.compile(rf"{_TURN_MARK}\s*(?=<\|(?:im_)?start\b)")
_END_OF_TURN: Final = re.compile(rf"{_TURN_MARK}\s*\Z")
_START_OF_TURN: Final = re.compile(
    r"\A\s*(?:<[|\uff5c][^|<>\n\uff5c]{1,40}[|\uff5c]>\s*(?:assistant(?=\s|<)\s*)?)+"
)
_FIRST_OF_MARKS: Final = re.compile(r"[<\u25c1]|\[/?THINK\]|\Aanalysis[A-Z]", re.IGNORECASE)
"""Every mark of this module contains a match."""
_FENCE: Final = re.compile(r"^[ \t]*(?P<run>`{3,}|~{3,})[^\n`]*$", re.MULTILINE)


def spoken(text: str) -> str:
    """Return a completion without thinking in marks made for it, such as ``<think>``.

    Thinking that was never closed holds no answer. A mark counts at the start of a line or after a sentence. A
    sentence, a fence or JSON that only mentions a mark keeps it. A text without marks is returned unchanged.
    """
    if not _FIRST_OF_MARKS.search(text):
        return text
    if _CHANNEL.search(text):
        final = list(_FINAL_CHANNEL.finditer(text))
        text = text[final[-1].end() :] if final else ""
    text = _unthinking(text, _MARK)
    if after := _NEXT_TURN.search(text):
        text = text[: after.start()]
    ended, struck = len(text), "<s>" in text
    # A model may repeat its end-of-turn token until it runs out of tokens.
    while end := _END_OF_TURN.search(text, max(0, ended - _NEAR), ended):
        if struck and end[0].startswith("</s>"):
            break  # HTML
        ended = end.start()
    text = text[:ended]
    return _START_OF_TURN.sub("", text)


def answer(text: str) -> str:
    """Return the answer in a reply: like :func:`spoken`, and without thinking in any other kind of mark."""
    return _unthinking(spoken(text), _ANY_MARK).strip()


def fences(text: str) -> list[tuple[int, int]]:
    """Return where each closed fence begins and ends, including its first and last line."""
    found: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opening is None:
            opening = match
        elif match["run"].startswith(opening["run"]) and match[0].strip() == match["run"]:
            found.append((opening.start(), match.end()))
            opening = None
    return found


def _unthinking(text: str, pattern: re.Pattern[str]) -> str:
    kept: list[str] = []
    start, opened, named, fenced = 0, False, False, 0
    marks = list(pattern.finditer(text))
    if not marks or (text.lstrip()[:1] in ("{", "[") and json_or_none(text) is not None):
        return text
    closing = [
        mark.start() for mark in marks if (mark["close"] or mark["shut"]) and not _is_quoted(text, mark)
    ]
    begins = len(text) - len(text.lstrip())
    shown = [one for one in fences(text) if one[0] > begins]
    for mark in marks:
        shuts = bool(mark["close"] or mark["shut"])
        if not (opened or shuts):
            place = bisect.bisect(shown, (mark.start(), mark.start()))
            fenced = shown[place - 1][1] if place else 0
        if mark.start() < fenced or _is_quoted(text, mark):
            named = not shuts  # the fence or the sentence is about marks
        elif opened and shuts:
            start, opened, named = mark.end(), False, False
        elif not (opened or shuts) and _opens(text, mark, closing):
            kept.append(text[start : mark.start()])
            opened = True
        elif not opened and shuts and not named and _closes(text, mark):
            kept.clear()  # the opening mark is missing: everything before was thinking
            start = mark.end()
        elif not opened:
            named = not shuts
    if not kept and not start:
        return text
    return "".join(kept if opened else [*kept, text[start:]]).strip()


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    around = text[mark.start() - 1 : mark.start()], text[mark.end() : mark.end() + 1]
    return all(around) and all(one in QUOTE_MARKS for one in around)


def _opens(text: str, mark: re.Match[str], closing: Sequence[int]) -> bool:
    place = bisect.bisect(closing, mark.start())
    if place < len(closing) and _BOTH_NAMED.fullmatch(text, mark.end(), closing[place]):
        return False
    before = text[max(0, mark.start() - _NEAR) : mark.start()]
    if not before.rsplit("\n", 1)[-1].strip(" \t*_"):
        return True
    return place < len(closing) and before.rstrip()[-1:] in ".!?:;)>}]*"


def _closes(text: str, mark: re.Match[str]) -> bool:
    before = text[max(0, mark.start() - _NEAR) : mark.start()].rsplit("\n", 1)[-1]
    after = text[mark.end() : mark.end() + _NEAR].split("\n", 1)[0]
    more = _SOLID.search(text, mark.end()) is not None
    if not before.strip():
        return more or not after.strip()
    glued = not before[-1:].isspace() and after[:1].isalnum()
    return more and (not after.strip() or glued or before.rstrip()[-1:] in ".!?")
