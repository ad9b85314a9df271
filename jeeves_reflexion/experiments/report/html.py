"""HTML whose every text is escaped, by construction: a text becomes part of an element in one way only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"br", "input", "meta"})


class Html(str):
    """A text that is HTML already, made by this module."""

    __slots__ = ()


Child: TypeAlias = "str | Html | Iterable[str | Html] | None"


def text(value: str) -> Html:
    """Return a text as HTML: characters of the markup escaped, and those that a page can't hold replaced.

    A carriage return becomes a line feed, as a browser would read it.
    """
    clean = _UNFIT.sub("\ufffd", value.replace("\r\n", "\n").replace("\r", "\n"))
    return Html(escape(clean, quote=True))


def element(tag: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """Return an element; children that are not HTML are escaped, and so is what attributes hold.

    ``class_`` and ``for_`` stand for the words that Python keeps, other underscores for hyphens. An attribute of None
    or False is left out.
    """
    told = "".join(
        _attribute(key, value)
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Html(f"<{tag}{told}>")
    return Html(f"<{tag}{told}>{joined(children)}</{tag}>")


def joined(children: Iterable[Child]) -> Html:
    """Return children one after the other."""
    return Html("".join(_child(child) for child in children))


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return text(child)
    return joined(child)


def _attribute(key: str, value: str | float | bool) -> str:  # noqa: FBT001 - an attribute that stands alone
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'
