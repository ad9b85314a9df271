"""Files that people write, exactly as seed 002 shows them: they are read, and they pay what is owed."""

from __future__ import annotations

import pytest
from protocol_parts import FAILED_FIELDS, TASK, entry, partial, reply, trial
from tables import table

from jeeves_reflexion import ScriptedModel, Task
from jeeves_reflexion.reflections.forms import CAUSES, cause_of, make_reflection, principle_of, procedure_of
from jeeves_reflexion.reflections.journal import ReflectionJournal
from jeeves_reflexion.reflections.library import ReflectionLibrary
from jeeves_reflexion.reflections.markdown import from_markdown, to_markdown
from jeeves_reflexion.reflections.policy import ReflectionOwedError, ReflectionPolicy
from jeeves_reflexion.reflections.reflector import StructuredReflector

pytestmark = pytest.mark.anyio

TITLE = "# Reflection: 2026-03-01 - researcher-agent - Fetch the listings"
FAILED = """{title}
## What happened?
The listings were to be fetched. The run ended with a parser error.
## What went wrong?
Step 3: json.loads was called with the body of a 503 response.
## Why did it go wrong?
{why}
## What should I do differently?
- Check the status first.
- Wait and retry on 5xx.
## Tactical rule candidate
{rule}
"""
RULE = "Always validate API response status before parsing the body."


def by_hand(why: str = "The body was parsed before its status was seen.", rule: str = RULE, title=TITLE):
    return FAILED.format(title=title, why=why, rule=rule)


@pytest.fixture
def journal(tmp_path) -> ReflectionJournal:
    return ReflectionJournal(tmp_path / "reflections")


def put(journal: ReflectionJournal, text: str, name: str = "2026-03-01-api-timeout-handling.md") -> None:
    folder = journal.folder / "researcher-agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")


# -- what is read ------------------------------------------------------------------------------------------------------


AS_SHOWN = [
    by_hand(),
    by_hand().replace("\n## ", "\n\n## "),
    by_hand().replace("?\n", "?\n\n").rstrip("\n"),
    by_hand().replace("\n", "\r\n"),
    by_hand().replace("## What happened?", "## **What happened?**"),
    by_hand().replace("## Why did it go wrong?", "## WHY DID IT GO WRONG:"),
    by_hand(title=TITLE.replace(" - ", " \N{EN DASH} ")),
    by_hand(title=TITLE.replace("2026-03-01 - researcher-agent", "[2026-03-01] - [Researcher Agent]")),
    "\ufeff\n\n" + by_hand(),
    by_hand(rule="Always validate API response status\nbefore parsing the body."),
]


def test_a_failed_task_as_the_seed_shows_it():
    for text in AS_SHOWN:
        read = from_markdown(text)
        assert (read.date.isoformat(), read.agent, read.summary) == (
            "2026-03-01",
            "researcher-agent",
            "Fetch the listings",
        )
        assert (read.reflection.outcome, read.reflection.lesson, len(read.reflection.fields)) == (
            "failed",
            RULE,
            5,
        )
        assert from_markdown(to_markdown(read)).reflection == read.reflection


OTHER_FORMS = [
    (TITLE, ("What happened?", "What went wrong?", "What should I do differently?"), "partial"),
    (TITLE.replace("Reflection", "Procedure"), ("Strategy", "Why it worked"), "success"),
    *(
        (
            TITLE.replace("Reflection", name),
            ("What was the decision?", "What alternatives existed?", "Why was this option chosen?"),
            "decision",
        )
        for name in ("Reflection", "Decision", "Decision Reflection")
    ),
]


def test_what_a_person_adds_below_the_data_belongs_to_the_last_field():
    stored = entry(partial(), id="1" * 32)
    read = from_markdown(to_markdown(stored) + "\nSeen again on page nine.\n")
    assert (read.id, read.source) == (stored.id, stored.source)
    last = stored.reflection.fields["do_differently"]
    assert read.reflection.fields["do_differently"].split() == f"{last} Seen again on page nine.".split()


def test_the_other_forms_as_the_seed_shows_them():
    for title, headings, outcome in OTHER_FORMS:
        text = "\n".join([title, *(f"## {heading}\nSomething to say." for heading in headings)])
        assert from_markdown(text).reflection.outcome == outcome


@table("marks", ["##", "###"])
@table(
    ("principle", "procedure"),
    [
        ("Look first.", "1. Ask.\n2. Look."),
        ("I should follow this rule: Look first.", "These steps worked: 1. Ask.\n2. Look."),
        ("I should follow this rule:\nLook\nfirst.", "These steps worked:\n\n1. Ask.\n2. Look."),
        ("I should follow this rule: Look first.", "These steps worked:\n- Ask.\n- Look."),
        ("Look first.", "These steps worked:\n  1) Ask.\n  2) Look."),
    ],
)
def test_principle_and_procedure_as_people_write_them(marks, principle, procedure):
    text = f"{by_hand()}\n{marks} Principle\n{principle}\n\n{marks} Procedure\n{procedure}\n"
    read = from_markdown(text).reflection
    assert read.principle == principle_of("Look first.")
    assert read.procedure == procedure_of(["Ask.", "Look."])


