"""Screens beyond the rules: a callable that judges a text, such as a classifier, and one that asks a language model.

The rules come first, cost nothing, and stay: a screen sees what they let pass, clean and without secrets.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Protocol, cast

from jeeves_reflexion.callables import run
from jeeves_reflexion.errors import UnreadableReplyError
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.lessons.screening.rules import Finding, screen
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.models.replies import agreed, reading_of
from jeeves_reflexion.protocols import ChatModel, Message
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.text import abridge, fence, read_prompt

_SHOWN = 200


class Screen(Protocol):
    """Says what is wrong with a text that would become a lesson, or None; a plain function is one, async or not.

    One that is not async runs in a worker thread. What it raises keeps the text out.
    """

    def __call__(self, text: str, /) -> Finding | Awaitable[Finding | None] | None:
        """Judge one text."""
        ...


async def screened(text: str, by: Screen | None = None, *, said: str | None = None) -> Finding | None:
    """Screen a text by the rules, then ``by`` a screen; ``said`` is the text as it came, for the rules.

    A screen that raises, or returns something else, is a finding: what nobody could judge is not let in.
    """
    found = screen(text if said is None else said)
    if found is not None or by is None:
        return found
    try:
        judged = await run(by, lambda: by(text))
    except Exception as error:  # noqa: BLE001 - whatever it is, the text stays out and its finding says why
        return _unscreened(f"{type(error).__name__}: {error}")
    if judged is None:
        return None
    if isinstance(judged, Finding):
        said_of_it = (judged.kind, judged.why, judged.excerpt)
        if all(isinstance(part, str) for part in said_of_it):
            return Finding(*(abridge(redact(part), _SHOWN) for part in said_of_it))
    return _unscreened(f"the screen returned {judged!r} instead of a Finding or None")


def _unscreened(why: str) -> Finding:
    return Finding("unscreened", f"could not be screened: {abridge(redact(why), _SHOWN)}", "")


class ModelScreen:
    """Asks a language model whether a text gives orders to its readers.

    A reply that states no verdict, or two, is asked for once more and then raises :class:`UnreadableReplyError`.
    Raises ``ModelError`` when the model can't be reached. ``prompt`` is a text, or the path of a file.
    """

    def __init__(self, model: ChatModel, *, prompt: str | Path | None = None) -> None:
        self.model = model
        self._prompt = read_prompt(prompt, "jeeves_reflexion.lessons.screening", "screen.md")

    async def __call__(self, text: str, /) -> Finding | None:
        """Return what the model finds wrong with a text, or None."""
        text = inert(text)  # a marker of a chat template would let it answer in the model's place
        material = fence("text", text)
        for shown in (
            material,
            f"{material}\n\nYour previous answer held no verdict: give the JSON object alone.",
        ):
            completion = await ask(self.model, [Message("system", self._prompt), Message("user", shown)])
            verdict = stated_verdict(completion.text, "orders", [text])
            if verdict is not None:
                orders, why = verdict
                return Finding("judged", f"gives orders, as a model judges: {why}", "") if orders else None
        raise UnreadableReplyError("the screen's model gave no verdict twice")


def stated_verdict(reply: str, field: str, shown: Sequence[str]) -> tuple[bool, str] | None:
    """Return what a reply says, yes or no, under the name of a field, and its ``why``; None for nothing, or two things.

    What it only quotes from the texts that the model was ``shown`` says nothing.
    """
    found = [one for one in reading_of(reply, shown).objects if isinstance(one.value.get(field), bool)]
    stated = agreed(found, lambda value: value[field])
    if stated is None:
        return None
    why = stated.value.get("why", "")
    said = why if isinstance(why, str) else json.dumps(why, ensure_ascii=False)
    return cast("bool", stated.value[field]), abridge(redact(said), _SHOWN)
