"""Read advice about where things are out of a sentence, as a person with a question would.

The reader knows what it looks for and which kinds of furniture there are; it walks over the words and keeps
the last verb, whether it was negated, and the thing talked about. A place that is named then means, for that
thing: it was seen there, it is absent there, or one should search there. Sentences of people and of language
models are read the same way as those that `rules_reflector` writes; words it does not know are passed over.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from benchmarks.alfworld.place_words import Place, plural, read_numbers, singular

Stance: TypeAlias = Literal["seen", "absent", "search"]

_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d{1,6}|[;:.,!?&]")
# A lesson is a sentence. What is longer came from elsewhere, and reading it must not cost a game its time.
_LONGEST = 10_000
_NUMBER_DASH = re.compile(r"(\d)\s*[-\u2013]\s*(?=\d)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Verbs by what they say of the place that follows; the first group that has a word counts.
_VERBS = {
    "take": _words("take took taken taking pick picked get got grab grabbed fetch collect"),
    "find": _words("find found finding saw seen see spotted noticed"),
    "be": _words("is are was were be been lies lay sits sat stands stood kept stored waits"),
    "have": _words("has have had having holds hold held contains contain contained"),
    "search": _words(
        "search check look try begin start visit explore examine open inspect go gone head "
        "spend spending waste wasting avoid skip"
    ),
    "looked": _words("searched checked looked tried searching checking looking opened opening visited went"),
    "elsewhere": _words(
        "put putting place placed placing move moved moving bring brought carry drop deliver return use "
        "using with heat heated heating cool cooled cooling clean cleaned cleaning wash rinse"
    ),
}
_NOT = _words("no not never without avoid skip don't didn't isn't wasn't aren't weren't doesn't cannot nor")
_SHUN = _words("avoid skip")
_BARREN = _words("empty vain useless nothing none unsuccessful unsuccessfully fruitless")
_PAST_HELPERS = _words("did didn't haven't hadn't")
_TURNS = _words("but because since so instead however therefore as while will")
_DETERMINERS = _words(
    "the a an any some first second other another one two hot cool cold clean sliced up out of this to"
)
_PRONOUNS = _words("it them they which that one both each")
_PREPOSITIONS = _words("in on at from inside into under near by")
_LIST_WORDS = _words(", and or nor the in on from")
_JOINTS = _words(", and or nor")
_CLAUSE_JOINTS = _words(", and then")
_NONE_OF = _words("no")
_AWAITS_THING = _words("for")
_ENDS = _words(". ; : ! ?")
_NOT_NOUNS = (
    _DETERMINERS
    | _PRONOUNS
    | _PREPOSITIONS
    | _words(
        "and or nor after within for trial trials step steps attempt attempts loc than only about all those "
        "these least most number numbers then next with"
    )
)


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing a sentence says of `thing`: where it is (`seen`), is not (`absent`) or may be (`search`)."""

    thing: str
    stance: Stance
    places: tuple[Place, ...]


def read_advice(text: str, *, wanted: Collection[str], kinds: Collection[str]) -> tuple[Advice, ...]:
    """What `text` says about where the `wanted` kinds of things are.

    Args:
        text: one sentence or several, of any author.
        wanted: the kinds of things looked for, as the game spells them (`mug`).
        kinds: the kinds of receptacles in the room; other kinds are read only when the text numbers them.

    Returns:
        The advice in the order of the text, empty when the text is about something else.
    """
    # Should a receptacle and the thing looked for share a name, the thing goes first.
    nouns = {form: kind for kind in (*kinds, *wanted) for form in (kind, plural(kind))}
    text = text[:_LONGEST]
    prepared = _NUMBER_DASH.sub(r"\1 to ", text.lower().replace("\u2019", "'").replace("/", " "))
    tokens = _TOKEN.findall(_close_compounds(prepared, nouns))
    if not any(nouns.get(token) in wanted for token in tokens):
        return ()
    return _Reader(tokens, nouns, frozenset(wanted)).read()


