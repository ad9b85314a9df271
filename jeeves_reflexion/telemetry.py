"""Spans of OpenTelemetry, where its API is installed (the extra ``otel``) and the program exports them.

Names follow the semantic conventions for generative AI; what those lack is called ``jeeves.*``. Spans are current while
their work is done, so those of a wrapped framework nest within. Texts (tasks, outputs, lessons) are left out, but where
the variable that the conventions name asks for them (:func:`captured`); then they come without secrets.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar, cast

from jeeves_reflexion.events import Evaluated, Event, LessonDropped, LessonPersisted, LessonsRecalled
from jeeves_reflexion.types import Recall, Role, RunResult, Usage

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

P = ParamSpec("P")
R = TypeVar("R")
Value: TypeAlias = str | int | float | bool | Sequence[str] | Sequence[float]

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OPERATION: Final = "gen_ai.operation.name"
_AGENT: Final = "gen_ai.agent.name"
_MODEL: Final = "gen_ai.request.model"
_TOOL: Final = "gen_ai.tool.name"
_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
_RETURNED: Final = "gen_ai.tool.call.result"
_PROVIDER: Final = "gen_ai.provider.name"
_ANSWERED_BY: Final = "gen_ai.response.model"
_FINISHED: Final = "gen_ai.response.finish_reasons"
_ASKED: Final = "gen_ai.input.messages"
_ANSWER: Final = "gen_ai.output.messages"
_CACHED: Final = "gen_ai.usage.cache_read.input_tokens"
_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
_INPUT: Final = "gen_ai.usage.input_tokens"
_OUTPUT: Final = "gen_ai.usage.output_tokens"
_STORE: Final = "gen_ai.memory.store.id"
_FOUND: Final = "gen_ai.memory.record.count"
_SCORE: Final = "gen_ai.evaluation.score.value"
_VERDICT: Final = "gen_ai.evaluation.score.label"
_JUDGED: Final = "gen_ai.evaluation.name"
_EXPLAINED: Final = "gen_ai.evaluation.explanation"
_RESULT: Final = "gen_ai.evaluation.result"


@functools.cache
def _api() -> Any:  # noqa: ANN401 - a module, or None
    try:
        from opentelemetry import trace  # noqa: PLC0415 - optional dependency
    except ImportError:
        return None
    return trace


@functools.cache
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("jeeves_reflexion")


def _tracer() -> Tracer | None:
    """Return what makes spans; None where the program exports none, for those that nobody sees cost time as well."""
    # A program that exports spans has imported the API; its provider is looked up in the environment at each call.
    api: Any = _api() if "opentelemetry.trace" in sys.modules else None
    provider = None if api is None else api.get_tracer_provider()
    return None if provider is None or isinstance(provider, api.ProxyTracerProvider) else _tracer_of(provider)


def exported() -> bool:
    """Whether the program exports spans."""
    return _tracer() is not None


def captured() -> bool:
    """Whether spans are to hold what was said: ``true``, ``span_only`` or ``span_and_event`` in the environment."""
    return exported() and os.environ.get(CAPTURE, "").strip().lower() in {
        "true",
        "span_only",
        "span_and_event",
    }


def _current() -> Span | None:
    return None if _tracer() is None else cast("Span", _api().get_current_span())


def _span(operation: str, name: str, attributes: Mapping[str, Value]) -> AbstractContextManager[Span | None]:
    tracer = _tracer()
    return nullcontext() if tracer is None else _seen(tracer, operation, name, attributes)


@contextmanager
def _seen(tracer: Tracer, operation: str, name: str, attributes: Mapping[str, Value]) -> Iterator[Span]:
    given = {_OPERATION: operation, **attributes}
    # The text of an exception may hold what a model or a tool said: its type must do.
    with tracer.start_as_current_span(
        f"{operation} {name}", attributes=given, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - optional dependency

            span.set_attribute("error.type", type(error).__name__)
            span.set_status(StatusCode.ERROR)
            raise


def workflow(
    function: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Have a run of the loop be a span; the first argument is the loop."""

    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        name = str(getattr(args[0], "name", "reflexion"))
        with _span("invoke_workflow", name, {}) as span:
            result = await function(*args, **kwargs)
            if span is not None and isinstance(result, RunResult):
                span.set_attribute("jeeves.run.id", result.run_id)
                span.set_attribute("jeeves.attempts", len(result.trials))
                span.set_attribute("jeeves.passed", result.passed)
                span.set_attribute("jeeves.stop_reason", result.stop_reason)
            return result

    return run


