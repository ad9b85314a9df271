"""Whether and how a task is reflected on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.tasknotes.values import ReflectionStrategy
from jeeves_reflexion.text import read_prompt

# None that is given is a mistake, such as a model that was never made: it must not stand for the default.
_LEFT_OUT: Final[Any] = object()


@dataclass(frozen=True, slots=True, init=False)
class ReflectionConfig:
    """How a task is reflected on.

    ``model`` writes the reflection; left out, the task's own model does. ``prompt`` takes the place of the
    instructions that it is given: a text, or a file as a :class:`~pathlib.Path`, read at once. ``strategy`` takes the
    place of both: any object with ``reflect(given)``, sync or async. Where all are given, the strategy counts. Raises
    :class:`ConfigurationError` for None or anything else that is none of these.
    """

    model: ChatModel | None
    strategy: ReflectionStrategy | None
    prompt: str | None

    def __init__(
        self,
        *,
        model: ChatModel = _LEFT_OUT,
        strategy: ReflectionStrategy = _LEFT_OUT,
        prompt: str | Path = _LEFT_OUT,
    ) -> None:
        for name, value, kind in (("model", model, ChatModel), ("strategy", strategy, ReflectionStrategy)):
            if value is not _LEFT_OUT and (isinstance(value, type) or not isinstance(value, kind)):
                raise ConfigurationError(
                    f"{name} must be a {kind.__name__}, not {value!r}: leave it out for the default"
                )
            object.__setattr__(self, name, None if value is _LEFT_OUT else value)
        object.__setattr__(self, "prompt", None if prompt is _LEFT_OUT else _text_of(prompt))


def as_config(reflect: object) -> ReflectionConfig | None:
    """Return what ``reflect`` stands for; None where nothing is to be reflected on."""
    if isinstance(reflect, bool):
        return DEFAULT_REFLECTION if reflect else None
    if not isinstance(reflect, ReflectionConfig):
        raise ConfigurationError(f"reflect must be True, False or a ReflectionConfig, not {reflect!r}")
    return reflect


def _text_of(prompt: object) -> str:
    if isinstance(prompt, str | Path):
        text = read_prompt(prompt, "jeeves_reflexion.tasknotes", "reflection.md")
        if text.strip():
            return text
    raise ConfigurationError(
        f"prompt must be a text or a file with one, not {prompt!r}: leave it out for the default"
    )


DEFAULT_REFLECTION: Final = ReflectionConfig()
"""What ``reflect=True`` stands for."""
