"""Numbers that a rule tells from others: cards, IBANs, national ids, telephones.

The rules are those of ``python-stdnum`` and ``phonenumbers``; both are loaded when a text holds a candidate.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from types import ModuleType

# Issuer and the lengths that it gives out.
_ISSUERS = (
    (re.compile(r"4"), (13, 16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"30[0-5]|36|3[89]"), (14, 16)),
    (re.compile(r"35(?:2[89]|[3-8])"), (16, 17, 18, 19)),
    (re.compile(r"6011|64[4-9]|65|62|60|81"), (16, 17, 18, 19)),
    (re.compile(r"50|5[6-8]|6[37]"), (12, 13, 14, 15, 16, 17, 18, 19)),
)
_DRAMA = ("01632960", "07700900", "03069990")
_MANY = re.compile(r" [a-z]{2,20}s\b")
"""Behind a number that says how many ("reach 1234567 users")."""
_ROUND = re.compile(r"[1-9][0-9]{0,2}0{3,}(?: [1-9][0-9]{0,2}0{3,})+")


def card(match: re.Match[str]) -> bool:
    """Whether an issuer gives out numbers of that beginning and length, and the check digit (Luhn) is right."""
    digits = _digits(match[0])
    known = any(prefix.match(digits) and len(digits) in lengths for prefix, lengths in _ISSUERS)
    return known and bool(_stdnum("luhn").is_valid(digits))


def iban(match: re.Match[str]) -> bool:
    """Whether the country writes its accounts so, and the check digits (modulo 97) are right."""
    return bool(_stdnum("iban").is_valid(match[0]))


def national(module: str, match: re.Match[str]) -> bool:
    """Whether ``stdnum.MODULE`` takes the number for one of its kind, by its checksum, date or both."""
    return bool(_stdnum(module).is_valid(match[0].replace(" ", "")))


def nric(match: re.Match[str]) -> bool:
    """Whether the last letter is the check of a Singaporean identity number (python-stdnum has no module for it)."""
    first, digits, last = match[0][0], match[0][1:-1], match[0][-1]
    total = sum(weight * int(digit) for weight, digit in zip((2, 7, 6, 5, 4, 3, 2), digits, strict=True))
    letters = "JZIHGFEDCBA" if first in "ST" else "XWUTRQPNMLK"
    return letters[(total + 4 * (first in "TG")) % 11] == last


def phone(match: re.Match[str]) -> bool:
    """Whether a number with its country in front has a length that this country gives out."""
    library = import_module("phonenumbers")
    text = re.sub(r"^00 ?", "+", re.sub(r"\(0\)", "", match[0]))
    try:
        number = library.parse(text, None)
    except library.NumberParseException:
        return False
    return bool(library.is_possible_number_with_reason(number) == library.ValidationResult.IS_POSSIBLE)


def local_phone(match: re.Match[str]) -> bool:
    """Whether a number after "phone" or the like has as many digits as one, and is no row of round numbers."""
    number = match["secret"]
    if number.isdigit() and _MANY.match(match.string, match.end("secret")):
        return False
    return 7 <= len(_digits(number)) <= 15 and not _ROUND.fullmatch(number)


def uk_phone(match: re.Match[str]) -> bool:
    """Whether the United Kingdom gives out such a number, or keeps it for examples (Ofcom's numbers for drama)."""
    digits = _digits(match[0])
    if digits.startswith(_DRAMA):
        return True
    library = import_module("phonenumbers")
    return bool(library.is_valid_number(library.parse(digits, "GB")))


def long_number(match: re.Match[str]) -> bool:
    """Whether a number after the name of an id has as many digits as one."""
    return 8 <= len(_digits(match["secret"])) <= 15


def _digits(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


@cache
def _stdnum(module: str) -> ModuleType:
    return import_module(f"stdnum.{module}")
