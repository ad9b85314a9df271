"""Attempts that were made elsewhere, read from traces that the SDK of OpenTelemetry writes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import StatusCode, use_span

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.loop.transcripts import Transcript, read_transcripts

ASKED = "What is in row 3?"
CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"x": 3}}
RESULT = {"type": "tool_call_response", "id": "c1", "response": "row 3 holds 40"}


def said(role: str, *parts: str | dict[str, Any]) -> dict[str, Any]:
    return {
        "role": role,
        "parts": [{"type": "text", "content": p} if isinstance(p, str) else p for p in parts],
    }


def value(given: object) -> dict[str, Any]:
    """Return a value as OTLP has it."""
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        return {"doubleValue": given}
    if isinstance(given, list | tuple):
        return {"arrayValue": {"values": [value(each) for each in given]}}
    if isinstance(given, dict):
        return {"kvlistValue": {"values": pairs(given)}}
    return {"stringValue": given}


def pairs(given: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(each)} for key, each in (given or {}).items()]


def otlp(span: ReadableSpan) -> dict[str, Any]:
    """Return a span as the collector's file exporter writes it."""
    context: Any = span.context
    parent = span.parent
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "parentSpanId": f"{parent.span_id:016x}" if parent else "",
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": pairs(span.attributes),
        "events": [
            {"timeUnixNano": str(each.timestamp), "name": each.name, "attributes": pairs(each.attributes)}
            for each in span.events
        ],
        "status": {"code": 2, "message": span.status.description} if not span.status.is_ok else {},
    }


class OTLPFile(SpanExporter):
    """Writes a document of OTLP a line."""

    def __init__(self, out: io.StringIO) -> None:
        self._out = out

    def export(self, spans: Sequence[ReadableSpan]) -> Any:
        scope = {"scope": {"name": "test"}, "spans": [otlp(span) for span in spans]}
        self._out.write(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}) + "\n")


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Transcript]]:
    """Record spans as OTLP and as the SDK prints them, and read both: they say the same."""

    def call(record: Callable[[Tracer], object], *, twice: bool = False) -> list[Transcript]:
        files, provider = (io.StringIO(), io.StringIO()), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPFile(files[0])))
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=files[1])))
        record(provider.get_tracer("test"))
        for file, name in zip(files, ("otlp", "console"), strict=True):
            (tmp_path / name).write_text(file.getvalue() * (2 if twice else 1), encoding="utf-8")
        otlp, console = (read_transcripts([str(tmp_path / name)]) for name in ("otlp", "console"))
        assert otlp == console
        return otlp

    return call


def chat(tracer: Tracer, given: list[Any], answer: dict[str, Any], **more: str) -> Any:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([{**answer, "finish_reason": "stop"}]),
        **more,
    }
    with tracer.start_as_current_span("chat tiny", attributes=attributes) as span:
        return span


def agent(
    tracer: Tracer, answer: str = "It is 39.", *, judge: Callable[[Any], object] = lambda span: None
) -> None:
    """An agent that calls a model, a tool that asks a model as well, and the model again."""
    with tracer.start_as_current_span(
        "invoke_agent clerk", attributes={"gen_ai.operation.name": "invoke_agent"}
    ) as it:
        user, called = said("user", ASKED), said("assistant", "I look.", CALL)
        chat(tracer, [user], called)
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1"}
        with tracer.start_as_current_span("execute_tool look", attributes=tool) as span:
            chat(tracer, [said("user", "Summarise the row.")], said("assistant", "40"))
            span.set_status(StatusCode.ERROR, "locked")
        chat(tracer, [user, called, said("user", RESULT)], said("assistant", answer))
        judge(it)


def verdict(span: Any, **attributes: Any) -> None:
    given = {f"gen_ai.evaluation.{name.replace('_', '.')}": each for name, each in attributes.items()}
    span.add_event("gen_ai.evaluation.result", given)


def test_the_run_of_an_agent_is_one_attempt_with_its_steps(read):
    [found] = read(agent, twice=True)
    assert (found.task.prompt, found.attempt.output, found.evaluation) == (ASKED, "It is 39.", None)
    assert found.attempt.usage.unreported, "what it used is not known, and not nothing"
    [step] = found.attempt.steps
    assert (step.thought, step.action, step.observation) == ("I look.", 'look {"x": 3}', "row 3 holds 40")
    assert step.failed


def test_a_verdict_within_or_around_an_attempt_is_its_own(read):
    def two(tracer: Tracer) -> None:
        with tracer.start_as_current_span("request") as outer:
            agent(
                tracer, judge=lambda span: verdict(span, score_value=0.25, explanation="one row is missing")
            )
            agent(tracer, "It is 40.")
            verdict(outer, score_value=1.0)
        with tracer.start_as_current_span("request") as outer:
            agent(tracer)
            verdict(outer, name="old", score_value=0.0)
            verdict(outer, name="old", score_value=0.5)
            verdict(outer, name="new", score_value=1, score_label="pass")

    judged, unjudged, alone = read(two)
    assert (judged.evaluation.score, judged.evaluation.rationale) == (0.25, "one row is missing")
    assert unjudged.evaluation is None, "the verdict around both says not which it is of"
    assert (alone.evaluation.score, alone.evaluation.passed) == (0.75, None)


