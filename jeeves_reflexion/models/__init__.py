"""Language models behind one protocol, ``ChatModel``. Names are imported when used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jeeves_reflexion.models.cassette import Cassette, Exchange, RecordedError
    from jeeves_reflexion.models.factory import open_model
    from jeeves_reflexion.models.http import Retry
    from jeeves_reflexion.models.openai import OpenAIModel, OpenAIOptions, Prices
    from jeeves_reflexion.models.recorded import (
        Counts,
        RecordedModel,
        UnknownRequestError,
        recording_at,
    )
    from jeeves_reflexion.models.scripted import ScriptedCall, ScriptedModel

__all__ = [
    "Cassette",
    "Counts",
    "Exchange",
    "OpenAIModel",
    "OpenAIOptions",
    "Prices",
    "RecordedError",
    "RecordedModel",
    "Retry",
    "ScriptedCall",
    "ScriptedModel",
    "UnknownRequestError",
    "open_model",
    "recording_at",
]

_HOMES = {
    "Cassette": "cassette",
    "Counts": "recorded",
    "Exchange": "cassette",
    "OpenAIModel": "openai",
    "OpenAIOptions": "openai",
    "Prices": "openai",
    "RecordedError": "cassette",
    "RecordedModel": "recorded",
    "Retry": "http",
    "ScriptedCall": "scripted",
    "ScriptedModel": "scripted",
    "UnknownRequestError": "recorded",
    "open_model": "factory",
    "recording_at": "recorded",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
