"""The models that a command line means."""

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
    """Return the key that an endpoint names; raises :class:`ModelAuthError` where there is none by that name."""
    if endpoint.api_key_env is None:
        return None
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise ModelAuthError(f"no key: the environment variable {endpoint.api_key_env} is not set, or empty")
    return key


def model_at(endpoint: Endpoint, name: str, prices: Prices | None = None) -> EndpointModel:
    """Return the model of that name at an endpoint, with the key from the environment.

    ``anthropic:NAME`` is one of Anthropic's, ``openai:NAME`` is ``NAME``. Its price is the one that is given, else the
    endpoint's. Raises :class:`ModelAuthError` where a key is needed and there is none.
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

    An error before the first answer is most likely the address, the name or the server, and no further
    attempt would mend it: it ends the run. Once the model has answered, errors are the loop's to deal with.
    """

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self._answered = False

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - its own
        """Ask the model; a ``ModelError`` of the first call is an :class:`UnusableEndpointError`."""
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