def _close_compounds(text: str, nouns: Mapping[str, str]) -> str:
    """Write `soap bar` and `soap-bar` as the game does, `soapbar`."""
    for noun in nouns:
        text = re.sub(rf"\b{'[ -]?'.join(noun)}\b", noun, text)
    return text


@dataclass(slots=True)
class _Claim:
    """A place mention with what has been said about it so far; `None` is not (yet) advice."""

    thing: str | None
    stance: Stance | None
    places: list[Place]
    may_turn: bool
    tentative: bool = False
    turned: bool = False


@dataclass(slots=True)
class _Reader:
    """Walks over the words once; its fields are what a listener would have in mind at that point.

    Attributes:
        verb: the group of the last verb (`_VERBS`), empty after a turn of the sentence.
        negated: the clause was negated.
        topic: the last wanted thing named anywhere, for sentences that do not repeat it.
        thing: what the sentence is speaking of now; `None` when that is nothing wanted.
        awaits_thing: the next noun will be that thing ("take the ...", "for a ...").
        claimed_since_verb: a place was named since that verb.
        joined: an `and`, `then` or comma was read since the negation.
        sentence: the places named in this sentence.
        claims: those of the sentences before.
    """

    tokens: list[str]
    nouns: Mapping[str, str]
    wanted: frozenset[str]
    verb: str = ""
    negated: bool = False
    topic: str | None = None
    thing: str | None = None
    awaits_thing: bool = False
    claimed_since_verb: bool = False
    joined: bool = False
    sentence: list[_Claim] = field(default_factory=list)
    claims: list[_Claim] = field(default_factory=list)

    def read(self) -> tuple[Advice, ...]:
        at = 0
        while at < len(self.tokens):
            at = self._read_at(at)
        self._end_sentence()
        return tuple(
            Advice(claim.thing, claim.stance, tuple(claim.places))
            for claim in self.claims
            if claim.thing in self.wanted and claim.thing is not None and claim.stance is not None
        )

    def _read_at(self, at: int) -> int:
        noun = self._noun_at(at)
        if noun is not None:
            numbers, after = read_numbers(self.tokens, at + 1)
            if noun in self.wanted:
                self._hear_thing(noun)
                return after
            if not self.awaits_thing or numbers:
                self._hear_places([Place(noun, number) for number in numbers or (None,)], at)
                return after
        self._hear_word(self.tokens[at], at)
        return at + 1

    def _noun_at(self, at: int) -> str | None:
        """The kind of thing or receptacle that a word names; any word before a number may name one."""
        token = self.tokens[at]
        numbered = at + 1 < len(self.tokens) and self.tokens[at + 1].isdecimal()
        if token not in self.nouns and numbered and token.isalpha() and token not in _NOT_NOUNS:
            return singular(token)
        return self.nouns.get(token)

    def _hear_thing(self, noun: str) -> None:
        self.thing = self.topic = noun
        self.awaits_thing = False
        # "cabinet 3 had the mug": the thing comes after the place.
        if self.verb == "have" and self.sentence and self.sentence[-1].stance is None:
            self.sentence[-1].thing = noun
            self.sentence[-1].stance = "absent" if self.negated else "seen"

    def _hear_places(self, places: list[Place], at: int) -> None:
        self.awaits_thing = False
        if self._continues_list(at):
            self.sentence[-1].places += places
            return
        thing = (self.thing or self.topic) if self.verb in {"search", "looked"} else self.thing
        self.sentence.append(
            _Claim(thing, self._stance(), places, self.verb in {"", "looked", "search", "have"})
        )
        self.sentence[-1].tentative = self.verb == "search" and not self.negated
        self.sentence[-1].turned = self.verb == "search" and self.negated
        self.claimed_since_verb = True

    def _continues_list(self, at: int) -> bool:
        """Nothing but joints and articles stands between the previous place and this one."""
        if not self.sentence:
            return False
        back = at - 1
        joints = 0
        while back >= 0 and self.tokens[back] in _LIST_WORDS:
            joints += self.tokens[back] in _JOINTS
            back -= 1
        if back < 0 or joints == 0:
            return False
        last = self.tokens[back]
        return last.isdecimal() or (last in self.nouns and self.nouns[last] not in self.wanted)

    def _stance(self) -> Stance | None:
        if self.verb in {"take", "find", "be"}:
            return "absent" if self.negated else "seen"
        if self.verb == "search":
            return "absent" if self.negated else "search"
        return "absent" if self.verb == "" and self.negated else None

    def _hear_word(self, token: str, at: int) -> None:
        if token in _ENDS:
            self._end_sentence()
        elif token in _CLAUSE_JOINTS:
            self.joined = True
        elif token in _TURNS:
            self.verb, self.negated, self.claimed_since_verb = "", False, False
        elif token in _NOT:
            self._hear_not(token, at)
        elif token in _BARREN:
            self._turn_barren()
        elif verb := _verb_of(token):
            self._hear_verb(verb, at)
        elif token in _AWAITS_THING:
            self.awaits_thing = True
        elif self.awaits_thing and token not in _DETERMINERS and token.isalpha():
            # Some thing that is not looked for, or none: "take it from", "was found on".
            self.awaits_thing = False
            if token not in _PRONOUNS | _PREPOSITIONS:
                self.thing = None

    def _hear_not(self, token: str, at: int) -> None:
        before = self.tokens[at - 1] if at else ""
        if token in _NONE_OF and self.verb == "have" and before in _VERBS["have"]:
            self._turn_barren()
        # "I did not check cabinet 3" regrets it: the place is still to be searched.
        regrets = (token in _PAST_HELPERS or before in _PAST_HELPERS) and any(
            word in _VERBS["search"] for word in self.tokens[at + 1 : at + 3]
        )
        self.negated, self.joined = not regrets, False
        if token in _NONE_OF:
            self.verb, self.awaits_thing = "", True
        elif token in _SHUN:
            self.verb = "search"

    def _hear_verb(self, verb: str, at: int) -> None:
        if verb == "elsewhere" and self.sentence and self.sentence[-1].tentative and self.claimed_since_verb:
            # "go to sinkbasin 1 and clean it" is about the sink, not about where the thing is.
            self.sentence[-1].stance = None
        if self.claimed_since_verb or self.joined:
            # A negation reaches to the end of its own clause.
            self.negated = self.negated and self.tokens[at - 1] in _NOT
        self.claimed_since_verb = self.joined = False
        # "I should have checked shelf 1" is about the next time, "I checked shelf 1" about the last.
        self.verb = "search" if verb == "looked" and "should" in self.tokens[max(0, at - 3) : at] else verb
        if verb in {"take", "find"}:
            self.awaits_thing = True
        elif verb == "be":
            self._hear_be(at)

    def _hear_be(self, at: int) -> None:
        before = [token for token in self.tokens[max(0, at - 3) : at] if not token.isdecimal()]
        last = before[-1] if before else ""
        if last == "there":
            self.awaits_thing = True
        elif self.nouns.get(last) not in self.wanted and last not in _PRONOUNS | _VERBS["be"]:
            self.thing = None

    def _turn_barren(self) -> None:
        """Words after a place that say what it was worth: `... , which were empty`, `... in vain`."""
        for claim in reversed(self.sentence):
            if not claim.may_turn:
                break
            claim.stance = "absent"
            claim.thing = claim.thing or self.thing or self.topic
            claim.may_turn, claim.tentative, claim.turned = False, False, True

    def _end_sentence(self) -> None:
        for claim in self.sentence:
            if claim.thing is None and (claim.tentative or claim.turned):
                claim.thing = self.topic
        self.claims += self.sentence
        self.sentence = []
        self.verb, self.negated, self.awaits_thing, self.claimed_since_verb = "", False, False, False
        self.thing = None


def _verb_of(token: str) -> str:
    return next((verb for verb, words in _VERBS.items() if token in words), "")
