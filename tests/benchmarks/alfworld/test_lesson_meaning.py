"""What sentences mean, written down before the rules that read them were looked at.

A reader may pass over a sentence. It must not read the opposite of what the sentence says.
"""

import pytest

from benchmarks.alfworld.lesson_words import read_advice

KINDS = ("cabinet", "countertop", "drawer", "fridge", "microwave", "sinkbasin", "shelf", "desk", "dresser")

# Places are named as `<kind> <number>` or as a kind.
ABSENT = [  # (sentence, where the mug is not)
    ("None of cabinet 2 contained any mug.", "cabinet 2"),
    ("Neither cabinet 2 nor drawer 1 held a mug.", "cabinet 2, drawer 1"),
    ("Not one mug was in cabinet 2.", "cabinet 2"),
    ("Nowhere in cabinet 2 was there a mug.", "cabinet 2"),
    ("Cabinet 2 lacked the mug.", "cabinet 2"),
    ("Cabinet 2 lacks a mug.", "cabinet 2"),
    ("Cabinet 2 turned out to be empty of mugs.", "cabinet 2"),
    ("Cabinet 2 is free of mugs.", "cabinet 2"),
    ("Cabinet 2 is without a mug.", "cabinet 2"),
    ("Cabinet 2 was mugless; the mug must be elsewhere.", "cabinet 2"),
    ("I failed to find the mug in cabinet 2.", "cabinet 2"),
    ("I was unable to find a mug in cabinet 2.", "cabinet 2"),
    ("I could not locate a mug on countertop 2.", "countertop 2"),
    ("I couldn't see any mug on shelf 3.", "shelf 3"),
    ("I never found the mug in drawer 4.", "drawer 4"),
    ("I did not come across a mug in drawer 4.", "drawer 4"),
    ("I found nothing like a mug in drawer 4.", "drawer 4"),
    ("I hoped for a mug in cabinet 2 in vain.", "cabinet 2"),
    ("I looked in vain for the mug in cabinet 2.", "cabinet 2"),
    ("Searching cabinet 2 for a mug was a waste of time.", "cabinet 2"),
    ("Searching cabinet 2 for the mug was fruitless.", "cabinet 2"),
    ("It is useless to look for the mug in cabinet 2.", "cabinet 2"),
    ("It is pointless to search drawer 1 for a mug.", "drawer 1"),
    ("There is no point in looking for the mug in drawer 1.", "drawer 1"),
    ("There wasn't a mug in fridge 1.", "fridge 1"),
    ("There isn't any mug on desk 1.", "desk 1"),
    ("There was hardly a mug on desk 1.", "desk 1"),
    ("The mug is nowhere near desk 1.", "desk 1"),
    ("The mug is anywhere but cabinet 2.", "cabinet 2"),
    ("Look for the mug anywhere except cabinet 2.", "cabinet 2"),
    ("Search for the mug everywhere other than drawer 1.", "drawer 1"),
    ("Look for a mug outside of drawer 1.", "drawer 1"),
    ("The mug was missing from shelf 3.", "shelf 3"),
    ("The mug is absent from shelf 3.", "shelf 3"),
    ("The mug was not in cabinet 2 as I had assumed.", "cabinet 2"),
    ("I wrongly assumed that the mug was in cabinet 2.", "cabinet 2"),
    ("I mistakenly believed the mug to be in cabinet 2.", "cabinet 2"),
    ("It is false that the mug is in cabinet 2.", "cabinet 2"),
    ("It is not true that the mug is on countertop 2.", "countertop 2"),
    ("I thought the mug was on countertop 2, but it wasn't.", "countertop 2"),
    ("I expected a mug on countertop 2 but saw none.", "countertop 2"),
    ("The mug should have been in fridge 1, yet it was not there.", "fridge 1"),
    ("Far from being in cabinet 2, the mug was hidden.", "cabinet 2"),
    ("Avoid cabinet 2 when you look for the mug.", "cabinet 2"),
    ("Skip cabinet 2 when looking for a mug.", "cabinet 2"),
    ("Stop looking for the mug in cabinet 2.", "cabinet 2"),
    ("Don't bother with cabinet 2 for a mug.", "cabinet 2"),
    ("Never search drawer 1 for the mug.", "drawer 1"),
    ("Refrain from looking for the mug in drawer 1.", "drawer 1"),
    ("Leave out drawer 1 when you search for the mug.", "drawer 1"),
    ("Rule out drawer 1 for the mug.", "drawer 1"),
    ("Ignore shelf 3 when a mug is wanted.", "shelf 3"),
    ("Instead of cabinet 2, think of another place for the mug.", "cabinet 2"),
    ("Rather than looking for the mug in cabinet 2, think again.", "cabinet 2"),
    ("No mug is ever in the cabinets.", "cabinet"),
    ("No cabinet had a mug in it.", "cabinet"),
    ("Mugs are not kept in drawers.", "drawer"),
    ("Mugs are rarely in drawers.", "drawer"),
    ("Mugs are seldom found in a drawer.", "drawer"),
    ("Zero mugs were in cabinet 2.", "cabinet 2"),
    ("0 mugs were found in cabinet 2.", "cabinet 2"),
    ("Cabinet 2: no mug.", "cabinet 2"),
    ("mug - cabinet 2: not found", "cabinet 2"),
    ("Mug in cabinet 2? No.", "cabinet 2"),
    ("Was the mug in cabinet 2? It was not.", "cabinet 2"),
    ("Cabinets 2 and 3 do not have the mug.", "cabinet 2, cabinet 3"),
    ("Cabinets 2, 3 and 5 and drawer 1 contained no mugs.", "cabinet 2, cabinet 3, cabinet 5, drawer 1"),
    ("The cabinet 2 that I opened contained everything but a mug.", "cabinet 2"),
    ("Opening cabinet 2 revealed plates and cups but not the mug.", "cabinet 2"),
    ("I opened cabinet 2 only to see that the mug wasn't inside.", "cabinet 2"),
    ("Had the mug been in cabinet 2, I would have won.", "cabinet 2"),
    ("If only the mug had been in cabinet 2!", "cabinet 2"),
    ("I doubt that the mug is in cabinet 2.", "cabinet 2"),
    ("It is unlikely that a mug is in cabinet 2.", "cabinet 2"),
    ("The mug cannot be in cabinet 2.", "cabinet 2"),
    ("The mug is no longer in cabinet 2.", "cabinet 2"),
]

