"""Read advice about where things are out of a sentence: a few forms of clauses, and nothing else.

A sentence is cut into clauses, and a clause is read only where it has one of the forms below from its first word
to its last. So a word that is not in a form (`hardly`, `I doubt that`, `except`) makes its clause unread: a reader that
passed over words it does not know would take such a sentence for its opposite. A clause that is not understood also
takes back the one before it (`..., but it wasn't`), unless it only says what to do next or why.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from benchmarks.alfworld.place_words import Place, plural, read_numbers, singular

Stance: TypeAlias = Literal["seen", "absent", "search"]

_TOKEN = re.compile(r"[^\W\d_]+|\d{1,6}|[;:.,!?&]")
# A lesson is a sentence. What is longer came from elsewhere, and reading it must not cost a game its time.
_LONGEST = 10_000
_NUMBER_DASH = re.compile(r"(\d)\s*[-\u2013]\s*(?=\d)")
# A number after one of these is not the number of a place.
_NOT_NOUNS = re.compile(r"an?|the|in|on|at|to|from|of|for|and|n?or|after|with|than|about|steps?|trial")

# Pieces of the forms. `<t0>` and `<p0>` stand for the first thing looked for and the first list of places.
_DET = r"(?:(?:the|an?|any|some|this|one|first|second|other|another|hot|cool|cold|clean|sliced) )*"
_T = rf"{_DET}<t(?P<thing>\d+)>"
# Where there is no clean mug there may be another.
_NO_T = r"(?:(?:the|an?|any|other) )*<t(?P<thing>\d+)>"
_P = r"(?:all )?(?:the )?<p(?P<places>\d+)>"
_AT = r"(?:in|on|at|inside|from)"
_BE = r"(?:is|are|was|were|lies|lay|stands|stood)"
_HEAD = (
    r"(?:(?:next time|in (?:the next|this) \w+|first|also|instead|i|you|we|will|would|should(?: have)?|must|could have|"
    r"need to|make sure to|remember (?:that|to)|noticed that|forgot to|to|please) )*"
)
_TAIL = (
    rf"(?: (?:first|next|again|already|instead|too late|next time|when {_DET}<t\d+> is (?:needed|wanted)|"
    rf"(?:when|if) (?:you )?(?:look(?:ing)?|search(?:ing)?) for {_DET}<t\d+>))*"
)
_TAKE = (
    r"(?:take|took|taken|taking|get|got|grab|grabbed|fetch|collect|pick(?:ed)?(?: up)?|find|found|finding|saw|seen?|"
    r"spotted|noticed)"
)
_FIND = r"(?:find|found|seen?|saw|spot|locate)"
_HAVE = r"(?:has|have|had|holds?|held|contain(?:s|ed)?)"
_NOT_DO = r"(?:(?:did|do|does|can|could) not|never|failed to|(?:was|am) unable to)"
_LOOK = r"(?:search|check|look|try|begin|start|visit|explore|examine|open|inspect|go|head)"
_LOOKED = r"(?:searched|checked|looked|tried|visited|explored|examined|opened|inspected|went|gone)"
_WHERE = rf"(?: for {_T})?(?: (?:in|on|at|to|with|by|inside|through))? {_P}(?: first)?"
_FOR = rf"(?: for {_DET}<t(?P<thing2>\d+)>)?"

_FORM_TEXTS: tuple[tuple[Stance | None, str], ...] = (
    ("seen", rf"{_HEAD}{_TAKE} {_T} {_AT} {_P}"),
    ("seen", rf"{_HEAD}there {_BE} {_T} {_AT} {_P}"),
    ("seen", rf"{_HEAD}{_T} {_BE}(?: found| seen| kept)? {_AT} {_P}"),
    ("seen", rf"{_P} {_HAVE} {_T}"),
    ("absent", rf"{_HEAD}there {_BE} (?:no|not) {_NO_T} {_AT} {_P}"),
    ("absent", rf"no {_NO_T}(?: {_BE})?(?: found| seen| kept)? {_AT} {_P}"),
    ("absent", rf"{_HEAD}{_NO_T} {_BE} not(?: found| seen| kept)? {_AT} {_P}"),
    ("absent", rf"{_HEAD}{_NOT_DO} {_FIND} {_NO_T} {_AT} {_P}"),
    ("absent", rf"{_P} {_NOT_DO} {_HAVE} {_NO_T}"),
    ("absent", rf"{_P} {_HAVE} no {_NO_T}"),
    ("absent", rf"(?:do not|never) (?:{_LOOK}|(?:waste|spend) (?:steps|time)){_WHERE}{_FOR}"),
    ("absent", rf"(?:avoid|skip) {_P}{_FOR}"),
    ("absent", rf"i {_LOOKED}{_WHERE}{_FOR} in vain"),
    (None, rf"{_HEAD}(?:go|head) to {_P}"),
    ("search", rf"i did not {_LOOK}{_WHERE}{_FOR}"),
    ("search", rf"{_HEAD}{_LOOK}{_WHERE}{_FOR}"),
    ("search", rf"{_HEAD}should have {_LOOKED}{_WHERE}{_FOR}"),
    (None, rf"i {_LOOKED}{_WHERE}{_FOR}"),
)
_FORMS = tuple((stance, re.compile(form + _TAIL)) for stance, form in _FORM_TEXTS)
_WHICH_IS = re.compile(rf"which {_BE} {_AT} {_P}")
_NOT_THERE = re.compile(rf"(?P<no>not )?{_AT} {_P}")
_WHICH_EMPTY = re.compile(r"which (?:was|were) empty")
_ALSO_TAKE = re.compile(rf"{_T} from {_P}")
_FIND_IT = re.compile(rf"{_HEAD}{_TAKE} {_T}{_TAIL}")
_HANDLE = re.compile(
    rf"{_HEAD}(?:put|place|move|bring|carry|use|heat|cool|clean|wash|rinse|turn|go|look|take|begin)(?:ed|d|ing)?\b"
)
_JOINT = re.compile(r" ?\b(?:but|and|then|because|since|so|while|before)\b ?| ?[,;:.] ?")
# What may join a clause that is not understood, and leave the one before it as it is.
_MILD = frozenset({"then", "because", "since", ";", ":"})


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
        The advice in the order of the text, empty when the text is about something else or has another form.
    """
    # Should a receptacle and the thing looked for share a name, the thing goes first.
    nouns = {form: kind for kind in (*kinds, *wanted) for form in (kind, plural(kind))}
    prepared = text[:_LONGEST].lower().replace("\u2019", "'").replace("/", " ").replace("cannot", "can not")
    prepared = _NUMBER_DASH.sub(r"\1 to ", prepared.replace("n't", " not"))
    tokens = _TOKEN.findall(_close_compounds(prepared, nouns))
    if not any(nouns.get(token) in wanted for token in tokens):
        return ()
    advice: list[Advice] = []
    start = 0
    for at, word in enumerate([*tokens, "."]):
        if word in {".", "!", "?"}:
            # What is asked is not said.
            advice += _Sentence(tokens[start:at], nouns, wanted).read() if word != "?" else []
            start = at + 1
    return tuple(advice)


