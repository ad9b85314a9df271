"""The model that a command asks: where it is, and the key for it from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from jeeves_reflexion.errors import ModelAuthError
from jeeves_reflexion.models import OpenAIModel, Prices


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which model is asked, and where; ``timeout`` is in seconds."""

    model: str
    base_url: str | None
    api_key_env: str | None
    timeout: float
    prices: Prices | None = None


def key_of(endpoint: Endpoint) -> str | None:
    """Return the key that an endpoint names; raises :class:`ModelAuthError` where there is none by that name."""
    if endpoint.api_key_env is None:
        return None
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise ModelAuthError(f"no key: the environment variable {endpoint.api_key_env} is not set, or empty")
    return key


def model_at(endpoint: Endpoint) -> OpenAIModel:
    """Return the model at an endpoint, with the key from the environment.

    Raises :class:`ModelAuthError` where a key is needed and there is none.
    """
    key = key_of(endpoint)
    try:
        return OpenAIModel(
            endpoint.model,
            base_url=endpoint.base_url,
            api_key=key,
            timeout=endpoint.timeout,
            prices=endpoint.prices,
        )
    except ModelAuthError as error:
        raise ModelAuthError(
            "no key: set OPENAI_API_KEY, name another variable with --api-key-env, or give the --base-url of"
            " a server on this machine"
        ) from error
