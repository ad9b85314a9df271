"""Models by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jeeves_reflexion import models
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.protocols import ChatModel

if TYPE_CHECKING:  # loaded when first used: the HTTP client takes as long as all the rest
    from jeeves_reflexion.models import AnthropicModel, OpenAIModel


def open_model(
    spec: str, *, base_url: str | None = None, api_key: str | None = None, timeout: float = 60.0
) -> ChatModel:
    """Return the model called ``NAME``, ``openai:NAME`` or ``anthropic:NAME``.

    Other colons belong to the name (``llama3:8b``). A name without a prefix means an OpenAI-compatible endpoint. See
    :class:`OpenAIModel` and :class:`AnthropicModel` for the other arguments. Raises
    :class:`~jeeves_reflexion.errors.ConfigurationError` for an empty name or a bad address, and
    :class:`~jeeves_reflexion.errors.ModelAuthError` without a key.
    """
    kind, name = kind_and_name(spec)
    if not name:
        raise ConfigurationError(
            f"the model {spec!r} has no name: write NAME, openai:NAME or anthropic:NAME, such as gpt-4o-mini"
        )
    return kind(name, base_url=base_url, api_key=api_key, timeout=timeout)


def kind_and_name(spec: str) -> tuple[type[AnthropicModel | OpenAIModel], str]:
    """Return the class of the model called ``NAME``, ``openai:NAME`` or ``anthropic:NAME``, and its plain name."""
    spec = spec.strip()
    if spec.startswith("anthropic:"):
        return models.AnthropicModel, spec.removeprefix("anthropic:").strip()
    return models.OpenAIModel, spec.removeprefix("openai:").strip()