@pytest.mark.parametrize(
    ("given", "score", "passed"),
    [
        ({"score_value": 1.0, "score_label": "fail"}, None, False),
        ({"score_value": 4, "score_label": "pass"}, None, True),
        ({"score_label": "PASS"}, None, True),
        ({"score_value": 0, "score_label": "pass"}, None, True),
        ({"score_value": 0}, 0.0, None),
        ({"score_value": 0.4, "score_label": "partly"}, 0.4, None),
    ],
)
def test_a_score_of_another_scale_leaves_the_verdict_to_its_label(read, given, score, passed):
    [found] = read(lambda tracer: agent(tracer, judge=lambda span: verdict(span, **given)))
    assert (found.evaluation.score, found.evaluation.passed) == (score, passed)


def test_a_verdict_that_says_nothing_of_pass_or_fail_leaves_it_to_a_judge(read):
    [found] = read(lambda tracer: agent(tracer, judge=lambda span: verdict(span, score_value=4)))
    assert found.evaluation is None


def test_conversations_without_an_agent_are_told_apart(read):
    def talk(tracer: Tracer) -> None:
        with tracer.start_as_current_span("request"):
            for question in ("Row 1?", "Row 2?"):
                chat(tracer, [said("user", question)], said("assistant", f"{question} It is 40."))
            history = [said("user", "Row 1?"), said("assistant", "Row 1? It is 40."), said("user", "Sure?")]
            chat(tracer, history, said("assistant", "Yes."))

    assert [(each.task.prompt, each.attempt.output) for each in read(talk)] == [
        ("Row 1?", "Yes."),
        ("Row 2?", "Row 2? It is 40."),
    ]


def test_attempts_of_a_loop_of_ours_have_their_own_verdicts(read):
    def loop(tracer: Tracer) -> None:
        with tracer.start_as_current_span("invoke_workflow") as outer:
            for number, role in ((1, "agent"), (1, "evaluator"), (2, "agent")):
                ours = {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": role,
                    "jeeves.attempt": number,
                }
                with tracer.start_as_current_span("invoke_agent", attributes=ours):
                    agent(tracer, f"{role} {number}")
            for number, score in ((1, 0.0), (2, 1.0)):
                outer.add_event(
                    "gen_ai.evaluation.result",
                    {"gen_ai.evaluation.score.value": score, "jeeves.attempt": number},
                )

    found = {each.attempt.output: each.evaluation.score for each in read(loop)}
    assert found == {"agent 1": 0.0, "agent 2": 1.0}


def test_messages_in_events_of_earlier_conventions_are_read(read):
    def talk(tracer: Tracer) -> None:
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as span:
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": 3}'}}
            span.add_event("gen_ai.system.message", {"content": "Be careful."})
            span.add_event("gen_ai.user.message", {"content": ASKED})
            span.add_event("gen_ai.assistant.message", {"tool_calls": json.dumps([call])})
            span.add_event("gen_ai.tool.message", {"id": "c1", "content": "row 3 holds 40"})
            answer = {"role": "assistant", "content": "It is 40."}
            span.add_event("gen_ai.choice", {"index": 0, "message": json.dumps(answer)})

    [found] = read(talk)
    assert (found.task.prompt, found.attempt.output) == (ASKED, "It is 40.")
    assert [step.observation for step in found.attempt.steps] == ["row 3 holds 40"]


def test_an_agent_that_failed_has_its_error(read):
    def fail(tracer: Tracer) -> None:
        span = tracer.start_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"})
        with use_span(span):
            chat(tracer, [said("user", ASKED)], said("assistant", "I look.", CALL))
        span.set_status(StatusCode.ERROR, "no route")
        span.end()

    [found] = read(fail)
    assert found.attempt.error == "no route"


def test_the_id_stays_while_the_rest_of_a_trace_arrives(tmp_path):
    out, provider = io.StringIO(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPFile(out)))
    agent(provider.get_tracer("test"))
    first, *_ = lines = out.getvalue().splitlines()
    for name, text in (("early", first), ("late", "\n".join(lines[1:])), ("all", out.getvalue())):
        (tmp_path / name).write_text(text)
    [early] = read_transcripts([str(tmp_path / "early")])
    [spread] = read_transcripts([str(tmp_path / name) for name in ("early", "late")])
    [whole] = read_transcripts([str(tmp_path / "all")])
    assert early.id == spread.id == whole.id
    assert spread == whole


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"gen_ai.operation.name": "chat"}, "the spans hold no messages"),
        (
            {"gen_ai.input.messages": '[{"role": "user", "parts": [{"ty'},
            "a limit on the length of attributes",
        ),
        ({"gen_ai.input.messages": '["a"]'}, "its messages can't be read"),
    ],
)
def test_spans_without_messages_or_with_half_of_them_are_an_error_that_says_so(read, attributes, said):
    def record(tracer: Tracer) -> None:
        with tracer.start_as_current_span("chat", attributes=attributes):
            pass

    with pytest.raises(ConfigurationError, match=said):
        read(record)