PRESENT = [  # (sentence, where the mug is, or may well be)
    ("The mug is in cabinet 2.", "cabinet 2"),
    ("I found the mug in cabinet 2.", "cabinet 2"),
    ("There is a mug on countertop 2.", "countertop 2"),
    ("There was a mug on countertop 2.", "countertop 2"),
    ("Take the mug from shelf 3.", "shelf 3"),
    ("Look for the mug in drawer 1 first.", "drawer 1"),
    ("Search fridge 1 for the mug.", "fridge 1"),
    ("Cabinet 2 contains a mug.", "cabinet 2"),
    ("Cabinet 2 held the mug.", "cabinet 2"),
    ("The mug was in cabinet 2 and nowhere else.", "cabinet 2"),
    ("Don't forget to look for the mug in cabinet 2.", "cabinet 2"),
    ("Don't leave out cabinet 2 when you search for the mug.", "cabinet 2"),
    ("Never skip cabinet 2 when looking for the mug.", "cabinet 2"),
    ("I failed because I didn't take the mug from cabinet 2.", "cabinet 2"),
    ("I should not have ignored the mug in cabinet 2.", "cabinet 2"),
    ("The mug is nowhere but in cabinet 2.", "cabinet 2"),
    ("The mug is in no other place than cabinet 2.", "cabinet 2"),
    ("There is no doubt that the mug is in cabinet 2.", "cabinet 2"),
    ("Without fail the mug is in cabinet 2.", "cabinet 2"),
    ("I did not know that the mug was in cabinet 2.", "cabinet 2"),
    ("It is not true that the mug is not in cabinet 2.", "cabinet 2"),
    ("I never looked in cabinet 2, where the mug was.", "cabinet 2"),
    ("I couldn't take the mug from cabinet 2 since it was closed.", "cabinet 2"),
    ("Not only cabinet 2 had a mug.", "cabinet 2"),
    ("I did not notice the mug in cabinet 2 until the end.", "cabinet 2"),
    ("The mug is not clean; it is in cabinet 2.", "cabinet 2"),
]

