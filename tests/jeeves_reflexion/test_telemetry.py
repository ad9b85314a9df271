"""Spans of OpenTelemetry, by its own SDK, in a process of their own: a provider is set once for a process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jeeves_reflexion

PROGRAM = """
import json, sys
from dataclasses import replace
from types import SimpleNamespace

import anyio

if "none" in sys.argv:
    sys.modules["opentelemetry"] = None
else:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

from jeeves_reflexion import Evaluation, ReAct, Reflexion, ScriptedModel, open_lessons, telemetry
from jeeves_reflexion.types import Lesson, Lift, Provenance, Recall, RecalledLesson

SECRET = "The sum of the hidden table is forty, by sk-proj-AbCdEf0123456789AbCdEf."


def look(row: int) -> str:
    "Look at a row."
    if "none" not in sys.argv:
        with trace.get_tracer("the user's own").start_as_current_span("their span"):
            pass
    return SECRET


def lock() -> str:
    "Lock it."
    raise PermissionError(SECRET)


def answer(messages):
    system = messages[0].content
    if system.startswith("You judge"):
        return "score: 1.0" if "second" in messages[-1].content else "score: 0.0"
    if system.startswith("You write lessons"):
        return "Look at the second row before you answer."
    seen = sum("Observation" in message.content for message in messages)
    if seen < 2:
        return 'Thought: I look.\\nAction: look[{"row": 1}]' if not seen else "Action: lock[]"
    return "Finish[the second row]" if "second row" in system else "Finish[the first row]"


class Model(ScriptedModel):
    provider = "openai"


model = Model(answer)
store = open_lessons("memory://")
loop = Reflexion(ReAct(model, [look, lock]), model=model, lesson_store=store, verbose=True)


async def run():
    async with loop.stream("Which row holds the sum?") as events:
        async for _ in events:
            pass
    assert events.result.passed, events.result.summary()
    said = Evaluation(None, passed=True)
    await Reflexion(ReAct(Model(["40"])), evaluator=lambda task, attempt: said, model=model).run("Which sum?")


anyio.run(run)
try:
    Reflexion(lambda prompt: 1 / 0, model=model).run_sync(SECRET)
except Exception:
    pass


class Measured:
    "A store that knows what its lessons do."

    store = SimpleNamespace(namespace="measured")

    @telemetry.operation("search_memory")
    async def recall(self):
        made = [Lesson(id, "Look.", "t", "t", Provenance("r", 1, None)) for id in "abc"]
        known, unknown, held = (RecalledLesson(each, 0.9, "") for each in made)
        known, held = replace(known, lift=Lift(0.25)), replace(held, lift=Lift(-0.5))
        return Recall("r", "t", (known, replace(unknown, lift=Lift())), (held,))


anyio.run(Measured().recall)
if "none" not in sys.argv:
    spans = exporter.get_finished_spans()
    print(json.dumps([json.loads(span.to_json()) for span in spans]))
"""


def spans(*arguments, **environment):
    found = os.pathsep.join(
        [str(Path(jeeves_reflexion.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments],
        env={**os.environ, "PYTHONPATH": found, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_is_a_tree_of_spans_without_any_text():
    pytest.importorskip("opentelemetry.sdk")
    printed = spans()
    found = json.loads(printed)
    by_id = {span["context"]["span_id"]: span for span in found}

    def way(span):
        parent = span["parent_id"] and by_id[span["parent_id"]]
        return [*(way(parent) if parent else []), span["name"]]

    ways = {tuple(way(span)) for span in found}
    root = "invoke_workflow reflexion"
    for expected in (
        (root,),
        (root, "invoke_agent agent"),
        (root, "invoke_agent agent", "chat scripted"),
        (root, "invoke_agent agent", "execute_tool look"),
        (root, "invoke_agent agent", "execute_tool look", "their span"),
        (root, "invoke_agent evaluator", "chat scripted"),
        (root, "invoke_agent reflector", "chat scripted"),
        (root, "search_memory default"),
        (root, "upsert_memory default"),
    ):
        assert expected in ways, (expected, sorted(ways))
    first = next(span for span in found if span["name"] == root)
    attributes = first["attributes"]
    assert (attributes["jeeves.passed"], attributes["jeeves.attempts"]) == (True, 2)
    labels = [
        [
            event["attributes"]["gen_ai.evaluation.score.label"]
            for event in span["events"]
            if event["name"] == "gen_ai.evaluation.result"
        ]
        for span in found
        if span["name"] == root
    ]
    assert labels[:2] == [["fail", "pass"], ["pass"]], "each once, also where a stream and a display listen"
    counts = [s["attributes"]["gen_ai.memory.record.count"] for s in found if "memory default" in s["name"]]
    assert sorted(counts) == [0, 1, 1]
    chat = next(span for span in found if span["name"] == "chat scripted")
    assert chat["attributes"]["gen_ai.provider.name"] == "openai"
    assert chat["attributes"]["gen_ai.response.finish_reasons"] == ["stop"]
    locked = next(span for span in found if span["name"] == "execute_tool lock")
    assert locked["attributes"]["error.type"] == "PermissionError"
    assert locked["status"]["status_code"] == "ERROR"
    judging = [span["attributes"]["jeeves.attempt"] for span in found if "evaluator" in span["name"]]
    assert judging[:2] == [1, 2]
    recalled = [s["attributes"]["jeeves.lesson.ids"] for s in found if s["name"] == "search_memory default"]
    assert [len(ids) for ids in recalled] == [0, 1]
    measured = next(span["attributes"] for span in found if span["name"] == "search_memory measured")
    told = ("jeeves.lesson.ids", "jeeves.withheld.ids", "jeeves.lift.ids", "jeeves.lift")
    assert [measured[name] for name in told] == [["a", "b"], ["c"], ["a", "c"], [0.25, -0.5]]
    for text in ("hidden table", "second row before", "Which row"):
        assert text not in printed


def test_what_was_said_is_there_where_it_is_asked_for_without_secrets():
    pytest.importorskip("opentelemetry.sdk")
    printed = spans(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true")
    assert "hidden table" in printed
    assert "sk-proj" not in printed
    found = json.loads(printed)
    looked = next(span["attributes"] for span in found if span["name"] == "execute_tool look")
    assert looked["gen_ai.tool.call.arguments"] == '{"row": 1}'
    assert looked["gen_ai.tool.call.result"].startswith("The sum of the hidden table")
    chat = next(span["attributes"] for span in found if span["name"] == "chat scripted")
    asked, (said,) = (json.loads(chat[f"gen_ai.{way}.messages"]) for way in ("input", "output"))
    assert asked[-1]["parts"] == [{"type": "text", "content": "Which row holds the sum?"}]
    assert (said["role"], said["finish_reason"]) == ("assistant", "stop")
    events = [event["attributes"] for span in found for event in span["events"]]
    assert "score: 0.0" in [told.get("gen_ai.evaluation.explanation") for told in events]


def test_without_the_package_everything_works():
    assert spans("none") == ""
