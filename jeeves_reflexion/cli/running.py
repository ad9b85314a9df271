"""``jeeves-reflexion run``: what it does."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from jeeves_reflexion.cli.failures import Interrupted, UnusableEndpointError
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import result_as_json
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.cli.stores import open_for_run
from jeeves_reflexion.cli.watch import Watch
from jeeves_reflexion.errors import ModelAuthError, ModelError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.models import OpenAIModel
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling, ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflexion import LoopOptions, Reflexion
from jeeves_reflexion.session import Budget, logger
from jeeves_reflexion.types import JSON, RunResult


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which models are asked, and where; ``timeout`` is in seconds."""

    model: str
    evaluator: str | None
    base_url: str | None
    api_key_env: str | None
    timeout: float


@dataclass(frozen=True, slots=True)
class Loop:
    """How long the loop goes on."""

    max_attempts: int
    threshold: float
    top_k: int
    max_tokens: int | None
    max_seconds: float | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where lessons are kept, and what finds them."""

    path: str
    namespace: str
    embedder: EmbedderChoice


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for; ``lessons=None`` keeps none beyond the run."""

    task: str
    endpoint: Endpoint
    loop: Loop
    lessons: Place | None


def run(order: Order, screen: Screen, *, as_json: bool) -> int:
    """Do the run, print its result and return the exit code."""
    # The watch shows warnings as what they are; the log would show them a second time.
    logger.addHandler(logging.NullHandler())
    answering = open_model(order.endpoint, order.endpoint.model)
    name = order.endpoint.evaluator
    judging = None if name is None else open_model(order.endpoint, name)
    place = None if order.lessons is None else redact(order.lessons.path)
    watch = Watch(screen, place)
    try:
        with screen.busy():
            result = anyio.run(_run, order, answering, judging, watch)
    except KeyboardInterrupt:
        raise Interrupted(watch.farewell()) from None
    if as_json:
        namespace = "" if order.lessons is None else order.lessons.namespace
        screen.document(result_as_json(result, place, namespace))
    else:
        screen.gap()
        screen.result(result.output)
    return 0 if result.passed else 1


async def _run(order: Order, answering: OpenAIModel, judging: OpenAIModel | None, watch: Watch) -> RunResult:
    budget = Budget(max_tokens=order.loop.max_tokens, max_seconds=order.loop.max_seconds)
    async with AsyncExitStack() as open_things:
        await open_things.enter_async_context(answering)
        if judging is not None:
            await open_things.enter_async_context(judging)
        store = await _open_lessons(order.lessons, watch, open_things)
        loop = Reflexion(
            model=ProvenModel(answering),
            evaluator=None if judging is None else ProvenModel(judging),
            lesson_store=store,
            max_attempts=order.loop.max_attempts,
            threshold=order.loop.threshold,
            top_k_lessons=order.loop.top_k,
            options=LoopOptions(budget=budget),
        )
        return await loop.run(order.task, session=loop.session(listener=watch))


async def _open_lessons(
    place: Place | None, watch: Watch, open_things: AsyncExitStack
) -> VectorLessonStore | None:
    if place is None:
        return None
    store = open_for_run(place.path, place.namespace, place.embedder)
    await open_things.enter_async_context(store)
    # A store that can't be used is found out here, before a model has been paid.
    watch.opened(await store.count())
    return store


def open_model(endpoint: Endpoint, name: str) -> OpenAIModel:
    """Return a model at an endpoint, with the key from the environment."""
    key: str | None = None
    if endpoint.api_key_env is not None:
        key = os.environ.get(endpoint.api_key_env, "").strip()
        if not key:
            raise ModelAuthError(
                f"no key: the environment variable {endpoint.api_key_env} is not set, or empty"
            )
    try:
        return OpenAIModel(name, base_url=endpoint.base_url, api_key=key, timeout=endpoint.timeout)
    except ModelAuthError as error:
        raise ModelAuthError(
            "no key: set OPENAI_API_KEY, name another variable with --api-key-env, or give the --base-url of"
            " a server on this machine"
        ) from error


class ProvenModel:
    """A model whose first call must work.

    An error before the first answer is most likely the address, the name or the server, and no further
    attempt would mend it: it ends the run. Once the model has answered, errors are the loop's to deal with.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._answered = False

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.name

    @property
    def supports_tools(self) -> bool:
        """What the model says."""
        return self._model.supports_tools

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Ask the model; raises :class:`UnusableEndpointError` for a ``ModelError`` of its first call."""
        try:
            completion = await self._model.complete(messages, tools=tools, schema=schema, sampling=sampling)
        except ModelAuthError:
            raise
        except ModelError as error:
            if self._answered:
                raise
            raise UnusableEndpointError(str(error)) from error
        self._answered = True
        return completion
