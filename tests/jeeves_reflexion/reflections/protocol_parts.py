"""Reflections, entries and models' replies for the tests of seed 002."""

from __future__ import annotations

import datetime
import json
import uuid

from jeeves_reflexion import Attempt, Evaluation, Provenance, Reflection, Task, Trial
from jeeves_reflexion.reflections.forms import make_reflection
from jeeves_reflexion.reflections.journal import ReflectionJournal, Stored
from jeeves_reflexion.reflections.markdown import Entry, entry_of

FAILED_FIELDS = {
    "what_happened": "The listings were to be fetched; the run ended with a parser error.",
    "what_went_wrong": "Step 3: json.loads was called with the body of a 503 response.",
    "why": "Wrong strategy: the body was parsed before the status was looked at.",
    "do_differently": "Check the status first; wait and retry on 5xx.",
    "tactical_rule": "Always validate API response status before parsing the body.",
}
PARTIAL_FIELDS = {
    "what_happened": "Seven of ten pages were read.",
    "what_went_wrong": "The eighth request was refused for its rate.",
    "do_differently": "Wait one second between two requests.",
}
SUCCESS_FIELDS = {
    "strategy": "Read the sitemap before any page.",
    "why_it_worked": "It lists every page there is.",
}
RULE = "Look at the status of a response before its body."
STEPS = ("Ask for the page.", "Look at the status.", "Parse the body.")

TASK = Task("Fetch the listings", kind="web scraping", tools=("http_get",))


def failed(**changes: str) -> Reflection:
    return make_reflection("failed", {**FAILED_FIELDS, **changes})


def important() -> Reflection:
    return make_reflection("failed", FAILED_FIELDS, rule=RULE, steps=STEPS)


def partial() -> Reflection:
    return make_reflection("partial", PARTIAL_FIELDS)


def success() -> Reflection:
    return make_reflection("success", SUCCESS_FIELDS, steps=STEPS)


def decision() -> Reflection:
    fields = {
        "decision": "Use the API.",
        "alternatives": "Scrape the pages; buy the data.",
        "why_chosen": "It is allowed and it is stable.",
    }
    return make_reflection("decision", fields)


def at(day: int, *, month: int = 3, year: int = 2026, hour: int = 12) -> float:
    return datetime.datetime(year, month, day, hour, tzinfo=datetime.UTC).timestamp()


def source(agent: str | None = "researcher-agent", when: float | None = None, **more) -> Provenance:
    given = {"run_id": "run-1", "attempt": 1, "score": 0.2, "model": "scripted", **more}
    return Provenance(agent=agent, created_at=at(1) if when is None else when, **given)


def entry(
    reflection: Reflection | None = None,
    task: Task = TASK,
    *,
    agent: str = "researcher-agent",
    when: float | None = None,
    id: str = "",
    **more,
) -> Entry:
    return entry_of(task, reflection or failed(), source(agent, when, **more), id=id or f"id-{when or 0:.0f}")


def record(
    journal: ReflectionJournal, task: Task, reflection: Reflection, *, provenance: Provenance
) -> Stored:
    """Write a reflection's file as a library does."""
    stored = journal.write(entry_of(task, reflection, provenance, id=uuid.uuid4().hex))
    journal.archive_older(stored.entry.agent)
    return stored


def trial(score: float | None = 0.0, *, passed: bool = False, number: int = 1, **more) -> Trial:
    return Trial(number, Attempt("an output"), Evaluation(score), passed=passed, **more)


def reply(fields: dict[str, str] | None = None, **more: object) -> str:
    """A model's filled-in form for a failed task, as JSON."""
    filled = dict(FAILED_FIELDS if fields is None else fields)
    if "why" in filled and "cause" not in more:
        more = {"cause": "strategy", **more}
    return json.dumps({**filled, "important": False, "rule": "", "steps": [], "evidence": [], **more})