# These were added when the rules had been written anew: traps for those rules.
ABSENT += [
    (text, "cabinet 2")
    for text in (
        "The mug was in cabinet 2, I thought.",
        "The mug was in cabinet 2, or so it seemed.",
        "The mug was in cabinet 2, which was wrong.",
        "The mug was in cabinet 2? Wrong.",
        "The mug was in cabinet 2 and that was a mistake.",
        "The mug was in cabinet 2 so seldom that looking there is no use.",
        "False: the mug is in cabinet 2.",
        "I should have checked cabinet 2 for the mug, but it was empty.",
        "I went to cabinet 2 and found the mug missing.",
        "Nobody found the mug in cabinet 2.",
        "No one found the mug in cabinet 2.",
        "Dont look for the mug in cabinet 2.",
        "You should not look for the mug in cabinet 2.",
        "Look for the mug in cabinet 2 last.",
        "Some say that the mug is in cabinet 2.",
        "If the mug is in cabinet 2, I am blind.",
        "Ningún mug was in cabinet 2.",
        "没有 mug was in cabinet 2.",
        "Kein mug was in cabinet 2.",
    )
]
PRESENT += [
    ("There was no clean mug in cabinet 2, only a dirty one.", "cabinet 2"),
    ("I did not find the second mug in cabinet 2 at once.", "cabinet 2"),
    ("I didn't search cabinet 2 for the mug.", "cabinet 2"),
    ("There was no mug in cabinet 2, I thought, but there was.", "cabinet 2"),
    ("I never saw the mug in cabinet 2 before I opened it.", "cabinet 2"),
]

MIXED = [  # (sentence, where it is not, where it is)
    ("The mug is not in cabinet 2 but in drawer 1.", "cabinet 2", "drawer 1"),
    ("The mug was on countertop 2, not in fridge 1.", "fridge 1", "countertop 2"),
    ("Instead of cabinet 2, look for the mug in drawer 1.", "cabinet 2", "drawer 1"),
    ("Look for the mug in drawer 1 instead of cabinet 2.", "cabinet 2", "drawer 1"),
    ("Search drawer 1 rather than cabinet 2 for the mug.", "cabinet 2", "drawer 1"),
    ("No mug in cabinet 2; the mug is in drawer 1.", "cabinet 2", "drawer 1"),
    ("I wasted time on cabinet 2 while the mug was on desk 1.", "cabinet 2", "desk 1"),
    ("I thought the mug was in cabinet 2 but it was on desk 1.", "cabinet 2", "desk 1"),
    ("Whereas cabinet 2 had no mug, desk 1 had one.", "cabinet 2", "desk 1"),
    ("Cabinet 2 held a plate but no mug, and drawer 1 held the mug.", "cabinet 2", "drawer 1"),
    ("The mug is in drawer 1 and never in cabinet 2.", "cabinet 2", "drawer 1"),
    ("Apart from drawer 1, no place had a mug, neither cabinet 2.", "cabinet 2", "drawer 1"),
]


def said(text):
    """What is read of the mug: the places where it is not, and those where it is or is to be looked for."""
    absent, present = set(), set()
    for piece in read_advice(text, wanted=("mug",), kinds=KINDS):
        places = {f"{kind} {number}" if number else kind for kind, number in piece.places}
        (absent if piece.stance == "absent" else present).update(places)
    return absent, present


def named(places):
    return {place for place in places.split(", ") if place}


CASES = (
    [(text, places, "") for text, places in ABSENT] + [(text, "", places) for text, places in PRESENT] + MIXED
)


@pytest.mark.parametrize(("text", "absent", "present"), CASES)
@pytest.mark.parametrize("change", [str, str.lower, str.upper])
def test_no_sentence_is_read_as_its_opposite(text, absent, present, change):
    read_absent, read_present = said(change(text))
    assert not read_present & named(absent)
    assert not read_absent & named(present)


@pytest.mark.parametrize(("text", "places"), ABSENT)
@pytest.mark.parametrize("before", ["The mug is in drawer 7. ", "Be quick. "])
def test_what_stands_before_does_not_turn_a_sentence(before, text, places):
    assert not said(before + text)[1] & named(places)


def test_plain_sentences_are_read():
    absent = [text for text, places in ABSENT if said(text)[0] == named(places)]
    present = [text for text, places in PRESENT if said(text)[1] == named(places)]
    assert len(absent) >= 13
    assert len(present) >= 10
