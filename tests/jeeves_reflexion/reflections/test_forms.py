"""Which reflection an outcome asks for, and what its form refuses: X01 to X05, X11, X12, X23 to X25."""

from __future__ import annotations

import json
import logging
import re

import pytest
from protocol_parts import (
    FAILED_FIELDS,
    PARTIAL_FIELDS,
    RULE,
    STEPS,
    SUCCESS_FIELDS,
    TASK,
    decision,
    failed,
    partial,
    record,
    reply,
    source,
    success,
    trial,
)
from tables import table

from jeeves_reflexion import Attempt, ConfigurationError, Evaluation, RunResult, ScriptedModel, Step, Trial
from jeeves_reflexion.errors import UnreadableReplyError
from jeeves_reflexion.reflections.forms import (
    FORMS,
    ReflectionFormError,
    cause_of,
    checked_form,
    make_reflection,
    outcome_of,
    principle_of,
    procedure_of,
    with_cause,
)
from jeeves_reflexion.reflections.journal import ReflectionJournal
from jeeves_reflexion.reflections.policy import ReflectionOwedError, ReflectionPolicy
from jeeves_reflexion.reflections.reflector import StructuredReflector
from jeeves_reflexion.text import read_prompt
from jeeves_reflexion.types import Reflection

pytestmark = pytest.mark.anyio


@pytest.fixture
def journal(tmp_path) -> ReflectionJournal:
    return ReflectionJournal(tmp_path / "reflections")


OUTCOMES = [
    ("failed", 5, "mandatory"),
    ("partial", 3, "mandatory"),
    ("success", 2, "optional"),
    ("decision", 3, "recommended"),
]


def test_the_table_of_outcomes():
    for outcome, fields, policy in OUTCOMES:
        assert (len(FORMS[outcome].fields), FORMS[outcome].policy) == (fields, policy)


async def test_x01_after_a_failed_task_no_other_until_the_full_reflection_is_stored(journal):
    policy = ReflectionPolicy(journal)
    assert not await policy.owed("researcher")
    await policy.finished("researcher", TASK, "failed", run_id="run-1", attempt=1)
    with pytest.raises(ReflectionOwedError, match=r"What happened\?.*Tactical rule candidate") as caught:
        await policy.require("researcher")
    assert [duty.outcome for duty in caught.value.owed] == ["failed"]
    assert not await policy.owed("writer")  # it is the agent's own debt

    record(journal, TASK, partial(), provenance=source("researcher"))  # the short form does not do
    assert await policy.owed("researcher")
    record(journal, TASK, failed(), provenance=source("researcher", run_id="another"))
    assert await policy.owed("researcher")
    record(journal, TASK, failed(), provenance=source("researcher"))
    await policy.require("researcher")
    assert await policy.owed("researcher") == ()


async def test_x01_without_runs_a_later_reflection_on_the_task_pays(journal):
    policy = ReflectionPolicy(journal)
    record(journal, TASK, failed(), provenance=source("a", run_id=""))  # written before the task ended
    await policy.finished("a", TASK, "failed")
    assert await policy.owed("a")
    record(journal, TASK, failed(), provenance=source("a", when=4e9, run_id=""))
    assert not await policy.owed("a")


async def test_x01_what_a_run_left_without_a_reflection_is_owed(journal):
    policy = ReflectionPolicy(journal)
    trials = (trial(0.0), trial(0.6, number=2), trial(None, number=3), trial(1.0, number=4, passed=True))
    result = RunResult("run-1", TASK, trials, "passed", {}, 0.0)
    record(journal, TASK, failed(), provenance=source("a"))
    owed = await policy.after(result, "a")
    assert [(duty.attempt, duty.outcome) for duty in owed] == [(2, "partial")]
    assert await policy.after(result, "a") == owed  # told twice, owed once


async def test_x02_after_a_partial_task_the_short_form_is_owed(journal):
    policy = ReflectionPolicy(journal)
    await policy.finished("a", TASK, "partial", run_id="run-1", attempt=1)
    assert await policy.owed("a")
    record(journal, TASK, partial(), provenance=source("a"))
    assert not await policy.owed("a")


async def test_x03_a_success_owes_nothing(journal):
    policy = ReflectionPolicy(journal)
    assert await policy.finished("a", TASK, "success") is None
    assert not await policy.owed("a")
    assert not journal.folder.exists()


