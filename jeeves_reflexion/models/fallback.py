"""Another model for when the first can't answer."""

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
    """Asks a model, and where that can't answer, asks ``fallback``, for this one call.

    It can't where there is no answer in time, no connection, a 408, 409, 429 or 5xx after its own retries, a used-up
    quota, or an answer that is none. Any other error is raised: a key or a request that was refused, a text that is too
    long or was filtered, and a stream that broke off after a part of it was told. Each time is a warning in the log and
    an event ``Warned``. Native tools are offered where both models have them.
    """

    def __init__(self, model: ChatModel, *, fallback: ChatModel) -> None:
        super().__init__(model)
        self._fallback = WrappedModel(fallback)
        # With its name: one of the models may have a fallback of its own.
        self._form = f"fallback {fallback.name}"

    @property
    def provider(self) -> str:
        """What both models say; empty where they differ, for which one answers is not known before."""
        return super().provider if super().provider == self._fallback.provider else ""

    @property
    def supports_tools(self) -> bool:
        """Whether both models take native tools."""
        return self._model.supports_tools and self._fallback.supports_tools

    def expected_cost(self, messages: Sequence[Message], **settings: Any) -> float:  # noqa: ANN401 - of ``complete``
        """Return what the dearer of the two says that a call may cost in US dollars."""
        other = self._fallback.expected_cost(messages, **settings)
        return max(super().expected_cost(messages, **settings), other)

    async def aclose(self) -> None:
        """Close the connections of both models."""
        try:
            await super().aclose()
        finally:
            await self._fallback.aclose()

    async def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:  # noqa: ANN401 - as above
        """Ask the model, and where it can't answer, the fallback."""
        try:
            return await super().complete(messages, **settings)
        except ModelError as error:
            if not _can_not_answer(error):
                raise
            said = f"{self.name} can't answer, so {self._fallback.name} is asked: {error}"
        logger.warning("%s", said)
        if scope := current_scope():
            session, _ = scope
            await session.tell(Warned, message=said)
        # What came with an answer is for the model that gave it: another one would refuse its signatures.
        own = [replace(each, opaque=each.opaque.get(self._form, {})) for each in messages]
        completion = await self._fallback.complete(own, **settings)
        return replace(completion, opaque={self._form: completion.opaque} if completion.opaque else {})


def _can_not_answer(error: ModelError) -> bool:
    if error.handed_on:
        return False
    if not isinstance(error, ModelResponseError):
        return isinstance(error, ModelTimeoutError | ModelConnectionError)
    about_text = error.code == _FILTERED or TOO_LONG.search(error.said)
    failed = error.status in {None, 200, 402, 408, 409, 429} or (error.status or 0) >= 500
    return error.code in SPENT or (failed and not about_text)
