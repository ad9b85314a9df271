"""Removes characters that hide, reorder or disguise text; code, mathematics and every script stay readable.

The rule: invisible characters are removed, a disguised ASCII letter becomes that letter, everything else stays.
Compatibility normalisation (NFKC) of the whole text would break lessons, since it turns ``x²`` into ``x2`` and ``½``
into ``1/2``. So it is applied to disguised letters alone.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Final

_KEPT_CONTROLS: Final = "\t\n"
_ZWNJ: Final = "\u200c"
_ZWJ: Final = "\u200d"

INVISIBLE: Final = re.compile(
    "["
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # joiners and fillers that draw nothing
    "\u180b-\u180f"
    "\ufe00-\ufe0f"
    "\U000e0000-\U000e0fff"  # tags, further variation selectors, and what is reserved to draw nothing
    "]"
)
TAGS: Final = re.compile("[\U000e0020-\U000e007e]+")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f")
_SPACES: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_MARK: Final = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]"
_MARKS: Final = re.compile(f"({_MARK}{{4}}){_MARK}+")
_OVERLAYS: Final = re.compile(
    "(?<=[A-Za-z\u00c0-\u024f])[\u0334-\u0338\u20d2-\u20d4\u20d8-\u20da\u20dd-\u20e8]+"
)
# Full-width letters and ligatures; words in mathematical or circled letters.
_DISGUISED: Final = re.compile(
    "[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\ufb00-\ufb06]+"
    "|[\U0001d400-\U0001d7ff\u24b6-\u24e9\U0001f130-\U0001f149\u210a-\u2113\u212f\u2134]{2,}"
)
# Arabic, Syriac and the scripts of South and South-East Asia.
_WRITTEN_WITH_JOINERS: Final = re.compile("[\u0600-\u08ff\u0900-\u0dff\u1780-\u18af]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")

# Letters that look like an ASCII letter: Cyrillic, Greek, and other Latin ones.
_CYRILLIC_ALIKE: Final = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u04cf\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"
)
_GREEK_ALIKE: Final = (
    "\u03bf\u03b1\u03bd\u03c1\u03b9\u03ba\u03c5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c"
    "\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
)
_LATIN_ALIKE: Final = "\u0131\u0251\u0261"
_LOOKALIKES: Final = str.maketrans(
    _CYRILLIC_ALIKE + _GREEK_ALIKE + _LATIN_ALIKE,
    "aeopcyxijsdhlqwABEKMHOPCTYXIJSoavpikuABEZHIKMNOPTYXiag",
)
_GREEK: Final = re.compile("[\u0370-\u03ff]")
_BARS: Final = "|\u00a6\u01c0\u01c1\u2016\u2223\u2225\u2502\u2503\u2551\u2758\ufe31\uff5c\uffe4"
# Markers of chat templates by their shape: <|...|>, <x|> and [|...|] with bars of any width, <x_of_y>, <x▁y>, <<SYS>>,
# ◁think▷, [CAPITALS] (with a small letter before them, too), brackets that look away from each other over a tilde.
# Wide brackets count as well, since some tokenizers fold them.
_MARKER: Final = re.compile(
    rf"[<\uff1c\ufe64](?=/?[{_BARS}]|/?[\w\"]{{0,40}}[{_BARS}][>\uff1e\ufe65]|/?\w{{0,40}}\u2581"
    r"|/?\w{0,20}_of_\w{1,20}[>\uff1e\ufe65]|</?[A-Z_]{2,40}>>)"
    rf"|\u25c1(?=/?\w)|[\[\uff3b](?=/[A-Za-z_]{{2,40}}[\]\uff3d]|[a-z]?[A-Z][A-Z_]{{2,40}}[\]\uff3d]|[{_BARS}]\w)"
    r"|\](?=~!?[a-z]?[\[\]])|\[(?=[a-z]~\[)"
)
# And any tag, the end of one, a comment; "a < b" and "<= 3" are none.
_MARKER_OR_TAG: Final = re.compile(rf"<(?=[A-Za-z/!?<])|{_MARKER.pattern}")
_LATIN: Final = re.compile("[A-Za-z]")


def clean_characters(text: str) -> str:
    """Return the text as a reader sees it, without characters that hide, reorder or disguise.

    Zero-width, bidirectional, tag and control characters, variation selectors and fillers are removed; a joiner stays
    where its script or an emoji needs it. Blanks of any width become a plain blank, line separators a newline.
    Full-width letters, words in mathematical or circled letters, Cyrillic or Greek look-alikes within a Latin word
    and struck-through letters become plain letters; a lone mathematical letter, ``x²`` or ``≠`` stays. A letter keeps
    at most four combining marks. The result is in NFC, and cleaning it again changes nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _BREAKS.sub("\n", text)
    text = _SPACES.sub(" ", text)
    # A pass may expose what hidden characters kept apart, so another follows; each only removes or folds characters.
    for _ in range(3):
        before = text
        text = unicodedata.normalize("NFC", _visible(text))
        text = _OVERLAYS.sub("", text)
        text = _DISGUISED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
        text = _WORD.sub(lambda match: _plain(match[0], whole=False), text)
        text = _MARKS.sub(r"\1", text)
        if text == before:
            break
    return text


