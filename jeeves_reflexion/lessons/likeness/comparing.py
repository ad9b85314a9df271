"""How alike two lessons are as texts, and whether they advise the opposite.

An embedding says that two texts are about the same thing; it says little of numbers, names and negation: for
all-MiniLM-L6-v2 "sort ascending" and "sort descending" are closer (0.99) than most paraphrases. This module reads what
the embedding misses, by rules and by the tables of ``wording.py``. Pure, and quick enough to compare every newcomer
with its nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.lessons.likeness.acting import LIGHT_STEMS, MAKE, other_act_in, provided
from jeeves_reflexion.lessons.likeness.pairing import (
    SHORTEST_TYPO,
    elsewhere,
    mistyped,
    mistyped_synonyms,
    same_here,
    synonyms,
)
from jeeves_reflexion.lessons.likeness.placing import contrasted
from jeeves_reflexion.lessons.likeness.sense import Sense, sense_of
from jeeves_reflexion.lessons.likeness.spelling import misspelt, one_off, slipped
from jeeves_reflexion.lessons.likeness.wording import (
    EMPTY,
    EXCLUDED_BY,
    LOOSE_NUMBERS,
    OPPOSITE_OF,
    SAME_AS,
    SMALL,
    forms,
    in_a_table,
    stem,
    tells_apart,
)

Conflict: TypeAlias = Literal[
    "", "number", "name", "kind", "place", "direction", "negation", "opposite", "order"
]

_WORDS: Final = 0.8
_PAIRS: Final = 0.2
_SECOND_HAND: Final = 0.9
"""What a synonym or a typing error counts beside the word itself."""
_ASIDE: Final = 0.4
"""What a word of a reason, or a word that says little, weighs beside a word of the advice."""
_SMALL_STEMS: Final = frozenset(map(stem, SMALL))
_NOWHERE: Final[frozenset[str]] = frozenset()
_IN_CONFLICT: Final = 0.4
_SAME_MATTER: Final = 0.7
_FEW: Final = 2
"""Texts that differ in more words are not the same, whatever is found for one of them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two texts share.

    ``likeness`` lies in [0, 1] and is the same in both directions. ``conflict`` names the first thing found that makes
    them say different things, whatever their words share. ``replaced`` counts words of one that stand for unknown
    other words in the other; ``added`` counts words that one has on top, ``within`` those of them that say which
    of several things is meant ("the old API", "on Friday") rather than something besides it. ``other_act`` says that
    one of the replaced stands for a verb that is no word of its own ("make", "needs"). ``same_words`` says
    that both have the same words, or such that say the same; ``contradictory`` that they advise the opposite on one
    matter.
    """

    likeness: float
    conflict: Conflict = ""
    replaced: int = 0
    added: int = 0
    within: int = 0
    other_act: bool = False
    same_words: bool = False
    contradictory: bool = False


def likeness(a: str, b: str) -> float:
    """Return how alike two lessons are as texts, in [0, 1]; 1.0 for texts with the same words in any order.

    Low (at most 0.4) as soon as numbers, names, negation, opposites or the order of two steps differ.
    """
    return compare(a, b).likeness


def alike(a: str, b: str, above: float) -> bool:
    """Whether the :func:`likeness` of two lessons is above a bound in [0, 1]; quicker where their numbers say no."""
    if above >= _IN_CONFLICT and a != b and _other_numbers(sense_of(a), sense_of(b)):
        return False
    return compare(a, b).likeness > above


def contradicts(a: str, b: str) -> bool:
    """Whether two lessons speak of the same matter and advise the opposite; in doubt they do not."""
    return compare(a, b).contradictory


def one_letter_apart(a: str, b: str) -> bool:
    """Whether two lessons differ in one slip of the fingers that happens to be a word ("heat the egg", "hate the egg").

    Or in one word that is none, where the other has nothing that it could be a slip of.
    Without more evidence nobody can tell the slip from another lesson: :func:`compare` calls such a word replaced.
    """
    seen = compare(a, b)
    if seen.conflict or seen.replaced > 1:
        return False
    one, other = sense_of(a), sense_of(b)
    _, left, right = _matched(one, other)
    if not seen.replaced:
        left, right = _unsaid(left, right, one, other)
        odd = [one.surface.get(word, word) for word in left - one.aside - LIGHT_STEMS]
        odd += [other.surface.get(word, word) for word in right - other.aside - LIGHT_STEMS]
        if len(odd) != 1:
            return False
        if misspelt(odd[0]):
            return True
    # A slip explains the two words that it stands between; whatever else differs is no slip ("place the cup" and "the
    # plate goes").
    left, right = left - one.aside - LIGHT_STEMS, right - other.aside - LIGHT_STEMS
    if len(left) != 1 or len(right) != 1:
        return False
    (word,), (near,) = left, right
    # "must not be repeated" is no slip of "must be retired"
    return one.words[word] * other.words[near] > 0 and bool(
        _slip_for(one.surface.get(word, word), near) or _slip_for(other.surface.get(near, near), word)
    )


@lru_cache(maxsize=8192)
def untelling(text: str) -> frozenset[str]:
    """Return the stems of those words of a text that tell no thing from another.

    They describe some thing ("a short text"), are small ("inside the box"), say little ("take"), or are a slip.
    """
    sense = sense_of(text)
    slips = frozenset(word for word in sense.words if misspelt(sense.surface.get(word, word)))
    return sense.any_one | slips | (frozenset(sense.words) & (_SMALL_STEMS | LIGHT_STEMS))


@lru_cache(maxsize=16384)
def beyond(text: str, other: str) -> frozenset[str]:
    """Return the stems of the words of advice in a text that another text says in no way."""
    one, two = sense_of(text), sense_of(other)
    if one == two:
        return _NOWHERE
    a, b = (two, one) if other < text else (one, two)
    twins, left, right = _matched(a, b)
    left, right = _unsaid(left, right, a, b)
    mine, theirs = (right, {y: x for x, y in twins.items()}) if other < text else (left, twins)
    aside = {word for word, twin in theirs.items() if word not in one.aside and twin in two.aside}
    return frozenset(word for word in mine | aside if word not in one.aside)


def _slip_for(written: str, root: str) -> bool:
    """Whether a word is a slip of another, or of one that says the same."""
    return written.isalpha() and any(
        slipped(written, form) for near in (root, *SAME_AS.get(root, ())) for form in forms(near)
    )


def compare(a: str, b: str) -> Comparison:
    """Compare two lessons as texts."""
    if a == b:
        return Comparison(1.0, same_words=True)
    if b < a:  # what is matched greedily must not depend on who comes first
        a, b = b, a
    return _compared(a, b)


@lru_cache(maxsize=16384)
def _compared(text: str, other: str) -> Comparison:
    a, b = sense_of(text), sense_of(other)
    if a == b:
        return Comparison(1.0, same_words=True)
    if not a.words or not b.words:
        return Comparison(0.0)
    twins, left, right = _matched(a, b)
    opposed = _partners_in(left, b, OPPOSITE_OF, right) | _partners_in(right, a, OPPOSITE_OF, left)
    turned, straight = _polarity(a, b, twins)
    crossed = _crossed(a, b, twins)
    weight = _weights(a) + _weights(b)
    shared = sum(
        (_weight(x, a) + _weight(y, b)) * (1.0 if x == y else _SECOND_HAND) for x, y in twins.items()
    )
    of_words = shared / weight
    alike = _WORDS * of_words + _PAIRS * _shared_pairs(a, b, twins)
    conflict = _conflict(a, b, left, right, twins=twins)
    if not conflict:
        conflict = "opposite" if opposed else "negation" if turned else "order" if crossed else ""
    if not conflict and contrasted(a.placing, b.placing, twins):
        conflict = "place"
    rest, unopposed = left | right, min(len(left - opposed), len(right - opposed))
    left, right = _unsaid(left, right, a, b)
    left, right = left - provided(left, a, b), right - provided(right, b, a)
    lacking = (_telling(left, a), _telling(right, b))
    light = (left & LIGHT_STEMS - a.aside, right & LIGHT_STEMS - b.aside)
    # A word of the advice that the other has in a reason alone is no word of its advice.
    apart = (
        sum(x not in a.aside and y in b.aside for x, y in twins.items()),
        sum(x in a.aside and y not in b.aside for x, y in twins.items()),
    )
    replaced = min(lacking[0] + apart[0], lacking[1] + apart[1]) + bool(light[0] and light[1])
    other_act = other_act_in(left, a, b, twins) or other_act_in(right, b, a, {*twins.values()})
    within = (_within(left, a, twins, light[1]), _within(right, b, {*twins.values()}, light[0]))
    matter = 2 * (len(twins) + len(opposed) / 2) / (len(a.words) + len(b.words))
    return Comparison(
        likeness=alike * _IN_CONFLICT if conflict else alike,
        conflict=conflict,
        replaced=replaced + other_act,
        other_act=other_act,
        added=max(lacking) - min(lacking),
        same_words=not rest,
        within=0 if lacking[0] == lacking[1] else within[lacking[0] < lacking[1]],
        contradictory=conflict in ("opposite", "negation", "order")
        and matter >= _SAME_MATTER
        and len(opposed) in (0, 2)
        and not (turned and turned <= straight)
        and bool(opposed) ^ bool(turned) ^ crossed
        and unopposed == 0
        and len(rest - opposed) <= 0.3 * (len(a.words) + len(b.words)),
    )


def _weight(word: str, sense: Sense) -> float:
    return _ASIDE if word in sense.aside or word in LIGHT_STEMS else 1.0


def _weights(sense: Sense) -> float:
    return sum(_weight(word, sense) for word in sense.words)


def _telling(words: set[str], sense: Sense) -> int:
    """Count the words that stand in the advice itself and mean something by themselves."""
    return sum(1 for word in words if word not in sense.aside and word not in LIGHT_STEMS)


def _within(words: set[str], sense: Sense, matched: Collection[str], other_act: set[str]) -> int:
    """Count the telling words that narrow what is shared: neither in a part of their own nor its verb.

    A word narrows that tells one thing from another ("the old API"), or that says where, when or with what; not one
    that describes some thing ("a short text"), nor one of which no other is known ("the Wikipedia page").
    A verb that the other text goes without is none, unless another act stands there in its place.
    """
    found = 0
    for word in words:
        verb = word in sense.states or (word in sense.heads and not other_act)
        if verb or word in sense.aside or word in LIGHT_STEMS:
            continue
        another_act = word in sense.heads
        if word in sense.any_one or not (another_act or word in sense.placed or tells_apart(word)):
            continue
        if another_act and same_here(word, MAKE, sense, sense):  # "send a request" says "make a request"
            continue
        parts = [part for part in sense.parts if word in part]
        found += any(near in matched and near not in LIGHT_STEMS for part in parts for near in part)
    return found


def _unsaid(left: set[str], right: set[str], a: Sense, b: Sense) -> tuple[set[str], set[str]]:
    """Leave out what the other text says by a small word, numbers said in passing, and what one text says twice.

    Of two texts that each lack something nothing is said twice: the second word may be another thing of its kind.
    """
    if min(len(left), len(right)) > _FEW:
        return left, right
    left, right = _in_full(left, a, b), _in_full(right, b, a)
    if left and not _telling(right, b):
        left = {word for word in left if not any(_stands_for(word, near, a, b) for near in b.words)}
    elif right and not _telling(left, a):
        right = {word for word in right if not any(_stands_for(word, near, b, a) for near in a.words)}
    return left, right


def _in_full(words: set[str], own: Sense, other: Sense) -> set[str]:
    return {
        word
        for word in words
        if not (word in LOOSE_NUMBERS and word in own.spelled)
        and other.all.isdisjoint(SMALL.get(own.surface.get(word, word), ()))
    }


def _stands_for(word: str, near: str, own: Sense, other: Sense) -> bool:
    if elsewhere(word, near, own, other):
        return False
    written, said = own.surface.get(word, word), other.surface.get(near, near)
    return near in SAME_AS.get(word, ()) or mistyped(written, word, said, near)


def _matched(a: Sense, b: Sense) -> tuple[dict[str, str], set[str], set[str]]:
    """Match words with themselves, then with synonyms, then with typing errors of them; return what is left too."""
    twins = {word: word for word in a.words if word in b.words}
    left = {word for word in a.words if word not in twins}
    right = {word for word in b.words if word not in twins}
    # Surer matches first, for all words: "plae" must not take the "place" that "put" stands for.
    for same in (synonyms, mistyped, mistyped_synonyms):
        for word in sorted(left):
            written = a.surface.get(word, word)
            for other in sorted(right):
                found = same(written, word, b.surface.get(other, other), other)
                if (found and not elsewhere(word, other, a, b)) or same_here(word, other, a, b):
                    twins[word] = other
                    left.discard(word)
                    right.discard(other)
                    break
    return twins, left, right


def _partners_in(
    words: set[str], other: Sense, table: Mapping[str, frozenset[str]], unmatched: set[str]
) -> set[str]:
    """The words that meet a partner of theirs in the other text, with those partners.

    A partner counts when nothing else explains it: it was not matched, or is a small word ("on") that never is.
    """
    found = set()
    for word in words:
        for partner in table.get(word, ()):
            if partner in _SMALL and partner in other.all:
                found |= {word, partner}
            found |= {x for near in unmatched if _means(near, partner) for x in (word, near)}
    return found


def _means(word: str, whole: str) -> bool:
    return word == whole or (not in_a_table(word) and one_off(word, whole, wrong_from=SHORTEST_TYPO))


_SMALL: Final = frozenset(map(stem, EMPTY)) & frozenset(OPPOSITE_OF)


def _conflict(a: Sense, b: Sense, left: set[str], right: set[str], *, twins: dict[str, str]) -> Conflict:
    if _other_numbers(a, b):
        return "number"
    if _partners_in(left, b, EXCLUDED_BY, right):
        return "kind"
    if _telling(left, a) and _telling(right, b) and (left & a.names or right & b.names):
        return "name"
    for x, how, y in a.directed:
        if (twins.get(y), how, twins.get(x)) in b.directed and x != y:
            return "direction"
    turned = {twins.get(word) for word in a.sources} & b.targets | {
        twins.get(word) for word in a.targets
    } & b.sources
    return "direction" if turned else ""


def _other_numbers(a: Sense, b: Sense) -> bool:
    if a.numbers != b.numbers:
        only_a, only_b = a.numbers - b.numbers, b.numbers - a.numbers
        passing = (only_a | only_b) <= LOOSE_NUMBERS and (only_a | only_b) <= (a.spelled | b.spelled)
        if (only_a and only_b) or not passing:
            return True
    return any(not (a.bound[word] & b.bound[word]) for word in a.bound.keys() & b.bound.keys())


def _polarity(a: Sense, b: Sense, twins: dict[str, str]) -> tuple[int, int]:
    """How many shared words are negated in one text alone, and how many are meant alike."""
    turned = straight = 0
    for x, y in twins.items():
        product = a.words[x] * b.words[y]
        turned += product < 0
        straight += product > 0
    return turned, straight


def _crossed(a: Sense, b: Sense, twins: dict[str, str]) -> bool:
    """Whether what comes first in one text comes last in the other."""
    if a.order is None or b.order is None:
        return False
    early, late = ({twins[word] for word in part if word in twins} for part in a.order)
    straight = len(early & b.order[0]) + len(late & b.order[1])
    crossed = len(early & b.order[1]) + len(late & b.order[0])
    if crossed != straight:
        return crossed > straight and crossed >= 2
    # "Close A before opening B" and "close B before opening A": half of the words changed places.
    whole = len(a.order[0]) + len(a.order[1]), len(b.order[0]) + len(b.order[1])
    return crossed >= 2 and whole == (crossed + straight,) * 2


def _shared_pairs(a: Sense, b: Sense, twins: dict[str, str]) -> float:
    if not a.pairs or not b.pairs:
        return 1.0 if len(twins) == len(a.words) == len(b.words) else 0.0
    translated = set()
    for x, y in a.pairs:
        p, q = twins.get(x), twins.get(y)
        if p is not None and q is not None:
            translated.add((p, q) if p <= q else (q, p))
    return 2 * len(translated & b.pairs) / (len(a.pairs) + len(b.pairs))
