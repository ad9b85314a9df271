"""What becomes of a newcomer: merged, linked or kept."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.deciding import copies_near, decide, unsettled
from jeeves_reflexion.lessons.merging import (
    COPIES,
    COPIES_TOTAL,
    MERGED_INTO,
    TASKS,
    WORDINGS,
    MergeSettings,
    absorbed,
    joined,
    linked,
    wordings,
)
from jeeves_reflexion.lessons.sameness import SLIP_IN, Neighbour, interleaved, one_lesson, told_apart
from jeeves_reflexion.types import Lesson, Provenance

DRAWER = "Open the drawer first when you enter the room."
PASSIVE = "The drawer must be opened first when you enter the room."


def lesson(id, text=DRAWER, *, run=None, task="t1", agent=None, at=0.0, **fields):
    source = Provenance(run or f"run-{id}", 1, 0.0, agent=agent, created_at=at)
    return Lesson(id, text, task, f"excerpt of {task}", source, **fields)


def near(stored, similarity=0.9, task=1.0):
    return Neighbour(stored, similarity, task)


def test_a_copy_is_merged_and_the_words_that_earned_the_credit_stay():
    done = decide(lesson("b", PASSIVE), [near(lesson("a"))])
    assert (done.kind, done.lesson.id, done.lesson.text, done.lesson.support) == ("merge", "a", DRAWER, 2)
    assert not done.keeps_task
    assert not done.rewrites
    (note,) = done.lesson.metadata[COPIES]
    assert (note["run_id"], note["text"]) == ("run-b", PASSIVE)


def test_one_that_says_much_more_is_a_copy_by_a_wording_of_the_same_words_alone():
    short = "Call the orders endpoint with a GET request."
    more = "Use the orders endpoint with a GET request and put the number of the customer in the path."
    other = "The path of a GET request to the orders endpoint takes the number of the customer."
    stored = lesson("a", short)
    assert decide(lesson("b", more), [near(stored)]).kind == "new"
    stored = replace(stored, metadata={WORDINGS: [more]})
    assert decide(lesson("b", more.lower()), [near(stored)]).kind == "merge"
    assert (
        decide(lesson("b", more.replace("orders endpoint", "users endpoint")), [near(stored)]).kind == "new"
    )
    kept = lesson("b", other, metadata={WORDINGS: [more.upper()]})
    assert decide(kept, [near(stored)]).kind == "merge"
    assert decide(replace(kept, metadata={}), [near(stored)]).kind == "new"


SAYINGS = (
    DRAWER,
    PASSIVE,
    "Do not open the drawer first when you enter the room.",
    "Open drawer 2 first when you enter the room.",
    "Wash the mug in the sink before you carry it.",
)
_neighbours = st.tuples(
    st.sampled_from(SAYINGS),
    st.sampled_from(["t1", "t2"]),
    st.sampled_from([0.1, 0.6, 0.9]),
    st.floats(-1, 1),
)


@given(st.sampled_from(SAYINGS), st.lists(_neighbours, max_size=5))
def test_what_is_decided_depends_on_no_other_task_than_the_unsettled_ones(text, described):
    newcomer = lesson("new", text)
    known = [
        near(lesson(f"n{number}", said, task=task), similarity, by_task)
        for number, (said, task, similarity, by_task) in enumerate(described)
    ]
    asked = unsettled(newcomer, [replace(each, task_similarity=None) for each in known])
    found = [each if each.lesson.id in asked else replace(each, task_similarity=None) for each in known]
    assert decide(newcomer, found) == decide(newcomer, known)
    assert all(each.lesson.task_id != "t1" for each in known if each.lesson.id in asked)


@pytest.mark.parametrize(
    "text",
    [
        "Do not open the drawer first when you enter the room.",
        "Open drawer 2 first when you enter the room.",
        "Close the drawer first when you enter the room.",
        "Open the cupboard first when you enter the room.",
    ],
)
def test_near_pairs_stay_apart_however_similar_their_vectors(text):
    assert decide(lesson("b", text), [near(lesson("a"), 1.0)]).kind != "merge"


def test_opposite_advice_is_linked_and_both_stay():
    done = decide(lesson("b", "Never open the drawer first when you enter the room."), [near(lesson("a"))])
    assert (done.kind, done.others, done.lesson.contradicts) == ("link", ("a",), ("a",))
    assert linked(lesson("a"), "b").contradicts == ("b",)
    assert linked(linked(lesson("a"), "b"), "b") == linked(lesson("a"), "b")


def test_opposite_advice_on_another_task_is_no_contradiction():
    newcomer = lesson("b", "Never open the drawer first when you enter the room.", task="t2")
    assert decide(newcomer, [near(lesson("a"), task=0.2)]).kind == "new"


def test_far_vectors_are_never_merged_and_nothing_near_is_new():
    assert decide(lesson("b", PASSIVE), [near(lesson("a"), 0.1)]).kind == "new"
    done = decide(lesson("b"), [])
    assert (done.kind, done.lesson) == ("new", lesson("b"))


def test_a_copy_from_another_task_keeps_its_task_as_a_key_until_there_are_too_many():
    stored = lesson("a")
    settings = MergeSettings(tasks=3)
    for n in (2, 3):
        done = decide(lesson(f"b{n}", task=f"t{n}"), [near(stored, task=0.3)], settings)
        assert (done.kind, done.keeps_task) == ("merge", True)
        stored = done.lesson
    assert stored.metadata[TASKS] == ["t2", "t3"]
    assert decide(lesson("c", task="t4"), [near(stored, task=0.3)], settings).kind == "new"
    known = decide(lesson("d", task="t3"), [near(stored, task=0.3)], settings)
    assert (known.kind, known.keeps_task) == ("merge", False)


@pytest.mark.parametrize("other", [{"task_kind": "clean"}, {"agent": "ann"}])
def test_what_recall_may_be_narrowed_by_is_not_merged_across(other):
    assert decide(lesson("b", **other), [near(lesson("a"))]).kind == "new"


def test_the_same_evidence_counts_once():
    first = decide(lesson("b", PASSIVE, run="r"), [near(lesson("a"))]).lesson
    again = decide(lesson("c", PASSIVE, run="r"), [near(first)])
    assert (again.kind, again.lesson) == ("merge", first)


def test_an_outsider_adds_no_support_and_no_words():
    done = decide(lesson("b", PASSIVE, trust="imported", support=99), [near(lesson("a"))])
    assert (done.lesson.support, done.lesson.text, done.lesson.trust) == (1, DRAWER, "own")


@pytest.mark.parametrize(
    ("trust", "state"), [("own", "active"), ("shared", "proposed"), ("imported", "proposed")]
)
def test_only_one_who_is_trusted_as_much_lets_a_proposed_lesson_in(trust, state):
    done = decide(lesson("b", PASSIVE, trust=trust), [near(lesson("a", state="proposed"))])
    assert (done.kind, done.lesson.state) == ("merge", state)


def test_our_own_words_replace_imported_ones_and_bring_their_own_support():
    held = lesson("a", PASSIVE, trust="imported", support=99, state="proposed")
    done = decide(lesson("b"), [near(held)])
    found = done.lesson
    assert (found.id, found.text, found.trust, found.support, found.state) == (
        "a",
        DRAWER,
        "own",
        1,
        "active",
    )
    assert done.rewrites
    assert PASSIVE in [note["text"] for note in found.metadata[COPIES]]


def test_a_retired_lesson_takes_its_copies_in_and_stays_retired():
    done = decide(lesson("b"), [near(lesson("a", state="retired", state_reason="harms"))])
    assert (done.kind, done.lesson.state, done.lesson.state_reason) == ("merge", "retired", "harms")


def test_what_was_merged_away_takes_in_nothing():
    gone = lesson("a", state="retired", metadata={MERGED_INTO: "z"})
    assert decide(lesson("b"), [near(gone)]).kind == "new"


def test_a_kept_wording_finds_what_the_text_does_not():
    stored = lesson(
        "a", "Return the sum of the totals.", metadata={"wordings": ["Emit the sum of the totals."]}
    )
    newcomer = lesson("b", "The sum of the totals must be emitted.")
    assert decide(newcomer, [near(stored, 0.6)]).kind == "merge"
    assert decide(newcomer, [near(replace(stored, metadata={}), 0.6)]).kind == "new"


def test_settings_out_of_range_are_refused():
    for wrong in ({"min_similarity": 2.0}, {"min_likeness": -0.1}, {"tasks": 0}, {"wordings": -1}):
        with pytest.raises(ConfigurationError):
            MergeSettings(**wrong)


texts = st.sampled_from(
    [DRAWER, PASSIVE, "First, open the drawer when you enter the room.", "Sell the old car."]
)


@given(st.lists(texts, min_size=1, max_size=30))
def test_what_is_kept_of_copies_is_bounded_and_counted(copies):
    settings = MergeSettings(copies=3, wordings=2)
    stored = lesson("a")
    for n, text in enumerate(copies):
        stored = absorbed(stored, lesson(f"b{n}", text), another_task=False, settings=settings)
    assert len(stored.metadata[COPIES]) == min(3, len(copies))
    assert stored.metadata[COPIES_TOTAL] == len(copies)
    assert stored.support == len(copies) + 1
    assert len(wordings(stored)) <= 2


def test_more_advice_is_not_swallowed_by_less():
    longer = lesson("b", DRAWER.rstrip(".") + ", then look behind the curtain and under the carpet.")
    assert decide(longer, [near(lesson("a"), 0.99)]).kind == "new"
    assert decide(lesson("a"), [near(longer, 0.99)]).kind == "new"


def test_one_unknown_word_stands_for_another_only_where_that_is_asked_for():
    pencil, mug = (
        "Examine the pencil under the desklamp of desk 1.",
        "Examine the mug under the desklamp of desk 1.",
    )
    assert decide(lesson("b", mug), [near(lesson("a", pencil), 0.99)]).kind == "new"
    lax = MergeSettings(sure_similarity=0.9)
    assert decide(lesson("b", mug), [near(lesson("a", pencil), 0.99)], lax).kind == "merge"


def test_a_lesson_that_says_which_one_is_kept_unless_that_is_asked_for():
    api, old = "Use the API for the export.", "Use the old API for the export."
    assert decide(lesson("b", old), [near(lesson("a", api))]).kind == "new"
    assert decide(lesson("b", api), [near(lesson("a", old))]).kind == "new"
    assert decide(lesson("b", old), [near(lesson("a", api))], MergeSettings(max_within=1)).kind == "merge"


def test_a_slip_that_is_a_word_merges_into_what_was_learned_fifty_times_as_often():
    heat, hate = "Heat the egg in the pan.", "Hate the egg in the pan."
    for support, kind in ((SLIP_IN, "merge"), (SLIP_IN - 1, "new")):
        known = replace(lesson("a", heat), support=support)
        assert decide(lesson("b", hate), [near(known)]).kind == kind
        assert unsettled(lesson("b", hate, task="other"), [near(known)]) == (
            ("a",) if kind == "merge" else ()
        )


def test_wordings_that_repeat_one_another_are_kept_once():
    kept = lesson("a", "Open the drawer first.")
    for number, text in enumerate(("OPEN THE DRAWER FIRST!", "Open the drawwer first.")):
        kept = absorbed(kept, replace(lesson(f"c{number}", text)), another_task=False)
    assert wordings(kept) == ()


BEANS = "Soak the beans overnight before you cook."
LENTILS = "Soak the lentils overnight before you cook."
THEM = "Soak them overnight before you cook."


def test_a_wording_that_lacks_what_two_lessons_differ_in_is_no_bridge_between_them():
    kept = decide(lesson("b", THEM), [near(lesson("a", BEANS))]).lesson
    assert wordings(kept) == (THEM,)
    assert decide(lesson("c", LENTILS), [near(kept)]).kind == "new"
    assert decide(lesson("c", BEANS.upper()), [near(kept)]).kind == "merge"


def test_of_two_that_add_different_things_to_a_lesson_only_the_first_is_merged_into_it():
    kept = decide(lesson("b", BEANS), [near(lesson("a", THEM))]).lesson
    assert kept.id == "a"
    assert decide(lesson("c", LENTILS), [near(kept)]).kind == "new"
    assert told_apart(kept, lesson("c", LENTILS))
    assert not told_apart(kept, lesson("c", THEM))


def test_stored_lessons_whose_wordings_are_told_apart_are_not_one_for_what_both_share():
    one = lesson("a", THEM, metadata={WORDINGS: [BEANS]})
    other = lesson("b", THEM.replace("them", "those"), metadata={WORDINGS: [LENTILS]})
    assert not one_lesson(one, other)
    assert copies_near(one, [other]) == ()
    assert one_lesson(one, replace(other, metadata={WORDINGS: [BEANS.upper()]}))


@pytest.mark.parametrize(
    "change",
    [
        {"trust": "shared"},
        {"contradicts": ("a",)},
        {"state": "retired"},
        {"state": "proposed"},
        {"task_kind": "other"},
        {"metadata": {MERGED_INTO: "c"}, "state": "retired"},
        {"text": "Do not open the drawer first when you enter the room."},
        {"text": "Open drawer 2 first when you enter the room."},
        {"text": "Open the old drawer first when you enter the room."},
    ],
)
def test_of_stored_lessons_only_active_copies_of_the_same_trust_and_scope_are_joined(change):
    assert copies_near(lesson("a"), [lesson("b", PASSIVE)]) != ()
    other = replace(lesson("b", PASSIVE), **change)
    assert copies_near(lesson("a"), [other]) == ()
    assert copies_near(other, [lesson("a")]) == ()


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=6),
    st.integers(0, 3),
)
def test_joining_adds_supports_up_and_counts_an_attempt_that_both_know_once(supports, shared):
    lessons = [lesson(f"l{n}", support=support) for n, support in enumerate(supports)]
    kept = lessons[0]
    for other in lessons[1:]:
        kept = joined(kept, other, another_task=False)
    assert kept.support == sum(supports)
    assert (kept.id, kept.text, kept.metadata[COPIES_TOTAL]) == ("l0", DRAWER, len(supports) - 1)
    notes = [
        {**note, "run_id": f"again {n}"} for n, note in enumerate(list(kept.metadata[COPIES])[:1] * shared)
    ]
    one = lesson("one", support=9, metadata={COPIES: notes})
    other = lesson("other", support=7, metadata={COPIES: notes})
    assert joined(one, other, another_task=False).support == 16 - len(notes)


def test_joining_keeps_the_tasks_of_both():
    other = lesson("b", task="t2", metadata={TASKS: ["t3", "t1"]})
    assert joined(lesson("a"), other, another_task=True).metadata[TASKS] == ["t2", "t3"]
    assert TASKS not in joined(lesson("a"), other, another_task=False).metadata


def test_a_word_that_tells_two_lessons_apart_is_no_slip_of_another_word_of_the_known_one():
    cup = "Place the cup in the cabinet after washing it."
    known = lesson(
        "a", cup, support=80, metadata={WORDINGS: ["After washing the cup, it belongs in the cabinet."]}
    )
    for plate in (
        "Put the plate in the cabinet after washing it.",
        "The plate belongs in the cabinet after washing it.",
    ):
        assert decide(lesson("b", plate), [near(known)]).kind == "new"
        assert not one_lesson(known, lesson("b", plate))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The valve needs oil in the winter.", "The valve leaks oil in the winter."),
        ("The endpoint expects a token in the header.", "The endpoint rejects a token in the header."),
        ("Make a request to the gateway.", "Block a request to the gateway."),
        ("Clear the cache before the test.", "Warm the cache before the test."),
        ("Each door needs a label.", "Remove a label from each door."),
        ("Turn the wheels towards the kerb.", "Turn the wheels away from the kerb."),
    ],
)
def test_a_verb_that_says_little_is_no_other_verb_directly_or_by_way_of_a_third(one, other):
    third = " ".join(word for word in one.split() if word in other.split())
    for first, second in ((one, other), (other, one)):
        assert decide(lesson("b", second), [near(lesson("a", first))]).kind != "merge"
        done = decide(lesson("b", third), [near(lesson("a", first))])
        assert done.kind != "merge" or decide(lesson("c", second), [near(done.lesson)]).kind != "merge"


@pytest.mark.parametrize(
    ("need", "order"),
    [
        (
            "The recursion needs a base case for empty input.",
            "Add a base case to the recursion for empty input.",
        ),
        ("The endpoint wants a GET request.", "Send a GET request to the endpoint."),
        ("The endpoint expects a GET request.", "Make a GET request to the endpoint."),
        ("The kettle requires a wash before tea.", "Wash the kettle before tea."),
    ],
)
def test_what_a_thing_needs_is_what_is_to_be_given_to_it(need, order):
    assert decide(lesson("b", order), [near(lesson("a", need))]).kind == "merge"
    assert decide(lesson("b", need), [near(lesson("a", order))]).kind == "merge"


CALL = "Call the endpoint with a POST request."
WITH_ID = "Send a POST request to the endpoint, and put the id of the order in the path."
IN_ALL_WORDS = (
    "Make a POST request to the endpoint, and put the id of the order in the path.",
    "Use the endpoint with a POST request, and put the id of the order in the path.",
)


def test_lessons_whose_wordings_interleave_are_one_unless_something_tells_them_apart():
    one = lesson("a", CALL, metadata={WORDINGS: list(IN_ALL_WORDS)})
    other = lesson("b", WITH_ID, metadata={WORDINGS: [text.upper() for text in IN_ALL_WORDS]})
    assert interleaved(one, other)
    assert interleaved(other, one)
    assert not one_lesson(one, other)
    assert not interleaved(one, replace(other, metadata={}))
    for text in (
        WITH_ID.replace("the endpoint", "the old endpoint"),
        "Log the endpoint of the order.",
        WITH_ID.replace("POST", "PUT"),
    ):
        assert not interleaved(replace(one, text=CALL), replace(other, text=text))
    apart = replace(one, metadata={WORDINGS: [*IN_ALL_WORDS, IN_ALL_WORDS[0].replace("POST", "GET")]})
    assert not interleaved(apart, other)
