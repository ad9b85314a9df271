"""A pattern, and the ones that ``patterns.toml`` holds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jeeves_reflexion.redaction import checks

Check = Callable[[re.Match[str]], bool]

_compiled = lru_cache(maxsize=None)(re.compile)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret and how it looks.

    The named group of the expression that took part, or else the whole match, is the value to hide. The expression is
    tried only on a text that holds one of ``needs`` (in small letters), if there are any; ``check`` has the last word
    on a match.
    """

    kind: str
    expression: str | re.Pattern[str]
    needs: tuple[str, ...] = ()
    check: Check | None = None

    @property
    def regex(self) -> re.Pattern[str]:
        """The expression, compiled when it is first needed."""
        return _compiled(self.expression) if isinstance(self.expression, str) else self.expression


def _read(path: Path) -> tuple[Pattern, ...]:
    kinds: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    words: dict[str, str] = {}
    for name, text in kinds.pop("words").items():
        words[name] = _filled(text, words)
    return tuple(
        Pattern(
            kind,
            _filled(row["expression"], words),
            tuple(row.get("needs", ())),
            _check_named(row["check"]) if "check" in row else None,
        )
        for kind, rows in kinds.items()
        for row in rows
    )


def _check_named(name: str) -> Check:
    kind, _, module = name.partition(":")
    if kind == "stdnum":
        return partial(checks.national, module)
    found: Check = getattr(checks, name)
    return found


def _filled(text: str, words: dict[str, str]) -> str:
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text


PATTERNS: tuple[Pattern, ...] = _read(Path(__file__).with_name("patterns.toml"))