@pytest.mark.parametrize("given", ["abc", 7])
def test_attributes_that_are_none_are_named(tmp_path, given):
    (tmp_path / "spans").write_text(json.dumps({"context": {"trace_id": "a"}, "attributes": given}))
    with pytest.raises(ConfigurationError, match="attributes: Input should be a valid dictionary"):
        list(read_transcripts([str(tmp_path / "spans")]))


@pytest.mark.parametrize(
    "text",
    [
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": 1}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a", "startTimeUnixNano": "soon"}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a", "startTimeUnixNano": Infinity}]}]}]}',
        '{"resourceSpans": 7}',
        '{"context": {"trace_id": "a"}, "attributes": 7}',
        '[{"context": {"trace_id": "a"}, "attributes": {}}, 7]',
        '[{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use"}]}]',
        "[[1]]",
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_line(tmp_path, text):
    (tmp_path / "spans").write_text(f"\n{text}")
    with pytest.raises(ConfigurationError, match="spans, line 2: "):
        read_transcripts([str(tmp_path / "spans")])


def test_an_agent_of_pydantic_ai_is_read_from_what_it_records_itself(read):
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.test import TestModel

    def run(tracer: Tracer) -> None:
        clerk = Agent(TestModel(custom_output_text="It is 40."), name="clerk", instructions="Be careful.")
        clerk.tool_plain(look)
        clerk.instrument = InstrumentationSettings(tracer_provider=provider_of(tracer))
        anyio.run(clerk.run, ASKED)

    def look(x: int) -> str:
        return f"row {x} holds 40"

    [found] = read(run)
    assert (found.task.prompt, found.attempt.output) == (ASKED, "It is 40.")
    assert [(step.action, step.observation) for step in found.attempt.steps] == [
        ('look {"x": 0}', "row 0 holds 40")
    ]


def provider_of(tracer: Any) -> Any:
    class Provider(TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> Tracer:
            return tracer

    return Provider()


def test_a_bare_list_of_messages_is_a_conversation(tmp_path):
    given = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "40", "tool_calls": None}]
    (tmp_path / "chat.json").write_text(json.dumps(given, indent=2))
    [found] = read_transcripts([str(tmp_path / "chat.json")])
    assert (found.task.prompt, found.attempt.output) == (ASKED, "40")


def called(name: str, number: int) -> dict[str, Any]:
    function = {"name": "look", "arguments": str(number)}
    return {"role": "assistant", "tool_calls": [{"id": name, "type": "function", "function": function}]}


@pytest.mark.parametrize("name", ["call_0", ""])
def test_results_belong_to_their_own_turns_where_servers_give_all_calls_one_id(tmp_path, name):
    first, cut, last = (called(name, number) for number in range(3))
    one, two = ({"role": "tool", "tool_call_id": name, "content": said} for said in ("one", "two"))
    given = [{"role": "user", "content": ASKED}, first, one, cut, last, two]
    (tmp_path / "chat.json").write_text(json.dumps(given))
    [found] = read_transcripts([str(tmp_path / "chat.json")])
    steps = [(step.action, step.observation) for step in found.attempt.steps]
    assert steps == [("look 0", "one"), ("look 1", ""), ("look 2", "two")]


def test_a_tool_that_failed_in_one_trace_did_not_fail_in_another(read):
    def record(tracer: Tracer) -> None:
        agent(tracer)
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "execute_tool"}) as it:
            it.set_status(StatusCode.ERROR, "locked")
        nameless = {"type": "tool_call", "name": "look"}
        for call in (CALL, nameless):
            chat(tracer, [said("user", f"{ASKED} {len(call)}")], said("assistant", call))

    assert [[step.failed for step in each.attempt.steps] for each in read(record)] == [
        [True],
        [False],
        [False],
    ]


def test_a_log_of_inspect_without_inspect_names_the_extra(tmp_path):
    (tmp_path / "log.json").write_text('{"version": 2, "status": "success", "eval": {}}')
    try:
        import inspect_ai  # noqa: F401
    except ImportError:
        from jeeves_reflexion.errors import MissingDependencyError

        with pytest.raises(MissingDependencyError, match="inspect-ai"):
            read_transcripts([str(tmp_path / "log.json")])
    else:
        with pytest.raises(ConfigurationError, match="Inspect can't read the log"):
            read_transcripts([str(tmp_path / "log.json")])
