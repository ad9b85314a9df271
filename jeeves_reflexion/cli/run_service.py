"""``jeeves-reflexion run``: what it does."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import anyio

from jeeves_reflexion.cli.endpoints import Endpoint, model_at
from jeeves_reflexion.cli.failures import Interrupted, UnusableEndpointError
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import result_as_json
from jeeves_reflexion.cli.screen import Screen
from jeeves_reflexion.cli.stores import open_for_run
from jeeves_reflexion.cli.user_code import load, prints_go_to_stderr
from jeeves_reflexion.errors import ModelAuthError, ModelError
from jeeves_reflexion.events import Event, RunFinished
from jeeves_reflexion.lessons import LessonSettings, VectorLessonStore
from jeeves_reflexion.lessons.settings import Credit
from jeeves_reflexion.loop.factory import LoopOptions
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.loop.trace import Trace
from jeeves_reflexion.models import OpenAIModel
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import ChatModel, Message
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import Budget, logger
from jeeves_reflexion.summary import counted
from jeeves_reflexion.types import RunResult


@dataclass(frozen=True, slots=True)
class Place:
    """Where lessons are kept, what finds them, and whether what they do is found out."""

    path: str
    namespace: str
    embedder: EmbedderChoice
    credit: Credit | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for.

    ``judge`` names another model than the one that answers, ``agent`` a user's own one instead of a ReAct over it, as
    ``module:name``; ``lessons=None`` keeps none beyond the run.
    """

    task: str
    endpoint: Endpoint
    judge: str | None
    agent: str | None
    lessons: Place | None
    max_attempts: int
    threshold: float
    top_k: int
    budget: Budget


def run(order: Order, screen: Screen, *, as_json: bool) -> int:
    """Do the run, print its result and return the exit code."""
    # The watch shows warnings as what they are; the log would show them a second time.
    logger.addHandler(logging.NullHandler())
    answering = model_at(order.endpoint)
    judging = None if order.judge is None else model_at(replace(order.endpoint, model=order.judge))
    place = None if order.lessons is None else redact(order.lessons.path)
    watch = Watch(screen, place)
    try:
        with screen.busy(), nullcontext() if order.agent is None else prints_go_to_stderr():
            agent = None if order.agent is None else load("--agent", order.agent)
            result = anyio.run(_run, order, agent, answering, judging, watch)
    except KeyboardInterrupt:
        raise Interrupted(watch.farewell()) from None
    if as_json:
        namespace = "" if order.lessons is None else order.lessons.namespace
        screen.document(result_as_json(result, place, namespace))
    else:
        screen.gap()
        screen.result(result.text)
    return 0 if result.passed else 1


async def _run(
    order: Order,
    agent: Any,  # noqa: ANN401 - whatever a user wrote
    answering: OpenAIModel,
    judging: OpenAIModel | None,
    watch: Watch,
) -> RunResult:
    async with AsyncExitStack() as open_things:
        await open_things.enter_async_context(answering)
        if judging is not None:
            await open_things.enter_async_context(judging)
        store = await _open_lessons(order.lessons, watch, open_things)
        loop = Reflexion(
            agent,
            model=ProvenModel(answering),
            evaluator=None if judging is None else ProvenModel(judging),
            lesson_store=store,
            max_attempts=order.max_attempts,
            threshold=order.threshold,
            top_k_lessons=order.top_k,
            options=LoopOptions(budget=order.budget),
        )
        return await loop.run(order.task, session=loop.session(listener=watch))


async def _open_lessons(
    place: Place | None, watch: Watch, open_things: AsyncExitStack
) -> VectorLessonStore | None:
    if place is None:
        return None
    settings = LessonSettings(credit=place.credit)
    store = open_for_run(place.path, place.namespace, place.embedder, settings)
    await open_things.enter_async_context(store)
    # A store that can't be used is found out here, before a model has been paid.
    watch.opened(await store.count())
    return store


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


class Watch(Trace):
    """The trace of a run on a person's screen; ``place`` is where its lessons are kept, if anywhere."""

    def __init__(self, screen: Screen, place: str | None) -> None:
        super().__init__(screen)
        self._place = place

    def opened(self, n_lessons: int) -> None:
        """Say which store is in use."""
        self.display.note(f"lessons: {self._place} ({n_lessons} so far)", "dim")
        self.display.waiting_for("opening the lessons")

    def farewell(self) -> str:
        """Say what an interrupt leaves behind."""
        if self._place is None:
            return "the run was stopped; it kept no lessons, as asked"
        if not self.kept:
            return "the run was stopped before it had learned anything; earlier lessons are as they were"
        kept = f"{counted(self.kept, 'lesson')} in {self._place}"
        return f"the run was stopped; what was learned up to then is kept ({kept})"

    def __call__(self, event: Event) -> None:
        """Show an event."""
        super().__call__(event)
        if isinstance(event, RunFinished) and self._place is not None:
            # It is what "lessons outcome" takes, by somebody who knows better later.
            self.display.note(f"run: {event.run_id}", "dim")