def _close_compounds(text: str, nouns: Mapping[str, str]) -> str:
    """Write `soap bar` and `soap-bar` as the game does, `soapbar`."""
    for noun in nouns:
        text = re.sub(rf"\b{'[ -]?'.join(noun)}\b", noun, text)
    return text


@dataclass(slots=True)
class _Claim:
    """What a clause says; no `stance` (yet) is no advice."""

    thing: str | None
    stance: Stance | None
    places: tuple[Place, ...]


def _numbered(tokens: Sequence[str], at: int) -> str | None:
    """The kind of place that a word names which no list has: any word before a number may name one."""
    if at + 1 == len(tokens) or not tokens[at + 1].isdecimal() or not tokens[at].isalpha():
        return None
    return None if _NOT_NOUNS.fullmatch(tokens[at]) else singular(tokens[at])


class _Sentence:
    """The words of one sentence, with things and lists of places as one word each."""

    def __init__(self, tokens: list[str], nouns: Mapping[str, str], wanted: Collection[str]) -> None:
        self._named = 0
        self._things: list[str] = []
        self._places: list[tuple[Place, ...]] = []
        words: list[str] = []
        at = 0
        while at < len(tokens):
            noun = nouns.get(tokens[at]) or _numbered(tokens, at)
            if noun is None:
                words.append(tokens[at])
                at += 1
                continue
            numbers, at = read_numbers(tokens, at + 1)
            if noun in wanted:
                words.append(f"<t{len(self._things)}>")
                self._things.append(noun)
            else:
                words.append(f"<p{len(self._places)}>")
                self._places.append(tuple(Place(noun, number) for number in numbers or (None,)))
        self._text = self._joined_places(" ".join(words))

    def _joined_places(self, text: str) -> str:
        """`<p0> , <p1> and in the <p2>` is one list of places."""
        joined = re.compile(r"<p(\d+)>(?: (?:,|and|or|nor|&))+(?: (?:in|on|from))?(?: the)? <p(\d+)>")
        while found := joined.search(text):
            self._places.append(self._places[int(found[1])] + self._places[int(found[2])])
            text = f"{text[: found.start()]}<p{len(self._places) - 1}>{text[found.end() :]}"
        return text

    def read(self) -> list[Advice]:
        """What the sentence says, clause by clause."""
        claims: list[_Claim] = []
        joint, clause, start = "", "", 0
        for found in _JOINT.finditer(self._text + " ."):
            following = self._text[start : found.start()].strip()
            start = found.end()
            self._named = self._text[:start].count("<t")
            if following:
                claim = self._read_clause(following, joint, clause, claims[-1] if claims else None)
                claims.append(claim)
                clause = following
            # `, but` and `, and then` join by the word.
            joint = found[0].strip() if following or found[0].strip() != "," else joint
        return [
            Advice(claim.thing, claim.stance, claim.places)
            for claim in claims
            if claim.stance is not None and claim.thing is not None
        ]

    def _read_clause(self, clause: str, joint: str, before: str, claim: _Claim | None) -> _Claim:
        """What a clause says, given the clause before it, what that one claimed, and what joins the two."""
        is_denied = joint == ":" and claim is not None and claim.stance is None  # "False: the mug is in ..."
        for stance, form in _FORMS:
            if (found := form.fullmatch(clause)) and not is_denied:
                parts = found.groupdict()
                number = parts.get("thing") or parts.get("thing2")
                return self._claim(number, stance, parts["places"])
        if (found := _WHICH_IS.fullmatch(clause)) and (named := re.search(r"<t(\d+)>$", before)):
            return self._claim(named[1], "seen", found["places"])
        if claim is None:
            return _Claim(None, None, ())
        if (found := _ALSO_TAKE.fullmatch(clause)) and claim.stance == "seen":
            return self._claim(found["thing"], "seen", found["places"])
        if (found := _NOT_THERE.fullmatch(clause)) and claim.stance == ("seen" if found["no"] else "absent"):
            # "not in cabinet 2 but in drawer 1", "in drawer 1, not in cabinet 2"
            stance = "absent" if found["no"] else "seen"
            return _Claim(claim.thing, stance, self._places[int(found["places"])])
        if _WHICH_EMPTY.fullmatch(clause):
            claim.stance = "absent" if claim.stance in {None, "absent"} else None
        elif (found := _FIND_IT.fullmatch(clause)) and claim.stance in {None, "search"} and claim.places:
            claim.stance, claim.thing = "search", self._things[int(found["thing"])]
        elif joint not in _MILD and not _HANDLE.match(clause):
            claim.stance = None
        return _Claim(None, None, ())

    def _claim(self, thing: str | None, stance: Stance | None, places: str) -> _Claim:
        """A claim with the numbers of its words; one that names no thing is about the last that was named."""
        topic = self._things[max(0, self._named - 1)] if self._things else None
        return _Claim(self._things[int(thing)] if thing else topic, stance, self._places[int(places)])