def test_a_step_may_go_on_in_the_next_line():
    text = f"{by_hand()}\n## Procedure\nThese steps worked:\n1. Ask for\n   the page.\n2. Look.\n"
    assert from_markdown(text).reflection.procedure == procedure_of(["Ask for the page.", "Look."])


WHYS = [
    ("Missing knowledge of the rate limit.", "knowledge"),
    ("- Bad input: the file was empty.", "input"),
    ("The upstream API was down (external failure).", "unclassified"),
    ("The API was down: an external failure.", "unclassified"),
    ("**Bad input**", "input"),
    ("WRONG STRATEGY", "strategy"),
    ("Wrong strategy, not bad input.", "strategy"),
    ("The root cause was a wrong strategy.", "unclassified"),
    # What is not plain stays unclassified: nothing is better than the opposite.
    ("The body was parsed before its status was seen.", "unclassified"),
    ("It was not bad input, but a wrong strategy.", "unclassified"),
    ("This was no external failure: we never asked.", "unclassified"),
    ("Either bad input, external failure, or something else.", "unclassified"),
    ("Our strategy for bad weather was missing.", "unclassified"),
    ("Falsche Strategie: zuerst geparst.", "unclassified"),
    ("状态码没有检查。", "unclassified"),
    ("Unclassified", "unclassified"),
]


def test_a_why_is_classified_where_it_is_plain():
    for why, cause in WHYS:
        read = from_markdown(by_hand(why)).reflection
        assert (read.fields["why"], cause_of(read.fields["why"])) == (why, cause)
        written = make_reflection("failed", {**FAILED_FIELDS, "why": why})
        assert cause_of(written.fields["why"]) == cause


async def test_a_reflection_whose_cause_has_no_class_is_kept_without_one():
    lacking = {**FAILED_FIELDS, "why": "it guessed"}
    for cause, why in (("the weather", "it guessed"), ("knowledge", f"{CAUSES['knowledge']}: it guessed")):
        made = await StructuredReflector(ScriptedModel([reply(lacking, cause=cause)]))(TASK, [trial()])
        assert made.fields["why"] == why


async def test_a_file_by_hand_is_recalled_for_its_task_and_for_what_it_names(journal):
    put(journal, by_hand(rule="Check the status of api.example.com/v1/listings first."))
    for task in (Task("Fetch the listings"), Task("GET https://api.example.com/v1/listings?page=2")):
        assert len((await ReflectionLibrary(journal).recall(task, k=3)).offered) == 1
    assert not (await ReflectionLibrary(journal).recall(Task("Pay the bill"), k=3)).offered


# -- what it pays ------------------------------------------------------------------------------------------------------


async def test_a_file_by_hand_pays_what_the_agent_owes(journal):
    policy = ReflectionPolicy(journal)
    put(journal, by_hand("it was there before the task ended"), "2026-02-01-older.md")
    for number in (1, 2):
        await policy.finished("researcher-agent", TASK, "failed", run_id="run-1", attempt=number)
    assert await policy.owed("researcher-agent")
    put(journal, by_hand())
    await policy.require("researcher-agent")  # both attempts: a person reflects on a task


async def test_a_file_by_hand_pays_for_the_task_in_its_title(journal):
    policy = ReflectionPolicy(journal)
    for name in ("First", "Second", "Fetch the listings"):
        await policy.finished("researcher-agent", Task(name), "failed", run_id=name, attempt=1)
    put(journal, by_hand())
    assert [duty.summary for duty in await policy.owed("researcher-agent")] == ["First", "Second"]
    put(journal, by_hand(title=TITLE.replace("Fetch the listings", "SECOND")), "2026-03-01-b.md")
    assert [duty.summary for duty in await policy.owed("researcher-agent")] == ["First"]
    await policy.finished(
        "researcher-agent", Task("Second"), "failed"
    )  # once more: it paid for the first time
    assert len(await policy.owed("researcher-agent")) == 2


async def test_the_short_form_by_hand_pays_for_a_partial_task_alone(journal):
    short = to_markdown(entry(partial())).split("<!--")[0]
    policy = ReflectionPolicy(journal)
    await policy.finished("researcher-agent", TASK, "failed", run_id="run-1", attempt=1)
    await policy.finished("researcher-agent", TASK, "partial", run_id="run-1", attempt=2)
    put(journal, short)
    assert [duty.outcome for duty in await policy.owed("researcher-agent")] == ["failed"]


async def test_a_file_that_can_not_be_read_pays_nothing_and_is_named(journal):
    policy = ReflectionPolicy(journal)
    await policy.finished("researcher-agent", TASK, "failed", run_id="run-1", attempt=1)
    put(journal, by_hand().replace("## What went wrong?", "## Whatever"))
    with pytest.raises(
        ReflectionOwedError, match=r"api-timeout-handling\.md can't be read: line 4: '## Whatever'"
    ):
        await policy.require("researcher-agent")
