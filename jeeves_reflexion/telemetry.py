"""OpenTelemetry spans, if its API is installed (the extra ``otel``) and the program exports spans.

Names follow the semantic conventions for generative AI; names that these lack start with ``jeeves.``. A span is current
during its work, so the spans of a wrapped framework nest within it. Texts (tasks, outputs, lessons) are left out unless
the variable of the conventions asks for them (:func:`captured`); then they are redacted.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from jeeves_reflexion.events import Evaluated, Event, LessonDropped, LessonPersisted, LessonsRecalled
from jeeves_reflexion.types import Recall, Role, RunResult, Usage

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

P = ParamSpec("P")
R = TypeVar("R")
Value: TypeAlias = str | int | float | bool | Sequence[str] | Sequence[float]
Run: TypeAlias = Callable[P, Coroutine[Any, Any, R]]

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_NO_SPAN: Final = nullcontext()  # made once: most programs export no spans


@functools.cache
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("jeeves_reflexion")


def tracer() -> Tracer | None:
    """Return the tracer that makes spans, or None if the program exports none."""
    # A program that exports spans has imported the API. Otherwise each call would look for a provider in vain.
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - optional dependency

    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else _tracer_of(provider)


def captured() -> bool:
    """Whether spans hold texts: the variable is ``true``, ``span_only`` or ``span_and_event``."""
    asked = {"true", "span_only", "span_and_event"}
    return tracer() is not None and os.environ.get(CAPTURE, "").strip().lower() in asked


def _span(operation: str, name: str, attributes: Mapping[str, Value]) -> AbstractContextManager[Span | None]:
    exporting = tracer()
    return _NO_SPAN if exporting is None else _exported(exporting, operation, name, attributes)


@contextmanager
def _exported(tracer: Tracer, operation: str, name: str, attributes: Mapping[str, Value]) -> Iterator[Span]:
    given = {"gen_ai.operation.name": operation, **attributes}
    # The text of an exception may quote a model or a tool, so only its type is recorded.
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


Operation: TypeAlias = Literal["invoke_workflow", "search_memory", "upsert_memory"]


def operation(kind: Operation) -> Callable[[Run[P, R]], Run[P, R]]:
    """Make each call of a method a span: a run of the loop, or a recall or a record of a lesson store."""

    def decorate(function: Run[P, R]) -> Run[P, R]:
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if kind == "invoke_workflow":
                name, given = str(getattr(args[0], "name", "reflexion")), {}
            else:
                name = str(getattr(getattr(args[0], "store", None), "namespace", "default"))
                given = {"gen_ai.memory.store.id": name}
            with _span(kind, name, given) as span:
                result = await function(*args, **kwargs)
                if span is not None:
                    span.set_attributes(_of_result(result))
                return result

        return call

    return decorate


def _of_result(result: object) -> dict[str, Value]:
    """Return how a run ended; or how many lessons were recalled, their ids and known lifts; 1 for one recorded."""
    if isinstance(result, RunResult):
        return {
            "jeeves.run.id": result.run_id,
            "jeeves.attempts": len(result.trials),
            "jeeves.passed": result.passed,
            "jeeves.stop_reason": result.stop_reason,
        }
    if not isinstance(result, Recall):
        return {"gen_ai.memory.record.count": 1}
    lifts = {each.lesson.id: each.lift.value for each in (*result.offered, *result.withheld) if each.lift}
    known = {id: lift for id, lift in lifts.items() if lift is not None}
    return {
        "gen_ai.memory.record.count": len(result.offered),
        "jeeves.lesson.ids": [each.lesson.id for each in result.offered],
        "jeeves.withheld.ids": [each.lesson.id for each in result.withheld],
        **({"jeeves.lift": list(known.values()), "jeeves.lift.ids": list(known)} if known else {}),
    }


def acting(role: Role, attempt: int) -> AbstractContextManager[Span | None]:
    """Return the span of the work of an agent, an evaluator or a reflector."""
    return _span("invoke_agent", role, {"gen_ai.agent.name": role, "jeeves.attempt": attempt})


def chat(model: str, provider: str) -> AbstractContextManager[Span | None]:
    """Return the span of a model call, for :func:`answered` and :func:`said`; None if no spans are exported."""
    asked = {"gen_ai.provider.name": provider} if provider else {}
    return _span("chat", model, {"gen_ai.request.model": model, **asked})


def answered(span: Span | None, model: str, usage: Usage, finish_reason: str) -> None:
    """Add the model that answered, why it stopped and what it used; counts that were not reported are left out."""
    if span is None:
        return
    counts = {
        "gen_ai.usage.input_tokens": None if usage.unreported else usage.input_tokens,
        "gen_ai.usage.output_tokens": None if usage.unreported else usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    span.set_attributes({"gen_ai.response.model": model, "gen_ai.response.finish_reasons": [finish_reason]})
    span.set_attributes({name: count for name, count in counts.items() if count is not None})


def said(span: Span | None, asked: str, answer: str) -> None:
    """Add the messages, which the caller has redacted."""
    if span is not None:
        span.set_attributes({"gen_ai.input.messages": asked, "gen_ai.output.messages": answer})


@contextmanager
def tool(name: str) -> Iterator[Callable[[str, str], None]]:
    """Make a tool call a span, and yield a function that takes its arguments and result, redacted."""
    with _span("execute_tool", name, {"gen_ai.tool.name": name}) as span:

        def add(arguments: str, result: str) -> None:
            if span is not None:
                span.set_attributes(
                    {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
                )

        yield add


def told(event: Event) -> None:
    """Add an event of a run to the current span, without its texts."""
    if tracer() is None:
        return
    from opentelemetry.trace import get_current_span  # noqa: PLC0415 - optional dependency

    span = get_current_span()
    match event:
        case Evaluated(score=score, passed=passed):
            verdict: dict[str, Value] = {
                "gen_ai.evaluation.name": "evaluator",
                "gen_ai.evaluation.score.label": "pass"
                if passed
                else "unscored"
                if score is None
                else "fail",
                "jeeves.attempt": event.attempt,
            }
            if score is not None:
                verdict["gen_ai.evaluation.score.value"] = score
            if event.rationale and captured():
                verdict["gen_ai.evaluation.explanation"] = event.rationale
            span.add_event("gen_ai.evaluation.result", verdict)
        case LessonsRecalled(recall_id=id, n_recalled=recalled, n_withheld=withheld):
            counts = {"jeeves.recalled": recalled, "jeeves.withheld": withheld}
            span.add_event("jeeves.lessons_recalled", {"jeeves.recall.id": id, **counts})
        case LessonPersisted(lesson=lesson):
            span.add_event("jeeves.lesson_stored", {"jeeves.lesson.id": lesson.id} if lesson else {})
        case LessonDropped():
            span.add_event("jeeves.lesson_dropped")
        case _:
            pass  # the spans show it