def acting(role: Role, attempt: int) -> AbstractContextManager[Span | None]:
    """Have what an agent, an evaluator or a reflector does be a span."""
    return _span("invoke_agent", role, {_AGENT: role, "jeeves.attempt": attempt})


def chat(model: str, provider: str) -> AbstractContextManager[Span | None]:
    """Have a call of a model be a span; for :func:`answered` and :func:`said`, which take None too."""
    return _span("chat", model, {_MODEL: model, **({_PROVIDER: provider} if provider else {})})


def answered(span: Span | None, model: str, usage: Usage, finish_reason: str) -> None:
    """Say who answered, why it stopped and what it used; what was not reported is left out."""
    if span is None:
        return
    told: dict[str, Value] = {_ANSWERED_BY: model, _FINISHED: [finish_reason]}
    if not usage.unreported:
        told |= {_INPUT: usage.input_tokens, _OUTPUT: usage.output_tokens}
    parts = {_CACHED: usage.cached_tokens, _REASONING: usage.reasoning_tokens}
    span.set_attributes(told | {name: count for name, count in parts.items() if count is not None})


def said(span: Span | None, asked: str, answer: str) -> None:
    """Add what was said, of which the caller has taken out secrets."""
    if span is not None:
        span.set_attributes({_ASKED: asked, _ANSWER: answer})


@contextmanager
def tool(name: str) -> Iterator[Callable[[str, str], None]]:
    """Have a call of a tool be a span; hand arguments and result to what this yields, without secrets."""
    with _span("execute_tool", name, {_TOOL: name}) as span:

        def told(arguments: str, result: str) -> None:
            if span is not None:
                span.set_attributes({_ARGUMENTS: arguments, _RETURNED: result})

        yield told


def memory(
    operation: Literal["search_memory", "upsert_memory"],
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Have a method of a lesson store be a span, with the count of the lessons that it gives or takes."""

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            store = str(getattr(getattr(args[0], "store", None), "namespace", "default"))
            with _span(operation, store, {_STORE: store}) as span:
                result = await function(*args, **kwargs)
                if span is not None:
                    span.set_attributes(_of_recall(result) if isinstance(result, Recall) else {_FOUND: 1})
                return result

        return call

    return decorate


def _of_recall(recall: Recall) -> dict[str, Value]:
    """Say what a recall gave and withheld; ``jeeves.lift`` has the lifts that are known, by ``jeeves.lift.ids``."""
    lifts = {item.lesson.id: item.lift.value for item in (*recall.offered, *recall.withheld) if item.lift}
    known = {id: lift for id, lift in lifts.items() if lift is not None}
    return {
        _FOUND: len(recall.offered),
        "jeeves.lesson.ids": [item.lesson.id for item in recall.offered],
        "jeeves.withheld.ids": [item.lesson.id for item in recall.withheld],
        **({"jeeves.lift": list(known.values()), "jeeves.lift.ids": list(known)} if known else {}),
    }


def told(event: Event) -> None:
    """Add what an event of a run says to the current span, without its texts."""
    span = _current()
    if span is None:
        return
    if isinstance(event, Evaluated):
        label = "pass" if event.passed else "unscored" if event.score is None else "fail"
        score = {} if event.score is None else {_SCORE: event.score}
        why = {_EXPLAINED: event.rationale} if event.rationale and captured() else {}
        about: dict[str, Value] = {_JUDGED: "evaluator", _VERDICT: label, "jeeves.attempt": event.attempt}
        span.add_event(_RESULT, {**about, **score, **why})
    elif isinstance(event, LessonsRecalled):
        counts = {"jeeves.recalled": event.n_recalled, "jeeves.withheld": event.n_withheld}
        span.add_event("jeeves.lessons_recalled", {"jeeves.recall.id": event.recall_id, **counts})
    elif isinstance(event, LessonPersisted):
        lesson = {} if event.lesson is None else {"jeeves.lesson.id": event.lesson.id}
        span.add_event("jeeves.lesson_stored", lesson)
    elif isinstance(event, LessonDropped):
        span.add_event("jeeves.lesson_dropped")
