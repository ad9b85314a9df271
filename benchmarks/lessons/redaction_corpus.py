"""The labelled texts for redaction: what must go stands between « and », secrets are filled in at load.

A row of ``corpora/redaction_*.jsonl`` is ``{"kind": ..., "text": ...}``; those of the kind ``none`` must stay as they
are. No file holds a secret, nor what a scanner takes for one: a text has placeholders such as ``{hex:32}``, which
a seeded generator fills, the same for the same seed.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

CORPORA = Path(__file__).with_name("corpora")
Half = Literal["dev", "heldout", "second", "third"]
NONE = "none"

_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "base32": string.ascii_uppercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "b64": string.ascii_letters + string.digits + "+/",
    "b64pct": string.ascii_letters + string.digits,
    "b64url": string.ascii_letters + string.digits + "-_",
    "mixed": string.ascii_letters + string.digits,
    "symbols": string.ascii_letters + string.digits + "!@#$%^*-_=+",
}
_ISSUERS = {
    "visa": ("4", 16), "mastercard": ("53", 16), "amex": ("37", 15), "discover": ("6011", 16), "jcb": ("3530", 16),
    "diners": ("36", 14), "unionpay": ("62", 16), "maestro": ("6759", 16),
}  # fmt: skip
_ACCOUNTS = {
    "DE": "#" * 18, "GB": "WEST" + "#" * 14, "FR": "#" * 23, "NL": "ABNA" + "#" * 10, "ES": "#" * 20, "PL": "#" * 24,
    "NO": "#" * 11, "CH": "#" * 17, "AT": "#" * 16, "IT": "@" + "#" * 22, "SE": "#" * 20, "BE": "#" * 12,
    "PT": "#" * 21,    "IE": "AIBK" + "#" * 14,
}  # fmt: skip
_WORDS = (
    "correct",
    "horse",
    "battery",
    "staple",
    "winter",
    "garden",
    "purple",
    "monkey",
    "tr0ub4dor",
    "planet",
    "silver",
)
_TRIES = 200_000
_PLACEHOLDER = re.compile(r"\{([a-zA-Z0-9]+)(?::([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, its kind, and the spans (start, end) of what must go."""

    kind: str
    text: str
    spans: tuple[tuple[int, int], ...]


def load(half: Half, *, seed: int = 0) -> list[Labelled]:
    """Return one half of the corpus, filled with the seed."""
    lines = (CORPORA / f"redaction_{half}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        _labelled(row["kind"], _filled(row["text"], random.Random(f"{seed} {half} {index}")))
        for index, row in enumerate(rows)
    ]


def _labelled(kind: str, text: str) -> Labelled:
    plain, spans, at = "", [], 0
    for match in re.finditer("«(.*?)»", text, re.DOTALL):
        plain += text[at : match.start()]
        spans.append((len(plain), len(plain) + len(match[1])))
        plain, at = plain + match[1], match.end()
    return Labelled(kind, plain + text[at:], tuple(spans))


def _filled(text: str, rng: random.Random) -> str:
    return _PLACEHOLDER.sub(lambda match: _made(match, rng), text)


def _made(match: re.Match[str], rng: random.Random) -> str:
    name, argument = match[1], match[2] or ""
    if name in _ALPHABETS and argument.isdigit():
        return _drawn(name, int(argument), rng)
    maker = _MAKERS.get(name)
    return maker(argument, rng) if maker else match[0]


def _drawn(name: str, length: int, rng: random.Random) -> str:
    while True:
        text = "".join(rng.choices(_ALPHABETS[name], k=length))
        kinds = (str.islower, str.isupper, str.isdigit)
        whole = all(any(map(kind, text)) for kind in kinds)
        if name in {"mixed", "alnum"} and length >= 8 and not whole:
            continue
        if text[0] not in "-_=+/!@#$%^*" and text[-1] not in "-_=+/@#$%^*":
            return text


