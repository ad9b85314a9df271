"""Whether two lessons are one, by their texts and by the other wordings that they keep.

Pure. An embedding finds what a lesson may be a copy of, ``likeness/comparing.py`` compares two texts, and this module
two lessons. Nothing is merged on similarity alone, and a lesson lost is worse than a copy kept: in doubt both stay.
What two lessons share with a third does not make them one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from jeeves_reflexion.lessons.likeness.acting import acts, says_what_to_do, weighty
from jeeves_reflexion.lessons.likeness.comparing import (
    Comparison,
    beyond,
    compare,
    contradicts,
    one_letter_apart,
    untelling,
)
from jeeves_reflexion.lessons.likeness.wording import OPPOSITE_OF
from jeeves_reflexion.lessons.merging import SAME_WORDS, MergeSettings, wordings
from jeeves_reflexion.lessons.principals import writer_of
from jeeves_reflexion.lessons.slips import SLIP_IN, mended
from jeeves_reflexion.types import Lesson

_SAID_ALIKE: Final = 0.85
"""From this likeness on, a way to say it that two lessons keep says that they are one."""
_SEVERAL: Final = 2
"""So many wordings of either of two lessons must say what the other says, for these to be evidence."""
_HOPELESS: Final = 0.25
"""Below this likeness to the text, no other wording of it is looked at: that would cost more than it finds."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored lesson near a newcomer: cosines of the two texts, and of the tasks (the nearest face) if known."""

    lesson: Lesson
    lesson_similarity: float
    task_similarity: float | None = None


def same_advice(one: Lesson, other: Lesson, settings: MergeSettings | None = None) -> bool:
    """Whether two stored lessons say the same by their texts and kept wordings, whatever their embeddings say."""
    near = Neighbour(other, lesson_similarity=1.0)
    by_text = replace(settings or MergeSettings(), sure_similarity=1.0)
    seen = compare(one.text, other.text)
    return same_scope(one, other) and strength_of(one, near, seen, by_text) is not None


def one_lesson(one: Lesson, other: Lesson, settings: MergeSettings | None = None) -> bool:
    """Whether of two stored lessons one may speak for both: the same advice of the same trust, and no contradiction."""
    first, second = sorted((one, other), key=foremost)
    return (
        first.trust == second.trust
        and first.id not in second.contradicts
        and second.id not in first.contradicts
        and (same_advice(first, second, settings) or (same_scope(one, other) and slip_of(second, first)))
        and not contradicts(first.text, second.text)
    )


def foremost(lesson: Lesson) -> tuple[int, float, str]:
    """Sort lessons by this for the one that speaks for the others: the most support, the oldest of equals."""
    return -lesson.support, lesson.provenance.created_at, lesson.id


def slip_of(copy: Lesson, known: Lesson) -> bool:
    """Whether a lesson is one that was learned fifty times as often, but for a slip of the fingers that is a word.

    What the slip stands for is told by the lesson's text and by all that it keeps of its copies.
    """
    if known.support < SLIP_IN:
        return False
    return _letter_of(copy, known) or any(
        _same_but_for(read, known, empty=empty) for read, empty in mended(copy, known)
    )


def _letter_of(copy: Lesson, known: Lesson) -> bool:
    if known.support < SLIP_IN * copy.support:
        return False
    seen = compare(known.text, copy.text)
    if seen.conflict or seen.likeness < _HOPELESS:
        return False
    # By a wording alone, a word that tells the two apart ("plate", "cup") could pass for one that is not there.
    said = (known.text,) if seen.replaced else (known.text, *wordings(known))
    return not told_apart(copy, known) and any(one_letter_apart(text, copy.text) for text in said)


def _same_but_for(read: Lesson, known: Lesson, *, empty: bool) -> bool:
    """Whether a lesson with a slip mended says what another says; by a word that says nothing, in the same words."""
    if not empty:
        return same_advice(read, known)
    said = (compare(read.text, text) for text in (known.text, *wordings(known)))
    return any(seen.same_words and not seen.conflict for seen in said) and not told_apart(read, known)


def strength_of(newcomer: Lesson, each: Neighbour, seen: Comparison, settings: MergeSettings) -> float | None:
    """How much a newcomer is a copy of a lesson, by its text or a kept wording of it; None if it is none."""
    if seen.conflict or each.lesson_similarity < settings.min_similarity:
        return None
    sure = settings.sure_similarity < 1.0 and each.lesson_similarity >= settings.sure_similarity
    much = seen.added > settings.max_added
    narrow = seen.within > settings.max_within
    if (
        seen.likeness >= settings.min_likeness
        and seen.replaced <= (1 if sure else 0)
        and not (much or narrow)
    ):
        found: float | None = seen.likeness
    elif seen.likeness < _HOPELESS or seen.other_act or (much and seen.replaced):
        return None
    else:
        found = _by_wording(newcomer, each.lesson, seen, settings)
    return None if found is None or told_apart(newcomer, each.lesson) else found