def hidden_text(text: str) -> str:
    """Return the text in tag characters, which are invisible but which models read; flags of emoji don't count."""
    runs = TAGS.findall(_FLAG.sub("", text))
    return " ".join("".join(chr(ord(c) - 0xE0000) for c in run) for run in runs)


def inert(text: str, *, tags: bool = False) -> str:
    """Return a text with markers of chat templates escaped, so that it can't pose as another speaker.

    ``tags``, for texts of others, escapes tags too. The first character of each becomes an HTML entity. Escaping again
    changes nothing.
    """
    return (_MARKER_OR_TAG if tags else _MARKER).sub(
        lambda match: "&lt;" if match[0] == "<" else f"&#{ord(match[0])};", text
    )


def latinised(text: str) -> str:
    """Return the text with look-alikes of Latin letters replaced, even in words that consist of them."""
    return _WORD.sub(lambda match: _plain(match[0], whole=True), text)


def _plain(word: str, *, whole: bool) -> str:
    """Replace look-alikes in a word that mixes them with Latin letters; short words with Greek may be formulas."""
    if word.isascii():
        return word
    mapped = word.translate(_LOOKALIKES)
    if not mapped.isascii():
        return word
    n_latin = len(_LATIN.findall(word))
    if n_latin == 0:
        return mapped if whole else word
    if _GREEK.search(word) and (len(word) < 4 or 2 * n_latin < len(word)):
        return word
    return mapped


def _visible(text: str) -> str:
    """Drop invisible characters, except joiners and selectors that change how their neighbours look."""
    padded = ["", *text, ""]
    kept: list[str] = []
    for (_, character), (_, after) in pairwise(pairwise(padded)):
        if character.isascii():
            if character.isprintable() or character in _KEPT_CONTROLS:
                kept.append(character)
        elif INVISIBLE.match(character):
            # A selector changes how a digit or a symbol looks.
            last = kept[-1] if kept and character in "\ufe0e\ufe0f" else ""
            if last and (last in "0123456789#*" or unicodedata.category(last) in ("So", "Sm")):
                kept.append(character)
        elif character in (_ZWNJ, _ZWJ):
            if kept and _joins(kept[-1], character, after):
                kept.append(character)
        elif unicodedata.category(character) not in ("Cf", "Cc", "Cs"):
            kept.append(character)
    return "".join(kept)


def _joins(before: str, joiner: str, after: str) -> bool:
    """Whether a joiner stands between letters of a script that joins, or between emoji."""
    emoji = [
        bool(each) and unicodedata.category(each) in ("So", "Sk") and ord(each) > 0x2000
        for each in (before, after)
    ]
    if joiner == _ZWJ and (emoji[0] or before == "\ufe0f") and emoji[1]:
        return True
    return bool(_WRITTEN_WITH_JOINERS.match(before) and _WRITTEN_WITH_JOINERS.match(after))