async def test_x04_a_decision_without_its_reflection_is_only_a_warning(journal, caplog):
    policy = ReflectionPolicy(journal)
    duty = await policy.finished("a", TASK, "decision", run_id="run-1", attempt=1)
    assert duty is not None
    assert not duty.required
    with caplog.at_level(logging.WARNING, "jeeves_reflexion"):
        for _ in range(2):
            await policy.require("a")
    assert caplog.text.count("recommended") == 1
    caplog.clear()
    await policy.finished("a", TASK, "decision", run_id="run-1", attempt=1)
    record(journal, TASK, decision(), provenance=source("a"))
    await policy.require("a")
    assert caplog.text == ""


@table("form", FORMS.values())
async def test_x05_a_missing_field_is_refused_by_name(form, journal):
    whole = {"failed": FAILED_FIELDS, "partial": PARTIAL_FIELDS, "success": SUCCESS_FIELDS}.get(
        form.outcome, dict(decision().fields)
    )
    for field in form.fields:
        for gone in ({k: v for k, v in whole.items() if k != field.key}, {**whole, field.key: "  \n"}):
            with pytest.raises(ReflectionFormError, match=re.escape(field.heading)):
                make_reflection(form.outcome, gone)
            with pytest.raises(ReflectionFormError, match=re.escape(field.heading)):
                record(journal, TASK, Reflection("x", form.outcome, gone), provenance=source())
    assert not journal.folder.exists()  # nothing was written


def test_x05_a_field_of_another_form_is_refused():
    with pytest.raises(ReflectionFormError, match="strategy"):
        make_reflection("partial", {**PARTIAL_FIELDS, "strategy": "Go left."})
    with pytest.raises(ReflectionFormError, match="4001 characters"):
        make_reflection("partial", {**PARTIAL_FIELDS, "what_happened": "x" * 4001})
    with pytest.raises(ReflectionFormError, match="no form"):
        checked_form(Reflection("x", "great"))  # type: ignore[arg-type]


async def test_x05_the_reflector_asks_once_more_and_names_the_field():
    lacking = {key: text for key, text in FAILED_FIELDS.items() if key != "what_went_wrong"}
    model = ScriptedModel([reply(lacking), reply()])
    reflection = await StructuredReflector(model)(TASK, [trial()])
    assert reflection.fields == FAILED_FIELDS
    assert reflection.lesson == FAILED_FIELDS["tactical_rule"]
    assert reflection.usage.calls == 2
    assert "'What went wrong?' (what_went_wrong) is missing" in model.calls[1].messages[-1].content

    with pytest.raises(UnreadableReplyError, match="What went wrong"):
        await StructuredReflector(ScriptedModel([reply(lacking)] * 2))(TASK, [trial()])
    asked = ScriptedModel([reply(lacking)])  # the loop has asked before: once is enough
    with pytest.raises(UnreadableReplyError, match="What went wrong"):
        await StructuredReflector(asked)(TASK, [trial()], problem="it is too long")
    assert "it is too long" in asked.calls[0].messages[1].content


@table("outcome", list(FORMS))
def test_x11_the_prompts_ask_for_each_field(outcome):
    prompt = read_prompt(None, "jeeves_reflexion.reflections", f"{outcome}.md")
    assert all(f'"{key}"' in prompt for key in FORMS[outcome].keys)
    assert ("facts" in prompt) == (outcome in ("failed", "partial"))
    if outcome == "failed":
        assert "which step, which tool, which input" in prompt
        assert all(f'"{cause}"' in prompt for cause in ("strategy", "input", "knowledge", "external"))


CAUSES_SAID = [
    ("Wrong strategy: it guessed.", "strategy"),
    ("bad input - the file was empty", "input"),
    ("**Missing knowledge**: nobody said so", "knowledge"),
    ("External failure. The service was down.", "external"),
    ("external", "unclassified"),
    ("The strategy was wrong", "unclassified"),
    ("bad luck: it rained", "unclassified"),
    ("strategyless: no", "unclassified"),
]


def test_x11_a_cause_is_one_of_four_classes_or_unclassified():
    for text, cause in CAUSES_SAID:
        assert cause_of(text) == cause
        assert cause_of(make_reflection("failed", {**FAILED_FIELDS, "why": text}).fields["why"]) == cause


