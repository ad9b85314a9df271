"""Screens beyond the rules: the protocol of a screen, such as a classifier, and one that asks a language model.

The rules always come first and cost nothing. A screen sees the texts that they let pass, cleaned and redacted.
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
    """Says what is wrong with a text that would become a lesson, or None. A plain function will do, async or not.

    A sync function runs in a worker thread. If a screen raises, the text is kept out.
    """

    def __call__(self, text: str, /) -> Finding | Awaitable[Finding | None] | None:
        """Judge one text."""
        ...


async def screened(text: str, by: Screen | None = None, *, said: str | None = None) -> Finding | None:
    """Screen a text by the rules, then ``by`` a screen; ``said`` is the text before cleaning, for the rules.

    If the screen raises or returns something else, that is a finding too: a text that was not judged is kept out.
    """
    finding = screen(text if said is None else said)
    if finding is not None or by is None:
        return finding
    try:
        judged = await run(by, lambda: by(text))
    except Exception as error:  # noqa: BLE001 - whatever it is, the text stays out and its finding says why
        why = f"{type(error).__name__}: {error}"
    else:
        if judged is None:
            return None
        if isinstance(judged, Finding):
            parts = (judged.kind, judged.why, judged.excerpt)
            if all(isinstance(part, str) for part in parts):
                return Finding(*(abridge(redact(part), _SHOWN) for part in parts))
        why = f"the screen returned {judged!r} instead of a Finding or None"
    return Finding("unscreened", f"could not be screened: {abridge(redact(why), _SHOWN)}", "")


class ModelScreen:
    """Asks a language model whether a text gives orders to its readers.

    If a reply holds no verdict, or two, the model is asked once more; then :class:`UnreadableReplyError` is raised.
    Raises ``ModelError`` if the model can't be reached. ``prompt`` is a text, or the ``Path`` of a file.
    """

    def __init__(self, model: ChatModel, *, prompt: str | Path | None = None) -> None:
        self.model = model
        self._prompt = read_prompt(prompt, "jeeves_reflexion.lessons.screening", "screen.md")

    async def __call__(self, text: str, /) -> Finding | None:
        """Return what the model finds wrong with a text, or None."""
        text = inert(text)  # a marker of a chat template could make it look like the model's answer
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
    """Return the one verdict in a reply, a bool under the key ``field``, with its ``why``; None for none, or several.

    A verdict that is quoted from the texts that the model was ``shown`` does not count.
    """
    verdicts = [one for one in reading_of(reply, shown).objects if isinstance(one.value.get(field), bool)]
    stated = agreed(verdicts, lambda value: value[field])
    if stated is None:
        return None
    why = stated.value.get("why", "")
    reason = why if isinstance(why, str) else json.dumps(why, ensure_ascii=False)
    return cast("bool", stated.value[field]), abridge(redact(reason), _SHOWN)
