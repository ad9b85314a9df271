"""The base of models that do something around each call of another model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from jeeves_reflexion.models.ask import expected_cost, metered
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.types import JSON


class Closable(ABC):
    """Something with connections; as an async context manager it closes them."""

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
    """A chat model that passes everything on to another one; subclasses override :meth:`complete`."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    @property
    def provider(self) -> str:
        """OpenTelemetry's name of the API that the model speaks; empty if the model does not say."""
        return str(getattr(self._model, "provider", ""))

    @property
    def supports_tools(self) -> bool:
        """Whether the model takes native tools."""
        return self._model.supports_tools

    def expected_cost(self, messages: Sequence[Message], **settings: Any) -> float:  # noqa: ANN401 - of ``complete``
        """Return what a call may cost in US dollars; 0 if the model can't say."""
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
        """Close the connections of the model, if it has any."""
        close = getattr(self._model, "aclose", None)
        if close is not None:
            await close()
