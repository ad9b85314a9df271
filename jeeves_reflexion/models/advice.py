"""Reads the one sentence of advice out of a model's reply."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from jeeves_reflexion.models.replies import after_label, objects, opened, unwrapped, values
from jeeves_reflexion.models.thoughts import answer
from jeeves_reflexion.types import JSON

# Names of the sentence in our prompts, and in the languages that models answer in.
_NAME: Final = (
    r"(?:lessons?(?:[ \t]+learned)?|advice|take-?aways?|insight|reflection|rule|lektion|lehre|le\u00e7on|lecci\u00f3n"
    r"|lezione|li\u00e7\u00e3o|les|\u0443\u0440\u043e\u043a|(?:\u7ecf\u9a8c)?\u6559\u8bad|\u6559\u8a13"
    r"|\u30ec\u30c3\u30b9\u30f3|\uad50\ud6c8)"
)
_LABEL: Final = re.compile(
    rf"^(?:[^\w\n>]|_){{0,10}}(?:(?:the|my|one|key|main|new|final|most|important)[ \t]+){{0,3}}{_NAME}"
    r"(?:[ \t]+(?:is|here|for\b[^:\n]{0,30}))?[*_`]*(?:[ \t]+\([^()\n]{0,30}\))?[ \t]*"
    r"(?:[:\uff1a]|[-\u2013\u2014][ \t]|$)[*_` \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_PREAMBLE: Final = re.compile(
    r"^(?:[^.!?:\n]{1,60}[.!,;][ \t]+)?here(?:['\u2019]s| is| are)\b[^:\n]{0,120}:(?:[*_`]+(?=\s|$))?[ \t]*",
    re.IGNORECASE,
)
_INTERJECTION: Final = re.compile(
    r"^(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|great|understood|got it|yes)(?:[.!,][ \t]+|\W*\Z)",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"^\s*(?:[-*+>\u2022]|\(?\d{1,2}[.)])\s+")
_FIELD: Final = re.compile(r"\W*[^\W\d]+\W*:")
# A paragraph that speaks to the asker and not to the agent: in the first person, a question, an exclamation, or a
# remark on the lesson itself.
_TALK: Final = re.compile(
    r"[!?]\W*$|\b(?:I|me|my|lessons?)\b|^\W*(?:this|that|it)\b|^\W*(?:[^\W\d]+[ \t]+){0,3}[^\W\d]+\W*:|^\s*\(",
    re.IGNORECASE,
)
_NONE: Final = re.compile(
    r"(?:n/?a|none)\s+[-\u2013\u2014(].*|[\[(<{][^\W\d][^\[\](){}<>]*[\])>}]"  # a placeholder
    r"|[^.!:;,\"]*[?\uff1f]\W*"  # a question
    r"|\W*(?:not applicable|(?:(?:there|it)(?:['\u2019]s| is| are| was) |i (?:have|see|found) )?(?:no|nothing)\b"
    r"(?: \w+){0,3}? ?(?:lessons?|advice|learn(?:ed)?|reflections?)"
    r"(?:\s+(?:is|are|was|were|can|could|to|from|here|needed|learned|yet|this)\b[^.]{0,200})?)\W*",
    re.IGNORECASE,
)
_LONGEST_WORD: Final = 40
_TOKEN: Final = re.compile(r"[^\W_]+")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts that write no spaces between words. Two of their characters count as one word."""
_ECHOED_WORDS: Final = 6
"""A lesson of at least this many words that occurs whole in another text is an echo of it, not a coincidence."""
# Up to four words that include "lesson" only talk about a lesson: "Keine neue Lektion."
_NAMED_ALONE: Final = re.compile(
    r"(?=.*(?:lessons?\b|lektion|le\u00e7on|lecci\u00f3n|lezione|li\u00e7\u00e3o|\u0443\u0440\u043e\u043a|\u6559\u8bad|\u6559\u8a13"
    r"|\u30ec\u30c3\u30b9\u30f3|\uad50\ud6c8))[^\s\d]+(?:\s+[^\s\d]+){0,3}",
    re.IGNORECASE,
)
_UNABLE: Final = (
    r"help|assist|provide|write|give|comply|fulfil|do|answer|create|generate|continue|share|offer|have|see|know|think"
    r"|draw|determine"
)
# An error of a server: an HTML page, or a bare HTTP status.
_ERROR: Final = re.compile(
    r"\s*<(?:html|!doctype)\b|\W*(?:error\W+)?(?:[45]\d\d\W+)?(?:"
    + "|".join(re.escape(status.phrase) for status in HTTPStatus if status >= HTTPStatus.BAD_REQUEST)
    + r")\W*\Z",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    r"[^\w\"'\u201c\u2018\u00ab]*(?:(?:but|unfortunately|well),?\s+)?"
    r"(?:(?:an?|the|each|every)\s+(?:\w+\s+)?lesson\s+(?:should|must|needs|has to)\b"
    r"|(?:please|could you|can you)\s+(?:provide|share|give|send|tell|show|paste)\b.*\bI\b"
    r"|as an? (?:ai|language model)\b"
    r"|(?:i\W{0,2}(?:a?m)?\s*(?:so |very |really )?)?sorry\b|(?:i|my)\s+apolog"
    r"|i\W{0,2}(?:a?m|was|am)?\s*(?:unable|not able)\b"
    rf"|i\s+(?:can(?:no|\W?| no)t|won\W?t|will not|do(?: not|n\W?t))\s+(?:\w+\s+)?(?:{_UNABLE})\b"
    r"(?!.*[,;:]\s+so\s+(?!I\s+(?:ca|am|do|have)))"
    r"|lo siento|es tut mir leid|tut mir leid|d\u00e9sol\u00e9|je suis d\u00e9sol\u00e9|mi dispiace|desculp"
    r"|sinto muito|\u0438\u0437\u0432\u0438\u043d|\u62b1\u6b49|\u5bf9\u4e0d\u8d77|\u7533\u3057\u8a33|\uc8c4\uc1a1)",
    re.IGNORECASE,
)


