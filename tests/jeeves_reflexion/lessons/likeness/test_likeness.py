"""What two lessons share as texts: numbers, names, negation and order count for more than words."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.lessons.likeness.comparing import (
    alike,
    beyond,
    compare,
    contradicts,
    likeness,
    one_letter_apart,
)

SCHEMA = "Read the schema before writing the query."

ALIKE = [
    ("Open the drawer first.", "first, open the drawer"),
    ("Open the drawer first.", "Note to self: the drawer should be opened first!"),
    ("Open the drawer first.", "Open the darwer first."),
    ("Don't open the drawer first.", "Avoid opening the drawer first."),
    ("Don't open the drawer first.", "THE DRAWER SHOULDN'T BE OPENED FIRST."),
    ("Never open the drawer first.", "The drawer must not be opened first."),
    (SCHEMA, "Before composing the query, study the schema."),
    (SCHEMA, "Write the query after reading the schema."),
    (SCHEMA, "Do not write the query until you have read the schema."),
    ("Wait five seconds between requests.", "Between requests, pause 5s."),
    ("Don't forget to close the file.", "Close the file."),
    ("Use the full name instead of the surname.", "Instead of the surname, use the full name."),
    ("Search every cabinet one by one.", "Every cabinet must be searched in order."),
]

DIFFERENT = [
    ("Open the drawer first.", "Don't open the drawer first.", "negation"),
    ("Always close the file.", "Never close the file.", "negation"),
    ("Retry the request when it times out.", "A request that timed out must not be retried.", "negation"),
    ("Use the full name instead of the surname.", "Use the surname instead of the full name.", "negation"),
    ("Look in fridge 1 for the tomato.", "Look in fridge 2 for the tomato.", "number"),
    ("Wait 5 seconds between requests.", "Wait 50 seconds between requests.", "number"),
    ("Wait five seconds between requests.", "Wait fifty seconds between requests.", "number"),
    ("Move cup 1 to shelf 2 now.", "Move cup 2 to shelf 1 now.", "number"),
    ("Take the cup.", "Take the cup of shelf 3.", "number"),
    ("Send a GET request to orders.", "Send a POST request to orders.", "kind"),
    ("Read the dates as UTC.", "Read the dates as CET.", "name"),
    ("Move the book from the desk to the shelf.", "Move the book from the shelf to the desk.", "direction"),
    ("From the desk, move the book to the shelf.", "Move the book from the shelf to the desk.", "direction"),
    ("Convert miles to kilometres.", "Convert kilometres to miles.", "direction"),
    ("Turn the lamp on before you leave.", "Turn the lamp off before you leave.", "opposite"),
    ("Sort the scores in ascending order.", "Sort the marks in descending order.", "opposite"),
    (SCHEMA, "Read the schema after writing the query.", "order"),
    (SCHEMA, "Write the query before reading the schema.", "order"),
    ("Close the drawer before opening the fridge.", "Close the fridge before opening the drawer.", "order"),
]

OPPOSITE = [
    ("Open the drawer first.", "Don't open the drawer first."),
    ("Always close the file.", "Never close the file."),
    ("Open the window.", "Close the window."),
    (SCHEMA, "Read the schema after writing the query."),
    ("Sort the scores in ascending order.", "The marks must be sorted in descending order."),
]

NO_CONTRADICTION = [
    ("Do not open the window.", "Close the window."),
    ("Wait 5 seconds.", "Wait 50 seconds."),
    ("Put the plate in the cabinet.", "Don't put the cup in the sink."),
    ("Look north.", "Do not forget the milk."),
    ("Open the drawer first.", "The drawer should be opened first."),
    ("Send a GET request.", "Send a POST request."),
]


@pytest.mark.parametrize(("a", "b"), ALIKE)
def test_other_words_for_the_same_are_alike(a, b):
    seen = compare(a, b)
    assert (seen.conflict, seen.replaced, seen.contradictory) == ("", 0, False)
    assert seen.likeness >= 0.7


@pytest.mark.parametrize(("a", "b", "conflict"), DIFFERENT)
def test_a_small_word_that_changes_what_is_said_is_seen(a, b, conflict):
    assert compare(a, b).conflict == conflict
    assert likeness(a, b) <= 0.4


@pytest.mark.parametrize(("a", "b"), OPPOSITE)
def test_opposite_advice_on_one_matter_contradicts(a, b):
    assert contradicts(a, b)
    assert contradicts(b, a)


@pytest.mark.parametrize(("a", "b"), NO_CONTRADICTION)
def test_what_differs_otherwise_does_not_contradict(a, b):
    assert not contradicts(a, b)


@pytest.mark.parametrize(
    ("short", "narrow"),
    [
        ("Use the API.", "Use the old API."),
        ("Close the ticket.", "Close the ticket on Friday."),
        ("Return the rows.", "Return half the rows."),
        ("Log the requests.", "Log the failed requests."),
        ("Reply with the text.", "Reply with the short text."),
        ("Restart the server.", "Restart the backup server."),
        ("Keep the dog in the yard.", "Feed the dog in the yard."),
        ("APIs must be avoided.", "Old APIs must be avoided."),
    ],
)
def test_a_word_within_what_both_say_is_counted(short, narrow):
    seen = compare(short, narrow)
    assert seen.within or seen.replaced
    assert compare(narrow, short) == seen


@pytest.mark.parametrize(
    ("short", "more"),
    [
        ("Open the drawer first.", "Open the drawer first when you enter the room."),
        ("Make a GET request to orders.", "Make a GET request to orders and put the id in the path."),
        ("Make a GET request to orders.", "Send a GET request to orders."),
        ("Wait because it is slow.", "Wait because the old server is slow."),
        ("Search the page for the name.", "Search the Wikipedia page for the name."),
        ("Reply with a text.", "Reply with a short text."),
    ],
)
def test_what_does_not_say_which_one_narrows_nothing(short, more):
    seen = compare(short, more)
    assert (seen.conflict, seen.replaced, seen.within) == ("", 0, 0)


def test_synonyms_hold_only_beside_their_words_or_away_from_others():
    assert (
        compare("Check the total against the budget.", "Compare the total against the budget.").replaced == 0
    )
    assert compare("Check the tyre.", "Compare the tyre.").replaced == 1
    assert compare("Save the file.", "Store the file.").replaced == 0
    assert compare("Save money on the trip.", "Store money on the trip.").replaced == 1


def test_different_acts_are_not_one_another():
    assert compare("Get the value of the flag.", "Set the value of the flag.").replaced == 1


def test_a_remark_on_the_attempt_says_nothing_however_it_is_spelt():
    plain = "Open the drawer first."
    for remark in ("; that is what went wring.", " (my mistake in this trail)."):
        assert compare(plain, plain.rstrip(".") + remark).same_words


def test_another_object_is_a_replaced_word():
    assert compare("Put the plate in the cabinet.", "Put the cup in the cabinet.").replaced == 1
    assert compare("Put the plate in the cabinet.", "Put the plane in the cabinet.").replaced == 1


@pytest.mark.parametrize(
    "lost", ["Nver open the drawer.", "Nevr open the drawer.", "Aviod opening the drawer."]
)
def test_a_mistyped_negation_is_one(lost):
    assert compare("Open the drawer.", lost).conflict == "negation"


def test_more_advice_is_less_alike_than_the_same():
    short, more = "Open the drawer.", "Open the drawer, water the plants and call the neighbours."
    assert likeness(short, short) == 1.0
    assert likeness(short, more) < 0.6


def test_texts_without_words_are_alike_only_when_equal():
    assert likeness("...", "...") == 1.0
    assert likeness("", "Open the drawer.") == 0.0


VOCABULARY = "open close not never the drawer fridge 1 2 before after , from to first instead of GET nver"
words = st.lists(st.sampled_from(VOCABULARY.split()), max_size=9).map(" ".join)


@given(words | st.text(max_size=60), words | st.text(max_size=60))
def test_comparing_is_the_same_in_both_directions_and_bounded(a, b):
    seen = compare(a, b)
    assert seen == compare(b, a)
    assert 0.0 <= seen.likeness <= 1.0
    assert not (seen.contradictory and not seen.conflict)


@given(
    words | st.text(max_size=60),
    words | st.text(max_size=60),
    st.sampled_from([0.0, 0.39, 0.4, 0.6, 0.85, 1.0]),
)
def test_alike_says_what_the_likeness_does(a, b, above):
    assert alike(a, b, above) is (likeness(a, b) > above)


@pytest.mark.parametrize(("a", "b"), [*ALIKE, *(pair[:2] for pair in DIFFERENT)])
def test_alike_says_so_of_what_differs_in_a_little(a, b):
    for above in (0.3, 0.4, 0.85):
        assert alike(a, b, above) is (likeness(a, b) > above)


@given(words | st.text(max_size=60))
def test_a_text_is_its_own_likeness(text):
    assert likeness(text, text) == likeness(text, text + " ") == likeness(text, "\n" + text) == 1.0
    assert not contradicts(text, text + " ")


OBJECTS = [
    "book",
    "keys",
    "mug",
    "candle",
    "cup",
    "plate",
    "knife",
    "spoon",
    "fork",
    "ladle",
    "pan",
    "pot",
    "kettle",
    "towel",
    "cloth",
    "pillow",
    "pen",
    "pencil",
    "vase",
    "watch",
    "box",
    "fridge",
    "drawer",
    "cabinet",
    "shelf",
    "desk",
    "sofa",
    "safe",
    "sink",
    "bed",
    "cart",
    "microwave",
    "toaster",
    "dresser",
    "ottoman",
]


def test_lessons_on_different_things_are_never_copies():
    for one, other in itertools.combinations(OBJECTS, 2):
        found = compare(
            f"Look for the {one} on the rack before anything else.",
            f"Look for the {other} on the rack before anything else.",
        )
        assert found.conflict or found.replaced, (one, other)


def test_first_and_then_say_what_comes_before_what():
    first, before = "First tune the violin, then practise.", "Tune the violin before you practise."
    seen = compare(first, before)
    assert (seen.conflict, seen.replaced, seen.added) == ("", 0, 0)
    assert compare("First practise, then tune the violin.", before).conflict == "order"


def test_what_a_text_says_beyond_another():
    assert beyond("Wash the old mug.", "Wash the mug.") == {"old"}
    assert beyond("Wash the mug.", "Wash the old mug.") == frozenset()
    assert beyond("Wash the mug.", "Wash the plate.") == {"mug"}


def test_a_slip_explains_no_other_word():
    cup, plate = (
        "Place the cup inside the cabinet after washing it.",
        "The plate goes in the cabinet after washing it.",
    )
    assert not one_letter_apart(cup, plate)
    assert not one_letter_apart(plate, cup)
    assert one_letter_apart("Heat the egg in the microwave.", "Hate the egg in the microwave.")


@pytest.mark.parametrize(
    ("a", "b", "replaced", "other_act"),
    [
        ("The pump needs water.", "The pump requires water.", 0, False),
        ("The pump wants water.", "The pump expcets water.", 0, False),
        ("The pump needs water.", "The pump leaks water.", 1, True),
        ("The pump needs a filter.", "Add a filter to the pump.", 0, False),
        ("The pump needs a filter.", "Break a filter of the pump.", 1, True),
        ("Make a request to the bank.", "Send a request to the bank.", 0, False),
        ("Make a request to the bank.", "Delay a request to the bank.", 1, True),
        ("When trying the pump again, oil the filter.", "Oil the filter.", 0, False),
        ("Show the price to the client.", "Hide the price to the client.", 1, True),
        ("Show the price to the client.", "Display the price to the client.", 0, False),
    ],
)
def test_a_verb_of_need_or_of_making_is_no_word_of_its_own_and_yet_no_other_verb(a, b, replaced, other_act):
    for seen in (compare(a, b), compare(b, a)):
        assert seen.other_act == other_act
        assert bool(seen.replaced or seen.conflict) == bool(replaced)


def test_towards_and_away_from_are_directions():
    seen = compare("Turn the wheels towards the kerb.", "Turn the wheels away from the kerb.")
    assert seen.conflict == "direction"
    assert not compare("Turn the wheels towards the kerb.", "Turn the wheels to the kerb.").conflict


def test_a_remark_is_none_of_the_advice_where_its_word_is_mistyped():
    seen = compare("Oil the pump, which I filed to do.", "Oil the pump.")
    assert seen.same_words


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Place the cup in the cabinet.", "Place the cup on the cabinet."),
        ("Put the mug in the sink before you rinse it.", "Put the mug on the sink before you rinse it."),
        ("Move the file into the folder.", "Move the file out of the folder."),
        ("Put the lamp next to the desk.", "Put the lamp on the desk."),
        ("Leave the egg near the fridge.", "Leave the egg in the fridge."),
        ("Put the cloth in the drawer.", "Put the cloth under the drawer."),
        ("Park the car between the lines.", "Park the car on the lines."),
        ("Run the job during the backup.", "Run the job after the backup."),
        ("Vote for the change.", "Vote against the change."),
        ("Wait until the door opens.", "Wait since the door opens."),
        ("Sign in before the call.", "Sign out before the call."),
    ],
)
def test_another_place_time_or_side_of_one_thing_is_another_lesson(a, b):
    assert compare(a, b).conflict
    assert compare(b, a).conflict


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Put the egg into the fridge.", "Put the egg in the fridge."),
        ("Put the mug on the countertop.", "Put the mug in the countertop."),
        ("Put the pan in/on the stove.", "Put the pan on the stove."),
        ("The key is on the list.", "The key is in the list."),
        ("Get the apple out of the fridge.", "Get the apple from the fridge."),
        ("Answer in under 10 seconds.", "Answer in less than 10 seconds."),
        (
            "Water them in the morning so that they dry before night.",
            "Wet ones at night suffer: water them mornings.",
        ),
        ("Turn on the lamp in the bedroom.", "Turn the lamp on in the bedroom."),
    ],
)
def test_two_ways_to_say_where_are_no_conflict(a, b):
    assert not compare(a, b).conflict
    assert not compare(b, a).conflict
