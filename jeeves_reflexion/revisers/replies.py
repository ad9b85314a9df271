"""A model's reply as a whole text: what is packing around it, and what is text."""

from __future__ import annotations

import re

_FENCE = re.compile(r"(`{3,}|~{3,})([^`]*)")


def whole_text(reply: str, old: str, tag: str) -> str:
    """Take the packing off a reply: tags ``<tag>``, and a code fence around all of it where ``old`` had none.

    Nothing else is stripped. A fence that ends before the reply does belongs to the text.
    """
    reply = _untagged(reply, tag)
    inner = _unfenced(reply)
    return reply if inner is None or _unfenced(old) is not None else inner


def _untagged(reply: str, tag: str) -> str:
    match = re.fullmatch(rf"\s*<{tag}>(?:\r?\n)?(.*?)(?:\r?\n)?</{tag}>\s*", reply, re.DOTALL)
    return reply if match is None or f"<{tag}>" in match[1] else match[1]


def _unfenced(text: str) -> str | None:
    """Return what stands within the one fence around all of a text, or None where there is no such fence."""
    lines = text.strip().split("\n")
    opening = _FENCE.fullmatch(lines[0].strip())
    if opening is None or len(lines) < 2:
        return None
    run = opening[1]
    within = ""  # the fence of a code block within the text
    for number, line in enumerate(lines[1:], 1):
        fence = _FENCE.fullmatch(line.strip())
        if fence is None:
            continue
        bare = not fence[2].strip()
        if within:
            if bare and fence[1].startswith(within):
                within = ""
        elif bare and fence[1].startswith(run):
            return "\n".join(lines[1:-1]).removesuffix("\r") if number == len(lines) - 1 else None
        else:
            within = fence[1]
    return None
