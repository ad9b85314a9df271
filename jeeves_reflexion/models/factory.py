"""A model from the name a person types."""

from __future__ import annotations

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.models.openai import OpenAIModel
from jeeves_reflexion.protocols import ChatModel


def open_model(
    spec: str, *, base_url: str | None = None, api_key: str | None = None, timeout: float = 60.0
) -> ChatModel:
    """Return the model that ``NAME`` or ``openai:NAME`` stands for, at any OpenAI-compatible endpoint.

    Other colons belong to the name (``llama3:8b``). See :class:`~jeeves_reflexion.models.openai.OpenAIModel`
    for the rest; raises :class:`~jeeves_reflexion.errors.ConfigurationError` for an empty name or a bad
    address, and :class:`~jeeves_reflexion.errors.ModelAuthError` without a key.
    """
    name = spec.strip().removeprefix("openai:").strip()
    if not name:
        raise ConfigurationError(
            f"the model {spec!r} has no name: write NAME or openai:NAME, such as gpt-4o-mini"
        )
    return OpenAIModel(name, base_url=base_url, api_key=api_key, timeout=timeout)
