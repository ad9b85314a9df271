"""Scripted judges for the tests of this room."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from jeeves_reflexion import ScriptedModel


def verdict(score: object, **fields: object) -> str:
    """A judge's reply in JSON."""
    return json.dumps({"score": score, **fields})


def asked_about(messages) -> str:
    """The criterion that a judge is asked about in these messages."""
    user = next(message.content for message in messages if message.role == "user")
    return re.findall(r"^- ([^:]+): ", user, re.MULTILINE)[-1]


def judge_of(replies: Mapping[str, str]) -> ScriptedModel:
    """A judge who answers by criterion."""
    return ScriptedModel(lambda messages: replies[asked_about(messages)])