def _password(_: str, rng: random.Random) -> str:
    shapes: Sequence[Callable[[], str]] = (
        lambda: rng.choice(_WORDS) + _drawn("digits", rng.randint(2, 4), rng),
        lambda: rng.choice(_WORDS).title() + rng.choice("!#$%*_-") + _drawn("digits", 4, rng),
        lambda: _drawn("mixed", rng.randint(10, 16), rng),
        lambda: _drawn("lower", 11, rng) + "9",
        lambda: _drawn("alnum", 6, rng) + rng.choice("!$%^*+=") + _drawn("alnum", 6, rng),
        lambda: rng.choice(_WORDS) + "-" + rng.choice(_WORDS) + "-" + _drawn("digits", 2, rng),
    )
    return rng.choice(shapes)()


def _phrase(_: str, rng: random.Random) -> str:
    return " ".join(rng.sample(_WORDS, 4))


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


def _cut_pem(name: str, rng: random.Random) -> str:
    return _pem(name, rng).rpartition("\n")[0]


def _pem_line(name: str, rng: random.Random) -> str:
    return _pem(name, rng, "\\n")


def _basic(_: str, rng: random.Random) -> str:
    return base64.b64encode(f"{rng.choice(_WORDS)}:{_drawn('alnum', 12, rng)}".encode()).decode()


def _checked(module: str, make: Callable[[], str]) -> str:
    """The first text that python-stdnum takes for one of its kind."""
    valid = import_module(f"stdnum.{module}").is_valid
    for _ in range(_TRIES):
        text = make()
        if valid(text.replace(" ", "")):
            return text
    raise ValueError(f"no number of stdnum.{module} has the shape asked for")


def _shaped(shape: str, rng: random.Random) -> str:
    """``#`` is a digit, ``@`` and ``A`` are letters."""
    draw = {"#": string.digits, "@": string.ascii_uppercase}
    return "".join(rng.choice(draw[c]) if c in draw else c for c in shape)


def _grouped(text: str, between: str, sizes: Sequence[int] = (4,)) -> str:
    if not between:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[min(len(parts), len(sizes) - 1)]
        parts.append(text[at : at + size])
        at += size
    return between.join(parts)


def _card(argument: str, rng: random.Random) -> str:
    issuer, _, between = argument.partition(":")
    prefix, length = _ISSUERS[issuer]
    number = _checked("luhn", lambda: prefix + _drawn_digits(length - len(prefix), rng))
    return _grouped(number, between, (4, 6, 5) if issuer == "amex" else (4,))


def _drawn_digits(length: int, rng: random.Random) -> str:
    return "".join(rng.choices(string.digits, k=length))


def _iban(argument: str, rng: random.Random) -> str:
    country, _, between = argument.partition(":")

    def make() -> str:
        account = _shaped(_ACCOUNTS[country], rng)
        number = int("".join(str(int(c, 36)) for c in f"{account}{country}00"))
        return f"{country}{98 - number % 97:02d}{account}"

    return _grouped(_checked("iban", make), between)


# Shapes that leave less to chance than the ones in the texts, where the rule takes few numbers.
_NARROW = {
    "cn.ric": "11010119#####0####", "fr.nir": "18#0#75########", "it.codicefiscale": "@@@@@@##C1#H501@",
    "kr.rrn": "##010#-1######",
}  # fmt: skip


def _national(argument: str, rng: random.Random) -> str:
    module, _, shape = argument.partition(":")
    return _checked(module, lambda: _shaped(_NARROW.get(module, shape), rng))


_MAKERS: dict[str, Callable[[str, random.Random], str]] = {
    "pw": _password,
    "phrase": _phrase,
    "jwt": _jwt,
    "jwt2": _unsigned_jwt,
    "pem": _pem,
    "pemcut": _cut_pem,
    "pemline": _pem_line,
    "basic": _basic,
    "card": _card,
    "iban": _iban,
    "id": _national,
}
