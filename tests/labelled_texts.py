"""Labelled texts for the tests of screening and of redaction, in ``tests/corpora``.

``attacks.jsonl`` holds texts that command whoever reads them, by kind. ``benign.jsonl`` holds lessons, most of them
near misses that use an attack's words. Half of each was not used to write the patterns.

In ``redaction_*.jsonl`` the marks « and » enclose what must go; a text of the kind ``none`` must stay as it is. No file
holds a secret or anything that a scanner takes for one: a seeded generator fills placeholders such as ``{hex:32}``.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

CORPORA = Path(__file__).with_name("corpora")


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPORA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class Sample:
    """A text for the screen: its half of the corpus, its kind and its language."""

    split: str
    kind: str
    text: str
    language: str = "en"


def samples(name: str) -> list[Sample]:
    """Read ``attacks`` or ``benign``."""
    return [Sample(**row) for row in _rows(name)]


@dataclass(frozen=True)
class Labelled:
    """A text for redaction, its kind, and the spans (start, end) that must go."""

    kind: str
    text: str
    spans: tuple[tuple[int, int], ...]


def labelled(part: str, *, seed: int = 0) -> list[Labelled]:
    """Read a part of the corpus for redaction, with the placeholders filled in by this seed."""
    found = []
    for index, row in enumerate(_rows(f"redaction_{part}")):
        rng = random.Random(f"{seed} {part} {index}")
        plain, spans = "", []
        for number, piece in enumerate(re.split("[«»]", _PLACEHOLDER.sub(_filler(rng), row["text"]))):
            if number % 2:
                spans.append((len(plain), len(plain) + len(piece)))
            plain += piece
        found.append(Labelled(row["kind"], plain, tuple(spans)))
    return found


_MARK = re.compile(r"\[REDACTED:[a-z_]{1,40}\]")


@dataclass
class Score:
    """What redaction found in some texts, and what it hid by mistake."""

    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By kind: the texts of which nothing labelled is left, and all of them."""
    negatives: int = 0
    changed: int = 0
    """Texts without anything to hide that were changed."""
    marks: int = 0
    right_marks: int = 0
    """Marks that hide something labelled."""

    @property
    def found(self) -> int:
        return sum(found for found, _ in self.kinds.values())

    @property
    def positives(self) -> int:
        return sum(number for _, number in self.kinds.values())


def score(rows: Iterable[Labelled], redact: Callable[[str], str]) -> Score:
    """Redact every text and count. Raises ``ValueError`` if anything but the marks differs from the text."""
    total = Score()
    for row in rows:
        hidden = _hidden(row.text, redact(row.text))
        covered = {at for span in hidden for at in range(*span)}
        total.marks += len(hidden)
        total.right_marks += sum(any(start < e and end > s for s, e in row.spans) for start, end in hidden)
        if row.kind == "none":
            total.negatives += 1
            total.changed += bool(hidden)
        else:
            found, number = total.kinds.get(row.kind, (0, 0))
            whole = all(covered.issuperset(range(*span)) for span in row.spans)
            total.kinds[row.kind] = (found + whole, number + 1)
    return total


def _hidden(text: str, clean: str) -> list[tuple[int, int]]:
    match = re.fullmatch("(.+?)".join(map(re.escape, _MARK.split(clean))), text, re.DOTALL)
    if match is None:
        raise ValueError(f"more than marks differs: {clean[:80]!r}")
    return [match.span(number) for number in range(1, match.re.groups + 1)]


# -- what fills the placeholders -----------------------------------------------------------------------------------

_ALNUM = string.ascii_letters + string.digits
_ALPHABETS = {
    "alnum": _ALNUM,
    "alpha": string.ascii_letters,
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "base32": string.ascii_uppercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "b64": _ALNUM + "+/",
    "b64pct": _ALNUM,
    "b64url": _ALNUM + "-_",
    "mixed": _ALNUM,
    "symbols": _ALNUM + "!@#$%^*-_=+",
}
_ISSUERS = {
    "visa": ("4", 16), "mastercard": ("53", 16), "amex": ("37", 15), "discover": ("6011", 16), "jcb": ("3530", 16),
    "diners": ("36", 14), "unionpay": ("62", 16), "maestro": ("6759", 16),
}  # fmt: skip
_ACCOUNTS = {
    "DE": "#" * 18, "GB": "WEST" + "#" * 14, "FR": "#" * 23, "NL": "ABNA" + "#" * 10, "ES": "#" * 20, "PL": "#" * 24,
    "NO": "#" * 11, "CH": "#" * 17, "AT": "#" * 16, "IT": "@" + "#" * 22, "SE": "#" * 20, "BE": "#" * 12,
    "PT": "#" * 21, "IE": "AIBK" + "#" * 14,
}  # fmt: skip
# Shapes that leave less to chance than those in the texts, for rules that accept few numbers.
_NARROW = {
    "cn.ric": "11010119#####0####", "fr.nir": "18#0#75########", "it.codicefiscale": "@@@@@@##C1#H501@",
    "kr.rrn": "##010#-1######",
}  # fmt: skip
_WORDS = (
    *("correct", "horse", "battery", "staple", "winter", "garden"),
    *("purple", "monkey", "tr0ub4dor", "planet", "silver"),
)
_TRIES = 200_000
_PLACEHOLDER = re.compile(r"\{([a-zA-Z0-9]+)(?::([^{}]*))?\}")