def test_x11_the_class_is_written_in_the_forms_own_words():
    for said in (
        "strategy",
        '"strategy"',
        "`strategy`",
        "**Wrong strategy**",
        "- wrong strategy",
        "[strategy]",
    ):
        assert with_cause("it guessed", said) == "Wrong strategy: it guessed"
    for why in ('"Wrong strategy": it guessed', "[Wrong strategy] it guessed", "(wrong strategy) it guessed"):
        assert with_cause(why, "input") == why
    assert with_cause("bad input - it was empty", "strategy") == "bad input - it was empty"
    assert with_cause("it rained", "the weather") == "it rained"


NO_RULES = [
    "Look first. Then parse.",
    "Look first\nthen parse",
    "x" * 501,
    "!!!",
    "- one\n- two",
]


async def test_x12_a_tactical_rule_is_one_sentence():
    for rule in NO_RULES:
        with pytest.raises(ReflectionFormError, match=r"Tactical rule candidate.*one sentence"):
            failed(tactical_rule=rule)
        model = ScriptedModel([reply({**FAILED_FIELDS, "tactical_rule": rule}), reply()])
        assert (await StructuredReflector(model)(TASK, [trial()])).lesson == FAILED_FIELDS["tactical_rule"]
        assert "must be one sentence" in model.calls[1].messages[-1].content


def test_x12_one_sentence_may_have_abbreviations_and_numbers():
    for rule in ("Use e.g. version 1.2.3 of the API.", "Check that x is 3.5 (cf. the manual), then go on"):
        assert failed(tactical_rule=rule).lesson == rule


PRINCIPLES = [
    RULE,
    f"  {RULE}\n",
    f"I should follow this rule: {RULE}",
    f"i should follow this rule:{RULE}",
]


def test_x23_a_principle_has_its_form():
    for rule in PRINCIPLES:
        made = principle_of(rule)
        assert made.removeprefix("I should follow this rule: ") == RULE


def test_x23_what_is_not_one_sentence_is_refused():
    for text in (
        "I should follow this rule: One. Two.",
        "I should follow this rule: ",
    ):
        reflection = Reflection("x", "failed", FAILED_FIELDS, principle=text)
        with pytest.raises(ReflectionFormError, match="principle"):
            checked_form(reflection)


def test_x24_a_procedure_is_a_list_numbered_from_1():
    made = procedure_of(["1. Ask.", "  - Look\nclosely.", "", "7) Parse."])
    assert made == "These steps worked: 1. Ask.\n2. Look closely.\n3. Parse."
    assert re.fullmatch(r"These steps worked: 1\. .+(\n\d+\. .+)*", made)
    for text in (
        "These steps worked: 2) Ask.\n- Look\nclosely.\n3. Parse.",
        "- Ask.\n- Look closely.\n- Parse.",
    ):
        written = Reflection("x", "failed", FAILED_FIELDS, procedure=text)
        assert checked_form(written).procedure == made
    for text in ("These steps worked: ", "\n".join(f"{n}. Go on." for n in range(1, 32))):
        with pytest.raises(ReflectionFormError, match="procedure"):
            checked_form(Reflection("x", "failed", FAILED_FIELDS, procedure=text))


async def test_x25_principle_and_procedure_only_for_what_is_important():
    async def made(text: str, last: Trial) -> tuple[str | None, str | None]:
        reflection = await StructuredReflector(ScriptedModel([text]))(TASK, [last])
        return reflection.principle, reflection.procedure

    mars = {"rule": RULE, "steps": list(STEPS)}
    both = (principle_of(RULE), procedure_of(STEPS))
    assert await made(reply(important=True, **mars), trial()) == both
    assert await made(reply(important=False, **mars), trial()) == (None, None)  # a slip
    assert await made(reply(PARTIAL_FIELDS, important=True, **mars), trial(0.6)) == (
        None,
        None,
    )  # a minor partial
    assert await made(reply(SUCCESS_FIELDS, important=True, **mars), trial(1.0, passed=True)) == both
    assert await made(reply(SUCCESS_FIELDS, **mars), trial(1.0, passed=True)) == (None, None)
    with pytest.raises(ReflectionFormError, match="partial reflection has no principle"):
        make_reflection("partial", PARTIAL_FIELDS, rule=RULE)
    for outcome, fields, wanted in (("failed", None, "principle"), ("success", SUCCESS_FIELDS, "procedure")):
        with pytest.raises(UnreadableReplyError, match=f"the {wanted}"):
            await made_twice(reply(fields, important=True), outcome)


async def made_twice(text: str, outcome: str) -> None:
    await StructuredReflector(ScriptedModel([text] * 2))(TASK, [trial(passed=outcome == "success")])


