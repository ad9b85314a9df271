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

from jeeves_reflexion import ReAct, Reflexion, ScriptedModel, open_lessons

SECRET = "The sum of the hidden table is forty."


def look(row: int) -> str:
    "Look at a row."
    if "none" not in sys.argv:
        with trace.get_tracer("the user's own").start_as_current_span("their span"):
            pass
    return SECRET


def answer(messages):
    system = messages[0].content
    if system.startswith("You judge"):
        return "score: 1.0" if "second" in messages[-1].content else "score: 0.0"
    if system.startswith("You write lessons"):
        return "Look at the second row before you answer."
    if "Observation" not in messages[-1].content:
        return 'Thought: I look.\\nAction: look[{"row": 1}]'
    return "Finish[the second row]" if "second row" in system else "Finish[the first row]"


model = ScriptedModel(answer)
store = open_lessons("memory://")
result = Reflexion(ReAct(model, [look]), model=model, lesson_store=store).run_sync("Which row holds the sum?")
assert result.passed, result.summary()
try:
    Reflexion(lambda prompt: 1 / 0, model=model).run_sync(SECRET)
except Exception:
    pass
if "none" not in sys.argv:
    spans = exporter.get_finished_spans()
    print(json.dumps([json.loads(span.to_json()) for span in spans]))
"""


def spans(*arguments):
    found = os.pathsep.join(
        [str(Path(jeeves_reflexion.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments],
        env={**os.environ, "PYTHONPATH": found},
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
        event["attributes"]["gen_ai.evaluation.score.label"]
        for event in first["events"]
        if event["name"] == "gen_ai.evaluation.result"
    ]
    assert labels == ["fail", "pass"]
    counts = [s["attributes"]["gen_ai.memory.record.count"] for s in found if "memory" in s["name"]]
    assert sorted(counts) == [0, 1, 1]
    for text in ("hidden table", "second row before", "Which row"):
        assert text not in printed


def test_without_the_package_everything_works():
    assert spans("none") == ""
