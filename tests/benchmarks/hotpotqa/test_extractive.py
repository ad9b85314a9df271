"""The offline agent, its lessons and its reflector."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hotpotqa.extractive import LESSONS_BLOCK, READ, USED, ExtractiveAgent
from benchmarks.hotpotqa.failures import PagesError
from benchmarks.hotpotqa.lesson_words import is_refused, read_lessons, write_lesson
from benchmarks.hotpotqa.pages import own_pages, shared_pages
from benchmarks.hotpotqa.questions import Page, paragraphs_of
from benchmarks.hotpotqa.reader import choose
from benchmarks.hotpotqa.rules_reflector import faults, judge_by_rules, write_reflection
from benchmarks.hotpotqa.spans import names, spans
from benchmarks.hotpotqa.wording import KINDS, PHRASES, wanted, wording_of
from jeeves_reflexion import Attempt, ConfigurationError, Evaluation, Session, Task, Trial
from jeeves_reflexion.lessons.gate import shape_problem
from jeeves_reflexion.text import bullets

YEAR = "In what year was the chef who opened The Larkspur born?"
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=50)
QUESTIONS = TEXTS.filter(lambda text: any(character.isalpha() for character in text))


def session_with(*lessons):
    return Session().for_attempt(1, {LESSONS_BLOCK: bullets(lessons)})


def test_wordings_and_the_kinds_that_they_want():
    for question, wording, kind in [
        (YEAR, "what year", "year"),
        ("Are both Coldplay and Pierre Bouvier from the same country?", "are ...", "yes_no"),
        ("Is Velvetpark or Shape written more for women?", "is ... or", "option"),
        ("Are both Lygodium or Maxillaria orchids?", "are ...", "yes_no"),
        ("Which of Jonny Craig and Pete Doherty has more bands?", "which ... or", "option"),
        ("Who was born first, Lucie Hradecká or Raffaella Reggi?", "who ... or", "option"),
        ("The 1984 song was covered by what Lyric Street Records-affiliated band?", "what band", "name"),
        ("Ed plays Tyler in a film directed by which famous director?", "which director", "person"),
        ("The actress who played Ada was born in what county?", "what county", "place"),
        ("How many schools does the university have?", "how many", "number"),
        ("What is Opry Mills?", "what ...", None),
        ("Name the town.", "no question word", None),
    ]:
        assert (wording_of(question), wanted(wording_of(question))) == (wording, kind)


def test_spans_of_a_sentence():
    found = {
        (span.text, span.shape)
        for span in spans("In May 1961 Ada Holt moved to Bath, Maine, with three cats.")
    }
    assert {
        ("1961", "year"),
        ("Ada Holt", "name"),
        ("Bath, Maine", "place_pair"),
        ("three", "number"),
    } <= found
    assert names('The band Creed played "Human Clay" on 2 March 1999.') == ["Creed", "Human Clay"]


@given(st.text(max_size=200))
def test_any_text_has_spans_that_stand_in_it(text):
    for span in spans(text):
        assert text[span.start :].startswith(span.text)


@given(QUESTIONS, st.lists(TEXTS, max_size=4), TEXTS, st.sampled_from([None, *KINDS]))
def test_what_a_lesson_says_is_read_again(question, refused, page, kind):
    advice = read_lessons(question, [write_lesson(question, kind=kind, refused=refused, page=page)])
    assert advice.kind == kind
    assert all(is_refused(answer, advice) for answer in refused if any(c.isalnum() for c in answer[:60]))
    assert len(advice.pages) == any(c.isalnum() for c in page) or not any(c.isalnum() for c in page)


@given(QUESTIONS, st.lists(TEXTS, max_size=4), TEXTS)
def test_a_lesson_is_one_sentence(question, refused, page):
    problem = shape_problem(write_lesson(question, kind="year", refused=refused, page=page))
    assert problem is None or "500" in problem


def test_a_lesson_on_another_question_tells_its_wording_and_no_more():
    lesson = write_lesson(YEAR, kind="year", refused=["Tamsin"], page="Odile Marchetti")
    other = read_lessons("In what year was Gordon & Reed founded?", [lesson])
    assert (other.kind, other.refused, other.pages, other.used) == ("year", frozenset(), (), (lesson,))
    assert read_lessons("Who founded Gordon & Reed?", [lesson]).used == ()
    own = read_lessons(YEAR, [lesson])
    assert (own.kind, own.refused, own.pages) == ("year", {"tamsin"}, ("Odile Marchetti",))


def test_what_is_told_in_other_words_is_not_read_as_its_opposite():
    for told in [
        'do not read "Odile Marchetti" as well',
        'never read "Odile Marchetti" as well',
        'it is not so that the answer is not "Tamsin"',
        'the answer is not "Tamsin", so do not read "Odile Marchetti" as well',
        'read "Odile Marchetti" as well as nothing',
        'the answer is not "Tamsin" but a year',
    ]:
        advice = read_lessons(YEAR, [f'For "{YEAR[:-1]}" {told}.'])
        assert (advice.refused, advice.pages, advice.used) == (frozenset(), (), ())


@pytest.mark.anyio
async def test_the_agent_answers_with_what_it_reads_and_lessons_change_the_answer(questions):
    agent = ExtractiveAgent(own_pages(paragraphs_of(questions)))
    task = questions[2].task.public()
    without = await agent(task, Session(attempt=1))
    assert without.output != "1912"
    lesson = write_lesson(YEAR, kind="year")
    with_lesson = await agent(task, session_with(lesson))
    assert with_lesson.output == "1912"
    assert with_lesson.metadata[USED] == [lesson]
    assert "Gordon & Reed" in with_lesson.metadata[READ]
    assert with_lesson.steps[-1].action == "Finish[1912]"
    assert len(with_lesson.steps) <= 6


@pytest.mark.anyio
async def test_yes_no_questions_are_answered_once_a_lesson_says_so(questions):
    agent = ExtractiveAgent(own_pages(paragraphs_of(questions)))
    lesson = write_lesson(questions[1].text, kind="yes_no")
    answers = [
        (await agent(q.task.public(), session_with(lesson))).output for q in (questions[1], questions[3])
    ]
    assert answers == ["yes", "no"]
    refused = write_lesson(questions[1].text, kind="yes_no", refused=["yes"])
    assert (await agent(questions[1].task.public(), session_with(refused))).output == "no"


@pytest.mark.anyio
async def test_the_agent_is_the_same_for_the_same_seed_and_attempt(sample):
    agent = [ExtractiveAgent(own_pages(paragraphs_of(sample)), seed=seed) for seed in (0, 0, 1)]
    said = [[(await each(q.task.public(), Session(attempt=1))).output for q in sample[:15]] for each in agent]
    assert said[0] == said[1] != said[2]


def test_options_are_compared_by_years():
    pages = [Page("Ada", ("Ada was born in 1950.",)), Page("Bo (singer)", ("Bo was born in 1940.",))]
    advice = read_lessons(
        "Who was born first, Ada or Bo?", [write_lesson("Who first, Ada or Bo?", kind="option")]
    )
    assert choose("Who was born first, Ada or Bo?", pages, advice, random.Random(0)).answer == "Bo"


def test_nothing_read_is_no_answer():
    assert choose(YEAR, [], read_lessons(YEAR, []), random.Random(0)).answer == ""


def test_a_step_limit_without_room_to_search_is_refused():
    with pytest.raises(ConfigurationError, match="at least 2"):
        ExtractiveAgent(own_pages({}), step_limit=1)


@pytest.mark.anyio
async def test_the_reflection_names_the_kind_the_refused_answers_and_a_page(questions):
    agent = ExtractiveAgent(own_pages(paragraphs_of(questions)))
    task = questions[0].task.public()
    trials = [
        Trial(
            n,
            Attempt(out, metadata={"pages_read": ["A"], "titles_seen": ["A", "The Larkspur"]}),
            Evaluation(0.0),
        )
        for n, out in ((1, "Tamsin"), (2, "Bram Holt"))
    ]
    lesson = write_reflection(task, trials).lesson
    assert lesson == (
        f'When a question asks "what year", answer with {PHRASES["year"]}; for "{YEAR[:-1]}" the answer is not "Tamsin"'
        ' or "Bram Holt", so read "The Larkspur" as well.'
    )
    assert shape_problem(lesson) is None
    attempt = await agent(task, session_with(lesson))
    assert attempt.output == "1961"


def test_faults_are_seen_without_the_gold_answer():
    for question, answer, fine in [
        (YEAR, "1961", True),
        (YEAR, "Tamsin", False),
        (YEAR, "", False),
        ("Are both A and B towns?", "yes", True),
        ("Are both A and B towns?", "Tamsin", False),
        ("Which band is from Tamsin?", "Tamsin", False),
    ]:
        assert (faults(question, Attempt(answer)) == []) is fine


@pytest.mark.anyio
async def test_the_offline_self_judge_never_sees_gold():
    verdict = await judge_by_rules(Task(YEAR, reference="1961"), Attempt("1984"))
    assert verdict.passed
    assert not (await judge_by_rules(Task(YEAR), Attempt("1984", interrupted="max_turns"))).passed


def test_the_reflector_writes_one_sentence_for_each_question_of_the_sample(sample):
    for question in sample:
        trial = Trial(1, Attempt(question.pages[0].title), Evaluation(0.0))
        lesson = write_reflection(question.task.public(), [trial]).lesson
        assert shape_problem(lesson) is None, lesson


def test_without_a_known_kind_a_lesson_is_on_its_question_alone():
    lesson = write_lesson("What is Opry Mills?", kind=None, refused=["Tamsin"], page="Bram Holt")
    assert lesson == 'For "What is Opry Mills" the answer is not "Tamsin", so read "Bram Holt" as well.'
    assert read_lessons("What is Opry Mills?", [lesson]).refused == {"tamsin"}
    assert read_lessons("What is Tamsin?", [lesson]).used == ()
    assert shape_problem(write_lesson("What?", kind=None)) is None


@pytest.mark.anyio
async def test_pages_that_fail_make_the_attempt_an_error():
    class Broken:
        async def find(self, name):
            raise PagesError("no connection")

    attempt = await ExtractiveAgent(shared_pages(Broken()))(Task(YEAR), Session())
    assert (attempt.output, attempt.error) == ("", "PagesError: no connection")