async def test_a_decision_is_reflected_on_by_request():
    fields = dict(decision().fields)
    model = ScriptedModel([json.dumps({**fields, "important": True, "rule": RULE, "steps": []})])
    made = await StructuredReflector(model).decide(TASK, "use the API, do not scrape: it is allowed")
    assert (made.outcome, made.fields, made.principle) == ("decision", fields, principle_of(RULE))
    assert made.lesson == "Use the API: It is allowed and it is stable."
    assert "use the API, do not scrape" in model.calls[0].messages[1].content


VERDICTS = [
    (0.0, False, "failed"),
    (0.49, False, "failed"),
    (0.5, False, "partial"),
    (None, False, "failed"),
    (0.3, True, "success"),
]


def test_which_form_a_verdict_asks_for():
    for score, passed, outcome in VERDICTS:
        assert outcome_of(Evaluation(score), passed=passed) == outcome


async def test_prose_under_headings_is_read_too():
    text = "\n".join(
        [
            "<think>hm</think>Here it is:",
            "## What happened?",
            FAILED_FIELDS["what_happened"],
            "**What went wrong?** " + FAILED_FIELDS["what_went_wrong"],
            "3. Why did it go wrong?",
            FAILED_FIELDS["why"],
            "What should I do differently: " + FAILED_FIELDS["do_differently"],
            "### Tactical rule candidate",
            "",
            FAILED_FIELDS["tactical_rule"],
            "Systemic: yes",
            f"Principle: {RULE}",
            "Procedure:",
            *(f"{number}. {step}" for number, step in enumerate(STEPS, 1)),
            "Evidence: steps 2 and 9",
        ]
    )
    last = Trial(1, Attempt("x", (Step("a"), Step("b"))), Evaluation(0.1))
    reflection = await StructuredReflector(ScriptedModel([text]))(TASK, [last])
    assert reflection.fields == FAILED_FIELDS
    assert (reflection.principle, reflection.procedure) == (principle_of(RULE), procedure_of(STEPS))
    assert reflection.evidence == (2,)  # there was no step 9


BESIDE_THE_FORM = {
    "twice": "{0}\n\n{0}",
    "below a word of the form": "**Evidence:** see the steps.\n```json\n{0}\n```",
    "below another": "Procedure:\n```json\n{0}\n```",
    "above one": "```json\n{0}\n```\n\nRule:\nnone",
}


@table("form", BESIDE_THE_FORM)
async def test_a_form_in_json_counts_whatever_stands_beside_it(form):
    told = json.dumps(json.loads(reply(important=False, rule="", steps=[])), indent=1)
    model = ScriptedModel([BESIDE_THE_FORM[form].format(told)])
    made = await StructuredReflector(model)(TASK, [trial()])
    assert (made.fields, made.principle) == (failed().fields, None)


async def test_members_of_json_that_can_not_be_read_are_no_headings():
    told = json.dumps(json.loads(reply(important=False, rule="", steps=[])), indent=1)
    other = told.replace(FAILED_FIELDS["tactical_rule"], "Ask first.")
    for text in (told[: told.index('"important"')], f"{told}\nOr so:\n{other}"):
        with pytest.raises(UnreadableReplyError, match="What happened"):
            await made_twice(text, "failed")


async def test_a_form_that_says_that_there_is_no_lesson_teaches_none():
    for said in ("N/A", "None.", "Keine.", "I'm sorry, but I can't help with that."):
        model = ScriptedModel([reply({**FAILED_FIELDS, "tactical_rule": said}), reply()])
        made = await StructuredReflector(model)(TASK, [trial()])
        assert made.lesson == FAILED_FIELDS["tactical_rule"]
        assert "no lesson" in model.calls[1].messages[-1].content


async def test_what_can_not_work_is_refused():
    with pytest.raises(ConfigurationError, match="at least one trial"):
        await StructuredReflector(ScriptedModel([]))(TASK, [])
    with pytest.raises(UnreadableReplyError, match=r"What happened\?"):
        await StructuredReflector(ScriptedModel(["I can't.", "{not json"]))(TASK, [trial()])


def test_the_lesson_is_the_forms_own_sentence():
    assert success().lesson == SUCCESS_FIELDS["strategy"]
    two = {**PARTIAL_FIELDS, "do_differently": "- Wait a second.\n- Then ask again."}
    assert make_reflection("partial", two).lesson == "Wait a second."
