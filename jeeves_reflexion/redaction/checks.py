"""The checks by the names that ``patterns.toml`` gives them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from jeeves_reflexion.redaction import numbers, places, randomness

_CHECKS: dict[str, Callable[[re.Match[str]], bool]] = {
    "card": numbers.card,
    "iban": numbers.iban,
    "phone": numbers.phone,
    "local_phone": numbers.local_phone,
    "uk_phone": numbers.uk_phone,
    "nric": numbers.nric,
    "long_number": numbers.long_number,
    "email": places.email,
    "internal_url": places.internal_url,
    "internal_host": places.internal_host,
    "ipv4": places.ipv4,
    "ipv6": places.ipv6,
    "random": randomness.random_looking,
}


def check_named(name: str) -> Callable[[re.Match[str]], bool]:
    """Return the check of that name. Raises ``KeyError`` for an unknown one."""
    if name.startswith("stdnum:"):
        return partial(numbers.national, name.removeprefix("stdnum:"))
    return _CHECKS[name]