def read_lesson(text: str, *, one_sentence: bool = True) -> str:
    """Return the advice in a reply; empty if the reply gives none, apologises or refuses.

    Thinking, JSON, fences, labels, preambles, closing remarks, a bullet, and emphasis or quotation marks around the
    whole are removed. Several sentences are returned as they are: the caller decides whether to refuse them.
    ``one_sentence=False`` keeps paragraphs.
    """
    text = answer(text)
    if _ERROR.match(text):
        return ""
    text = unwrapped(text)
    for one in values(text):
        if one.plain and isinstance(said := _only(one.value), str):
            text = said
    stated = [one for one in objects(text) if one.plain]
    if stated:
        fields = [(key.strip().lower(), value) for one in stated for key, value in opened(one.value).items()]
        named = [value for key, value in fields if re.fullmatch(_NAME, key)]
        if len(named) == 1:
            said = _only(named[0])
            return read_lesson(said, one_sentence=one_sentence) if isinstance(said, str) else ""
        around = text[: stated[0].start] + text[stated[-1].end :]
        if not any(character.isalpha() for character in around):
            return ""
    if one_sentence:
        text = unwrapped(_sentence(text))
    elif label := _LABEL.match(text):
        text = after_label(label[0], text[label.end() :])
    said_none = _NONE.fullmatch(text) or _NAMED_ALONE.fullmatch(text) or _REFUSAL.match(text)
    # Too short to be advice in any language: "N/A", "Nichts.", "\u65e0".
    words = _TOKEN.findall(text)
    letters = sum(map(len, words))
    tiny = letters < 4 if _UNSPACED.search(text) else len(words) < 2 or letters == len(words)
    return "" if said_none or (tiny and len(text) <= _LONGEST_WORD) else text


def _only(value: JSON) -> JSON:
    """Return the item of a list of one; any other value as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def repeats(text: str, other: str) -> bool:
    """Whether a text repeats another: the whole of it, or at least six of its words in a row and nothing else."""
    said, other = re.findall(r"\w+", text.casefold()), other.casefold()
    if not all(word in other for word in said):
        return False  # the usual case, without splitting the other text, which may be a long prompt
    words, others = " ".join(said), " ".join(re.findall(r"\w+", other))
    return words == others or (len(said) >= _ECHOED_WORDS and f" {words} " in f" {others} ")


def _sentence(text: str) -> str:
    """Return the advice of a text; several paragraphs or items are returned as they are."""
    # What follows the only label counts; of several labels, the only one that says "lesson".
    labels = [match for match in _LABEL.finditer(text) if text[match.end() :].strip()]
    if len(labels) > 1:
        labels = [match for match in labels if "lesson" in match[0].lower()]
    if len(labels) == 1:
        text = after_label(labels[0][0], text[labels[0].end() :]).strip()
    text = _INTERJECTION.sub("", _PREAMBLE.sub("", text), count=1)

    # Headings, and talk before and after the advice, are left out.
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    while len(paragraphs) > 1 and (paragraphs[0].startswith("#") or _is_heading(paragraphs[0])):
        paragraphs.pop(0)
    while len(paragraphs) > 1 and _TALK.search(paragraphs[0]) and not _TALK.search(paragraphs[1]):
        paragraphs.pop(0)
    while len(paragraphs) > 1 and _TALK.search(paragraphs[-1]):
        paragraphs.pop()
    lines = "\n".join(paragraphs).splitlines()
    if len(paragraphs) != 1 or sum(bool(_ITEM.match(line)) for line in lines) > 1:
        return "\n\n".join(paragraphs)

    while len(lines) > 1 and _FIELD.match(lines[-1]):
        lines.pop()
    text = " ".join(line.strip() for line in lines)
    return "" if _is_heading(text) else _ITEM.sub("", _PREAMBLE.sub("", text.lstrip("# ")), count=1)


def _is_heading(text: str) -> bool:
    return text.rstrip("*_ ").endswith((":", "\uff1a"))
