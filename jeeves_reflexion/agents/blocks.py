"""How memory blocks, the recalled lessons among them, stand in a prompt."""

from __future__ import annotations

from collections.abc import Mapping

from jeeves_reflexion.text import LESSONS_NOTE, fence


def render_blocks(blocks: Mapping[str, str]) -> str:
    """Write each block that isn't empty as a fenced section, marked as data; empty where there is none."""
    return "\n\n".join(fence(name, body, note=LESSONS_NOTE) for name, body in blocks.items() if body.strip())
