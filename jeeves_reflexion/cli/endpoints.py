"""The models that a command asks: where they are, the key from the environment, and whether they answer at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from jeeves_reflexion.cli.failures import UnusableEndpointError
from jeeves_reflexion.cli.options import Endpoint
from jeeves_reflexion.errors import ModelAuthError, ModelError
from jeeves_reflexion.models import OpenAIModel, Prices
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import ChatModel, Message


def key_of(endpoint: Endpoint) -> str | None:
    """Return the key that an endpoint names; raises :class:`ModelAuthError` where there is none by that name."""
    if endpoint.api_key_env is None:
        return None
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise ModelAuthError(f"no key: the environment variable {endpoint.api_key_env} is not set, or empty")
    return key


def model_at(endpoint: Endpoint, name: str, prices: Prices | None = None) -> OpenAIModel:
    """Return the model of that name at an endpoint, with the key from the environment.

    Raises :class:`ModelAuthError` where a key is needed and there is none.
    """
    key = key_of(endpoint)
    try:
        return OpenAIModel(
            name, base_url=endpoint.base_url, api_key=key, timeout=endpoint.timeout, prices=prices
        )
    except ModelAuthError as error:
        raise ModelAuthError(
            "no key: set OPENAI_API_KEY, name another variable with --api-key-env, or give the --base-url of"
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

    @contextlib.contextmanager
    def around(self, messages: Sequence[Message]) -> Iterator[None]:
        """Make a ``ModelError`` of the first call an :class:`UnusableEndpointError`."""
        try:
            yield
        except ModelAuthError:
            raise
        except ModelError as error:
            if self._answered:
                raise
            raise UnusableEndpointError(str(error)) from error
        self._answered = True
