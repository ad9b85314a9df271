"""Search and Lookup, over a question's paragraphs and over indexes."""

import pytest

from benchmarks.hotpotqa.environment import NO_MORE, NO_PAGE, Browser
from benchmarks.hotpotqa.pages import Pages
from benchmarks.hotpotqa.questions import Page, paragraphs_of
from jeeves_reflexion import ReAct, ScriptedModel, Session

pytestmark = pytest.mark.anyio
LONG = Page("Long", tuple(f" Sentence {n} of it." for n in range(1, 8)))


async def test_search_shows_the_first_five_sentences():
    said = await Browser(Pages([LONG])).search("long")
    assert said == " ".join(f"Sentence {n} of it." for n in range(1, 6))


async def test_search_without_a_page_shows_similar_titles(questions):
    browser = Browser(Pages(paragraphs_of(questions)["q-year"]))
    said = await browser.search("the restaurant Larkspur")
    assert said.startswith("Could not find [the restaurant Larkspur]. Similar: ['The Larkspur'")
    assert said.count("'") <= 10, "at most five of them"


async def test_lookup_steps_through_the_sentences_with_a_keyword():
    browser = Browser(Pages([LONG]))
    assert await browser.lookup("sentence") == NO_PAGE
    await browser.search("Long")
    assert await browser.lookup("SENTENCE") == "(Result 1 / 7) Sentence 1 of it."
    assert await browser.lookup("SENTENCE") == "(Result 2 / 7) Sentence 2 of it."
    assert await browser.lookup("7") == "(Result 1 / 1) Sentence 7 of it."
    assert await browser.lookup("7") == NO_MORE
    assert await browser.lookup("SENTENCE") == "(Result 1 / 7) Sentence 1 of it."  # begun anew


async def test_a_search_that_fails_closes_the_page():
    browser = Browser(Pages([LONG]))
    await browser.search("Long")
    await browser.search("Short")
    assert await browser.lookup("sentence") == NO_PAGE


async def test_the_framework_react_plays_it(questions):
    browser = Browser(Pages(paragraphs_of(questions)["q-year"]))
    model = ScriptedModel(
        [
            "Thought: a\nAction: Search[The Larkspur]",
            "Thought: b\nAction: Lookup[opened]",
            "Thought: c\nAction: Finish[1961]",
        ]
    )
    attempt = await ReAct(model, browser.tools(), max_turns=6)(questions[0].task.public(), Session())
    assert attempt.output == "1961"
    assert attempt.steps[1].observation == "(Result 1 / 1) It was opened by Odile Marchetti, a chef."


async def test_a_page_is_found_by_its_name_in_any_form(questions):
    pages = Pages(paragraphs_of(questions)["q-year"])
    assert pages.find("odile  MARCHETTI").title == "Odile Marchetti"
    assert pages.find("zyxw") is None
    assert pages.similar("zyxw") == []
