"""The models that options name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from jeeves_reflexion.cli.failures import UnusableEndpointError
from jeeves_reflexion.cli.options import Endpoint
from jeeves_reflexion.errors import ModelAuthError, ModelError
from jeeves_reflexion.models import AnthropicModel, AnthropicOptions, OpenAIModel, OpenAIOptions, Prices
from jeeves_reflexion.models.anthropic import MAX_TOKENS
from jeeves_reflexion.models.endpoint import EndpointModel
from jeeves_reflexion.models.names import kind_and_name
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import ChatModel, Completion, Message


def key_of(endpoint: Endpoint) -> str | None:
    """Return the key from the endpoint's environment variable; None if it names no variable.

    Raises :class:`ModelAuthError` if the variable is not set.
    """
    if endpoint.api_key_env is None:
        return None
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise ModelAuthError(f"no key: the environment variable {endpoint.api_key_env} is not set, or empty")
    return key


def model_at(endpoint: Endpoint, name: str, prices: Prices | None = None) -> EndpointModel:
    """Return the model of that name at an endpoint, with the key from the environment.

    ``anthropic:NAME`` is a model of Anthropic's, ``openai:NAME`` is ``NAME``. ``prices`` overrides the endpoint's
    price. Raises :class:`ModelAuthError` if the model needs a key and none is set.
    """
    kind, plain = kind_and_name(name)
    anthropic = kind is AnthropicModel
    asked: dict[str, Any] = {
        "base_url": endpoint.base_url,
        "api_key": key_of(endpoint),
        "timeout": endpoint.timeout,
        "prices": prices or endpoint.prices.get(plain),
        "stream": endpoint.stream,
    }
    headers, bound = endpoint.headers, endpoint.max_tokens
    try:
        if anthropic:
            claude = AnthropicOptions(headers=headers, max_tokens=bound or MAX_TOKENS)
            return AnthropicModel(plain, **asked, options=claude)
        return OpenAIModel(plain, **asked, options=OpenAIOptions(headers=headers, max_tokens=bound))
    except ModelAuthError as error:
        variable = "ANTHROPIC_API_KEY" if anthropic else "OPENAI_API_KEY"
        raise ModelAuthError(
            f"no key: set {variable}, name another variable with --api-key-env, or give the --base-url of"
            " a server on this machine"
        ) from error


class ProvenModel(WrappedModel):
    """A model whose first call must work.

    An error before the first answer most likely means a wrong address, name or server. Another attempt would not help,
    so it ends the run. After the first answer, the loop handles errors.
    """

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self._answered = False

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - its own
        """Ask the model; raises :class:`UnusableEndpointError` if it fails before its first answer."""
        try:
            completion = await super().complete(messages, **settings)
        except ModelAuthError:
            raise
        except ModelError as error:
            if self._answered:
                raise
            raise UnusableEndpointError(str(error)) from error
        self._answered = True
        return completion