def _filler(rng: random.Random) -> Callable[[re.Match[str]], str]:
    def fill(match: re.Match[str]) -> str:
        name, argument = match[1], match[2] or ""
        if name in _ALPHABETS and argument.isdigit():
            return _drawn(name, int(argument), rng)
        return _MAKERS[name](argument, rng) if name in _MAKERS else match[0]

    return fill


def _drawn(name: str, length: int, rng: random.Random) -> str:
    while True:
        text = "".join(rng.choices(_ALPHABETS[name], k=length))
        whole = all(any(map(kind, text)) for kind in (str.islower, str.isupper, str.isdigit))
        if name in {"mixed", "alnum"} and length >= 8 and not whole:
            continue
        if text[0] not in "-_=+/!@#$%^*" and text[-1] not in "-_=+/@#$%^*":
            return text


def _password(_: str, rng: random.Random) -> str:
    shapes: tuple[Callable[[], str], ...] = (
        lambda: rng.choice(_WORDS) + _drawn("digits", rng.randint(2, 4), rng),
        lambda: rng.choice(_WORDS).title() + rng.choice("!#$%*_-") + _drawn("digits", 4, rng),
        lambda: _drawn("mixed", rng.randint(10, 16), rng),
        lambda: _drawn("lower", 11, rng) + "9",
        lambda: _drawn("alnum", 6, rng) + rng.choice("!$%^*+=") + _drawn("alnum", 6, rng),
        lambda: rng.choice(_WORDS) + "-" + rng.choice(_WORDS) + "-" + _drawn("digits", 2, rng),
    )
    return rng.choice(shapes)()


def _url64(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _jwt(_: str, rng: random.Random) -> str:
    claims = {"sub": _drawn("digits", 8, rng), "exp": 1700000000}
    return f"{_url64({'alg': 'HS256', 'typ': 'JWT'})}.{_url64(claims)}.{_drawn('b64url', 43, rng)}"


def _unsigned_jwt(_: str, rng: random.Random) -> str:
    return f"{_url64({'alg': 'none'})}.{_url64({'sub': _drawn('digits', 8, rng)})}."


def _pem(name: str, rng: random.Random, end: str = "\n") -> str:
    lines = [_drawn("b64", 64, rng) for _ in range(4)]
    return end.join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"])


def _basic(_: str, rng: random.Random) -> str:
    return base64.b64encode(f"{rng.choice(_WORDS)}:{_drawn('alnum', 12, rng)}".encode()).decode()


def _valid(module: str, make: Callable[[], str]) -> str:
    """Return the first text that python-stdnum accepts."""
    valid = import_module(f"stdnum.{module}").is_valid
    for _ in range(_TRIES):
        text = make()
        if valid(text.replace(" ", "")):
            return text
    raise ValueError(f"stdnum.{module} accepts no number of this shape")


def _shaped(shape: str, rng: random.Random) -> str:
    """Fill a shape: ``#`` is a digit, ``@`` a letter."""
    draw = {"#": string.digits, "@": string.ascii_uppercase}
    return "".join(rng.choice(draw[c]) if c in draw else c for c in shape)


def _card(argument: str, rng: random.Random) -> str:
    issuer, _, between = argument.partition(":")
    prefix, length = _ISSUERS[issuer]
    number = _valid("luhn", lambda: prefix + "".join(rng.choices(string.digits, k=length - len(prefix))))
    if issuer == "amex":
        return between.join((number[:4], number[4:10], number[10:]))
    return between.join(re.findall(".{1,4}", number))


def _iban(argument: str, rng: random.Random) -> str:
    country, _, between = argument.partition(":")

    def make() -> str:
        account = _shaped(_ACCOUNTS[country], rng)
        number = int("".join(str(int(c, 36)) for c in f"{account}{country}00"))
        return f"{country}{98 - number % 97:02d}{account}"

    return between.join(re.findall(".{1,4}", _valid("iban", make)))


def _national(argument: str, rng: random.Random) -> str:
    module, _, shape = argument.partition(":")
    return _valid(module, lambda: _shaped(_NARROW.get(module, shape), rng))


_MAKERS: dict[str, Callable[[str, random.Random], str]] = {
    "pw": _password,
    "phrase": lambda _, rng: " ".join(rng.sample(_WORDS, 4)),
    "jwt": _jwt,
    "jwt2": _unsigned_jwt,
    "pem": _pem,
    "pemcut": lambda name, rng: _pem(name, rng).rpartition("\n")[0],
    "pemline": lambda name, rng: _pem(name, rng, "\\n"),
    "basic": _basic,
    "card": _card,
    "iban": _iban,
    "id": _national,
}