def _by_wording(one: Lesson, other: Lesson, seen: Comparison, settings: MergeSettings) -> float | None:
    """How much two lessons that differ as texts, as ``seen``, are alike by a wording that one of them keeps."""
    mine, theirs = wordings(one), wordings(other)
    # One that says much more is a copy by a wording of the same words alone.
    least = SAME_WORDS if seen.added > settings.max_added else settings.wording_likeness
    narrow = seen.within > settings.max_within
    for text, said, meant in (
        *((one.text, said, other.text) for said in theirs),
        *((other.text, said, one.text) for said in mine),
    ):
        found = _likeness(text, said, least, settings)
        if found is not None and (not (seen.replaced or narrow) or _explains(said, text, meant)):
            return found
    if seen.replaced:
        return None
    # A way to say it that both have, where one says no more than the other but for some words on top.
    for said, also in ((said, also) for said in mine for also in theirs):
        found = _likeness(said, also, _SAID_ALIKE, settings)
        explained = _explains(also, one.text, other.text) and _explains(said, other.text, one.text)
        if found is not None and (not narrow or explained):
            return found
    return None


def _explains(said: str, text: str, meant: str) -> bool:
    """Whether a wording says what a text says beyond another: one that says neither is no bridge between them."""
    return not (beyond(text, meant) & beyond(text, said))


def _likeness(text: str, said: str, least: float, settings: MergeSettings) -> float | None:
    seen = compare(text, said)
    if seen.conflict or seen.replaced or seen.within > settings.max_within or seen.likeness < least:
        return None
    return seen.likeness


def interleaved(one: Lesson, other: Lesson, settings: MergeSettings | None = None) -> bool:
    """Whether two lessons that were learned in many words are one by what all of these say together.

    Several wordings of one say what several of the other say, no two of them are in conflict or do another thing, none
    tells the lessons apart, and their own texts differ in no word that says something. What a few wordings share may
    be what both leave out; so the texts themselves must add nothing different and narrow nothing.
    """
    settings = settings or MergeSettings()
    mine, theirs = (one.text, *wordings(one)), (other.text, *wordings(other))
    if min(len(mine), len(theirs)) < _SEVERAL or _differ(one.text, other.text) or told_apart(one, other):
        return False
    here, there = set(), set()
    for text in mine:
        for said in theirs:
            seen = compare(text, said)
            if seen.conflict or seen.other_act:
                return False
            much = seen.replaced or seen.within or seen.added > settings.max_added
            if seen.likeness >= _SAID_ALIKE and not much:
                here.add(text)
                there.add(said)
    return min(len(here), len(there)) >= _SEVERAL


def _differ(text: str, said: str) -> bool:
    """Whether one text narrows what another says, or both say different things, be it by their verbs alone."""
    if compare(text, said).within:
        return True
    return bool(weighty(beyond(text, said)) and weighty(beyond(said, text)))


def told_apart(one: Lesson, other: Lesson) -> bool:
    """Whether two lessons, by a wording that one keeps, add different things to what they share.

    "Soak the lentils overnight" is no copy of "Soak them overnight" where "Soak the beans overnight" is one already:
    both would end in one lesson.
    """
    mine, theirs = (one.text, *wordings(one)), (other.text, *wordings(other))
    return any(_adds_another(text, one.text, said, other.text) for text in mine for said in theirs)


@lru_cache(maxsize=32768)
def _adds_another(text: str, meant: str, said: str, also: str) -> bool:
    """Whether a wording of one lesson and one of another add different things; the lessons' own texts are not asked."""
    if text == meant and said == also:
        return False
    seen = compare(text, said)
    if not (seen.replaced or seen.conflict):
        return False
    mine, theirs = beyond(text, said) & beyond(text, also), beyond(said, text) & beyond(said, meant)
    if text != meant:
        mine &= beyond(text, meant)
    if said != also:
        theirs &= beyond(said, also)
    if _contrary(mine, theirs, seen):
        return True
    mine, theirs = mine - untelling(text), theirs - untelling(said)
    if seen.other_act and (mine or theirs):
        return True
    # What is done is said by both: other verbs are other words for it.
    if says_what_to_do(meant) and says_what_to_do(also):
        mine, theirs = mine - acts(text), theirs - acts(said)
    return bool(mine and theirs)


def _contrary(mine: frozenset[str], theirs: frozenset[str], seen: Comparison) -> bool:
    """Whether what two texts add to what they share are opposites, or places that exclude each other."""
    if seen.conflict == "place":
        return bool(mine and theirs)
    return any(not theirs.isdisjoint(OPPOSITE_OF.get(word, ())) for word in weighty(mine))


def same_scope(a: Lesson, b: Lesson) -> bool:
    """Whether recalls of one reader, narrowed by kind of task or by agent, find both lessons or none."""
    return (a.task_kind, a.provenance.agent, writer_of(a)) == (b.task_kind, b.provenance.agent, writer_of(b))
