"""A model with something done around each of its calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from jeeves_reflexion.models.ask import expected_cost, metered, provider_of
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON


class Closable(ABC):
    """Something with connections: an async context manager that closes them at its end."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections of the running event loop."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class WrappedModel(Closable):
    """A chat model that is another one, but for what a class that inherits from it does in :meth:`complete`."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.name

    @property
    def provider(self) -> str:
        """What the model says."""
        return provider_of(self._model)

    @property
    def supports_tools(self) -> bool:
        """What the model says."""
        return self._model.supports_tools

    def expected_cost(self, messages: Sequence[Message], **settings: Any) -> float:  # noqa: ANN401 - of ``complete``
        """Return what the model says that a call may cost in US dollars; 0 where it does not say."""
        return expected_cost(self._model, messages, **settings)

    @metered
    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Ask the model."""
        return await self._model.complete(messages, tools=tools, schema=schema, sampling=sampling)

    async def aclose(self) -> None:
        """Close the connections of the model, where it has any."""
        close = getattr(self._model, "aclose", None)
        if close is not None:
            await close()
