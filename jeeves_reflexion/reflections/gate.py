"""The gate of reflections, rules and playbooks: what gives orders reaches no prompt, however it got into a file."""

from __future__ import annotations

from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.mars import PRINCIPLE


def flaw(text: str) -> str:
    """Say how a text of a reflection tries to command its readers; empty if it is advice."""
    # The words that a principle begins with are the form's own: "follow this rule" is no order there.
    finding = screen(f"\n{text}".replace(f"\n{PRINCIPLE}", "\n"))
    return "" if finding is None else f"{finding.why} ({finding.excerpt!r})"
