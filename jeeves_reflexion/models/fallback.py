"""A model with a second one that answers when the first can't."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from jeeves_reflexion.errors import ModelConnectionError, ModelError, ModelResponseError, ModelTimeoutError
from jeeves_reflexion.events import Warned
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import ChatModel, Completion, Message
from jeeves_reflexion.session import current_scope, logger
from vectorstores.service_answers import SPENT, TOO_LONG

_FILTERED: Final = "content_filter"


class FallbackModel(WrappedModel):
    """Asks a model and, if it can't answer, asks ``fallback`` instead. The next call tries the model again.

    The fallback is asked after a timeout, a failed connection, a 408, 409, 429 or 5xx after the model's own retries, a
    used-up quota, or an unusable answer. Each time there is a warning in the log and a ``Warned`` event. Any other
    error is raised: a refused key or request, a text that is too long or was filtered, a stream that broke off after
    part of it was handed on. Native tools are offered if both models have them.
    """

    def __init__(self, model: ChatModel, *, fallback: ChatModel) -> None:
        super().__init__(model)
        self._fallback = WrappedModel(fallback)
        # The name tells nested fallbacks apart.
        self._form = f"fallback {fallback.name}"

    @property
    def provider(self) -> str:
        """The provider of both models; empty if they differ, since it is unknown which one will answer."""
        return super().provider if super().provider == self._fallback.provider else ""

    @property
    def supports_tools(self) -> bool:
        """Whether both models take native tools."""
        return self._model.supports_tools and self._fallback.supports_tools

    def expected_cost(self, messages: Sequence[Message], **settings: Any) -> float:  # noqa: ANN401 - of ``complete``
        """Return what a call may cost in US dollars with the more expensive of the two models."""
        other = self._fallback.expected_cost(messages, **settings)
        return max(super().expected_cost(messages, **settings), other)

    async def aclose(self) -> None:
        """Close the connections of both models."""
        try:
            await super().aclose()
        finally:
            await self._fallback.aclose()

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - as above
        """Ask the model and, if it can't answer, the fallback."""
        try:
            return await super().complete(messages, **settings)
        except ModelError as error:
            if isinstance(error, ModelResponseError):
                about_text = error.code == _FILTERED or TOO_LONG.search(error.said)
                failed = error.status in {None, 200, 402, 408, 409, 429} or (error.status or 0) >= 500
                unanswered = error.code in SPENT or (failed and not about_text)
            else:
                unanswered = isinstance(error, ModelTimeoutError | ModelConnectionError)
            if error.handed_on or not unanswered:
                raise
            warning = f"{self.name} can't answer, so {self._fallback.name} is asked: {error}"
        logger.warning("%s", warning)
        if scope := current_scope():
            session, _ = scope
            await session.tell(Warned, message=warning)
        # Each model gets only its own opaque parts back: it would refuse the other's signatures.
        own = [replace(each, opaque=each.opaque.get(self._form, {})) for each in messages]
        completion = await self._fallback.complete(own, **settings)
        return replace(completion, opaque={self._form: completion.opaque} if completion.opaque else {})
