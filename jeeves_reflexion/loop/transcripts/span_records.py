"""OpenTelemetry spans and log records as they are found in files, and the messages in them.

Files hold OTLP as JSON (``resourceSpans``, ``resourceLogs``) or the output of the SDK's console exporters. Messages are
in attributes or events, following the current conventions for generative AI or those up to 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AliasChoices, AliasPath, Field, ValidationError, model_validator

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.loop.transcripts.lines import ChatMessage, Given, first_problem

_DETAILS: Final = "gen_ai.client.inference.operation.details"
_CONTENT: Final = ("gen_ai.input.messages", "gen_ai.output.messages")
_ROLES: Final = {
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
_DOCUMENTS: Final = ("resourceSpans", "resourceLogs", "resourceMetrics")
_TIMES: Final = ("startTimeUnixNano", "timeUnixNano", "observedTimeUnixNano")
_ISO_TIMES: Final = ("start_time", "timestamp", "observed_timestamp")


_Id = Annotated[str, AfterValidator(lambda id: id.removeprefix("0x"))]
"""An id as OTLP writes it, since one trace may come from both kinds of files."""


class Event(Given):
    """An event within a span."""

    name: str = ""
    attributes: dict[str, Any] = Field(default_factory=dict)
    body: Any = None

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        attributes, body = given.get("attributes"), given.get("body")
        if isinstance(attributes, list):
            attributes = _value({"kvlistValue": {"values": attributes}})
        attributes = attributes or {}
        names = [given.get(key) for key in ("name", "eventName", "event_name")]
        if isinstance(attributes, Mapping):  # else its own check names the field
            names.append(str(attributes.get("event.name") or ""))  # as SDKs wrote it before 1.30
        return {
            **given,
            "name": next(filter(None, names), ""),
            "attributes": attributes,
            "body": _value(body) if isinstance(body, Mapping) else body,
        }


class Record(Event):
    """A span, or a log record within one; ``at`` is when it began, in seconds since 1970."""

    trace: _Id = Field(validation_alias=AliasChoices("traceId", "trace_id", AliasPath("context", "trace_id")))
    span: _Id = Field(
        default="", validation_alias=AliasChoices("spanId", "span_id", AliasPath("context", "span_id"))
    )
    parent: _Id | None = Field(default=None, validation_alias=AliasChoices("parentSpanId", "parent_id"))
    at: float = 0.0
    events: list[Event] = Field(default_factory=list)
    status: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _timed(cls, given: Any) -> Any:  # noqa: ANN401 - JSON
        nanoseconds = next((int(given[name]) for name in _TIMES if given.get(name)), None)
        if nanoseconds is not None:
            return {**given, "at": nanoseconds / 1e9}
        told = next((str(given[name]) for name in _ISO_TIMES if given.get(name)), None)
        return given if told is None else {**given, "at": datetime.fromisoformat(told).timestamp()}

    @property
    def operation(self) -> str:
        """The operation of the span, such as ``chat`` or ``invoke_agent``."""
        return str(self.attributes.get("gen_ai.operation.name", ""))

    @property
    def error(self) -> str | None:
        """Why it failed; None if it did not."""
        status = self.status
        if status.get("code") not in {2, "STATUS_CODE_ERROR"} and status.get("status_code") != "ERROR":
            return None
        reasons = (status.get("message"), status.get("description"), self.attributes.get("error.type"))
        return next((str(each) for each in reasons if each), "the agent failed")


def is_telemetry(value: Mapping[str, Any]) -> bool:
    """Whether a JSON value is an OTLP document, or a span or log record of the SDK."""
    context = value.get("context")
    within = context if isinstance(context, Mapping) else value
    return any(name in value for name in _DOCUMENTS) or ("trace_id" in within and "attributes" in value)


def records(value: Mapping[str, Any], place: str) -> Iterator[tuple[Record, bool]]:
    """Yield the spans and log records in a value that is telemetry, and whether each is a span.

    Raises :class:`ConfigurationError` that names its place.
    """
    found = [(value, "context" in value)]
    try:
        if any(name in value for name in _DOCUMENTS):
            found = [
                (span, True)
                for resource in value.get("resourceSpans") or ()
                for scope in resource.get("scopeSpans") or ()
                for span in scope.get("spans") or ()
            ]
            found += [
                (log, False)
                for resource in value.get("resourceLogs") or ()
                for scope in resource.get("scopeLogs") or ()
                for log in scope.get("logRecords") or ()
                if log.get("traceId")
            ]
        for each, is_span in found:
            yield Record.model_validate(each), is_span
    except ValidationError as error:
        raise ConfigurationError(f"{place}: {first_problem(error)}") from error
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise ConfigurationError(f"{place}: the span can't be read: {error!r}") from error


def messages_of(span: Record) -> list[ChatMessage]:
    """Return the messages in a span, without system instructions."""
    held = [span.attributes, *(event.attributes for event in span.events if event.name == _DETAILS)]
    found: list[Any] = [next((each[name] for each in held if each.get(name)), []) for name in _CONTENT]
    try:
        if any(found):
            return [
                message for each in found for given in _parsed(each, span) for message in _of_parts(given)
            ]
        return [_of_event(_ROLES[event.name], event, span) for event in span.events if event.name in _ROLES]
    except (ValidationError, AttributeError, TypeError) as error:
        raise ConfigurationError(
            f"span {span.span} of trace {span.trace}: its messages can't be read"
        ) from error


def _of_parts(message: Mapping[str, Any]) -> Iterator[ChatMessage]:
    """Yield a message of the conventions as messages of chat models; each tool result becomes its own message."""
    parts = message.get("parts") or ()
    for part in parts:
        if part.get("type") == "tool_call_response":
            result = part.get("response", part.get("result"))
            yield ChatMessage(role="tool", content=_text(result), tool_call_id=part.get("id") or "")
    words = [str(part.get("content") or "") for part in parts if part.get("type") == "text"]
    calls = [_call(part) for part in parts if part.get("type") == "tool_call"]
    if (words or calls) and message.get("role") not in {"system", "developer"}:
        role = "user" if message.get("role") == "user" else "assistant"
        yield ChatMessage.model_validate({"role": role, "content": "\n".join(words), "tool_calls": calls})


def _of_event(role: str, event: Event, span: Record) -> ChatMessage:
    """Return the message of an event in the conventions up to 1.36."""
    given = {**event.attributes, **(event.body if isinstance(event.body, Mapping) else {})}
    inner = given.get("message")
    given |= _parsed(inner, span) if isinstance(inner, str) and inner.startswith("{") else inner or {}
    calls = given.get("tool_calls") or ()
    calls = _parsed(calls, span) if isinstance(calls, str) else calls
    return ChatMessage.model_validate(
        {
            "role": role,
            "content": _text(given.get("content")),
            "tool_calls": [_call({**each, **(each.get("function") or {})}) for each in calls],
            "tool_call_id": given.get("id") if role == "tool" else None,
        }
    )


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": given.get("name"), "arguments": _text(given.get("arguments"))}
    return {"id": given.get("id"), "function": function}


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _parsed(value: object, span: Record) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"span {span.span} of trace {span.trace}: its messages are not JSON; perhaps a limit on the length of "
            "attributes cut them off"
        ) from error


def _value(given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Return an OTLP value as plain data; other data stays as it is."""
    if len(given) != 1:
        return given or None
    [(kind, value)] = given.items()
    if kind == "kvlistValue":
        return {each["key"]: _value(each.get("value") or {}) for each in value.get("values") or ()}
    if kind == "arrayValue":
        return [_value(each) for each in value.get("values") or ()]
    if kind == "intValue":
        return int(value)
    return value if kind in {"stringValue", "boolValue", "doubleValue", "bytesValue"} else given
