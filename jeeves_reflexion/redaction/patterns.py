"""A pattern, and the ones that ``patterns.toml`` holds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypedDict

from jeeves_reflexion.redaction.checks import check_named

Gate = Literal["", "long", "digits", "quads", "colons", "foreign"]
Check = Callable[[re.Match[str]], bool]

_compiled = lru_cache(maxsize=None)(re.compile)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret and how it looks.

    The named group of the expression that took part, or else the whole match, is the value to hide. The expression is
    tried only on a text that holds one of ``needs`` (in small letters), if there are any, and that passes the ``gate``;
    ``check`` has the last word on a match. A match begins at most ``reach`` characters before what it needs.
    """

    kind: str
    expression: str | re.Pattern[str]
    needs: tuple[str, ...] = ()
    gate: Gate = ""
    check: Check | None = None
    reach: int = 40

    @property
    def regex(self) -> re.Pattern[str]:
        """The expression, compiled when it is first needed."""
        return _compiled(self.expression) if isinstance(self.expression, str) else self.expression


class _Row(TypedDict, total=False):
    kind: str
    expression: str
    needs: list[str]
    gate: Gate
    check: str
    reach: int


def _read(path: Path) -> tuple[Pattern, ...]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    words: dict[str, str] = {}
    for name, text in data["words"].items():
        words[name] = _filled(text, words)
    rows: list[_Row] = data["pattern"]
    return tuple(
        Pattern(
            row["kind"],
            _filled(row["expression"], words),
            tuple(row.get("needs", ())),
            row.get("gate", ""),
            check_named(row["check"]) if "check" in row else None,
            row.get("reach", 40),
        )
        for row in rows
    )


def _filled(text: str, words: dict[str, str]) -> str:
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text


PATTERNS: tuple[Pattern, ...] = _read(Path(__file__).with_name("patterns.toml"))
