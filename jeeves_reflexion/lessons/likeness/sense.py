"""Reads a lesson for comparison: its words with their negation, its numbers and names, and what comes before what."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from jeeves_reflexion.lessons.likeness.placing import Placed, placed_by
from jeeves_reflexion.lessons.likeness.spelling import (
    contractions,
    corrected,
    mended,
    one_off,
    phrases_mended,
    slipped,
)
from jeeves_reflexion.lessons.likeness.wording import (
    BREAKS,
    DESCRIBING,
    DETERMINERS,
    DIRECTED,
    EMPTY,
    MAKING,
    NEEDING,
    NEGATORS,
    NUMBERS,
    PHRASES,
    PREPOSITIONS,
    PURPOSES,
    REASONS,
    STOPS,
    UNITS,
    in_a_table,
    is_word,
    stem,
)

MOST_CHARACTERS: Final = 2000
"""What lies beyond is not compared: a lesson is one sentence."""

_NEAR: Final = 2
_TOKEN: Final = re.compile(
    r"[^\W_]*\d+(?:[.:,/]\d+)*%?(?:[^\W\d_]\w*)?|[^\W\d_]+(?:_\w+)*|[,;:.()]|(?<=\s)[-\u2013\u2014](?=\s)"
)
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_WITH_UNIT: Final = re.compile(rf"(\d)({'|'.join(sorted(UNITS, key=len, reverse=True))})\b")
_PHRASE: Final = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(PHRASES, key=len, reverse=True)))})\b")
_NOT_UNTIL: Final = re.compile(r"\b(?:do not|never|not) ([^,;:.]+?) (?:until|unless|without|before) ")
_FIRST_THEN: Final = re.compile(r"\bfirst,? ([^,;:.]+?)[,;]? (?:and )?(?:only )?then,? ")
_PREPOSITIONS: Final = DIRECTED | PREPOSITIONS
_RELATIVE: Final = frozenset({"that", "which", "who"})
_ARTICLES: Final = frozenset({"a", "an", "the", "its", "their", "your", "this", "that", "these", "those"})
_PRONOUNS: Final = frozenset({"it", "them"})
_SUBJECT: Final = 2
"""So many words stand before a verb that says something of a thing ("The endpoint expects")."""
_NEED_BEGINS: Final = frozenset(verb[0] for verb in NEEDING)
_HALVES: Final = frozenset({"half", "twice", "double"})
"""Words that stand between a verb and its object, and change how much of it is meant."""
_REMARK: Final = 5
"""A clause with fewer words may be advice."""
_SOURCES: Final = frozenset({"from"})
_TARGETS: Final = frozenset({"to", "into", "onto", "toward", "towards"})
_ONES: Final = DETERMINERS | {"which", "no", "any", "another", "other", "last", "first", "same", "by"}
_EMPTY_STEMS: Final = EMPTY | frozenset(map(stem, EMPTY))
_EMPTY_LONG: Final = tuple(sorted(word for word in _EMPTY_STEMS if len(word) > 3))


@dataclass(frozen=True, slots=True)
class Sense:
    """What a text says, as far as comparing needs it.

    ``words`` are the stems that carry advice, with 1 (meant), -1 (negated) or 0 (either: before the "not" of their
    clause, or both ways); those of ``aside`` stand in reasons alone. ``surface`` holds words as they were written,
    ``all`` every stem. ``numbers`` are in digits, those of ``spelled`` were written as words; ``bound`` holds the
    numbers that follow a word ("fridge 1"). ``pairs`` are words that stand near each other, ``directed`` words on
    either side of a preposition, ``sources`` and ``targets`` what follows "from" and "to", ``order`` the words of
    what comes first and of what comes later, where the text says so. ``parts`` are the words of each clause, and of
    each side of an "and" in it; ``heads`` are words that stand where the verb of an order does, ``states`` those that
    stand where the verb of a statement does. ``placed`` are words that follow a preposition, ``any_one`` those that
    describe a thing which is not one of several known ones ("a short text"). ``needy`` are words of which a verb of
    need is said ("the pump needs water"), which is no word of its own; ``after`` are stems with the one behind them.
    ``acting`` are verbs of orders with what they are done to, and those of making that say nothing ("make a copy");
    ``placing`` says in which relations the text has a thing ("in the cabinet").
    """

    words: Mapping[str, int]
    aside: frozenset[str]
    surface: Mapping[str, str]
    all: frozenset[str]
    numbers: frozenset[str]
    spelled: frozenset[str]
    bound: Mapping[str, frozenset[str]]
    names: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    directed: frozenset[tuple[str, str, str]]
    sources: frozenset[str]
    targets: frozenset[str]
    order: tuple[frozenset[str], frozenset[str]] | None
    parts: tuple[frozenset[str], ...]
    heads: frozenset[str]
    states: frozenset[str]
    placed: frozenset[str]
    any_one: frozenset[str]
    needy: frozenset[str]
    after: frozenset[tuple[str, str]]
    acting: frozenset[str]
    placing: Placed


@dataclass(slots=True)
class _Clause:
    opened_by: str
    reason: bool = False
    negations: int = 0
    before: int = 0
    words: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    parts: list[set[str]] = field(default_factory=lambda: [set()])
    heads: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    tokens: int = 0

    def take(self, word: str, written: str) -> None:
        self.words.append(word)
        self.written.append(written)
        self.parts[-1].add(word)

    def signs(self) -> Iterator[tuple[str, int]]:
        """Each word with its sign: what stands before the "not" may be meant or be what is not to be done to."""
        if self.negations % 2 == 0:
            yield from ((word, 1) for word in self.words)
            return
        yield from ((word, 0 if at < self.before else -1) for at, word in enumerate(self.words))


@lru_cache(maxsize=8192)
def sense_of(text: str) -> Sense:
    """Read a text; the last few thousand readings are kept."""
    text = unicodedata.normalize("NFKC", text[:MOST_CHARACTERS])
    tokens, written = _tokens(text)
    clauses, spelled = _clauses(tokens)
    words: dict[str, int] = {}
    for clause in clauses:
        for word, sign in clause.signs():
            words[word] = sign if words.get(word, sign) == sign else 0
    numbers = frozenset(word for word in words if word[0].isdigit() or any(c.isdigit() for c in word))
    return Sense(
        words=words,
        aside=frozenset(words).difference(*(clause.words for clause in clauses if not clause.reason)),
        surface={stem(token): written.get(token, token) for token in tokens},
        all=frozenset(map(stem, tokens)),
        numbers=numbers,
        spelled=frozenset(spelled) & numbers,
        bound=_bound(clauses, numbers),
        names=_names(text) & words.keys(),
        pairs=frozenset(pair for clause in clauses for pair in _pairs(clause.words)),
        directed=_directed(tokens),
        sources=_following(tokens, _SOURCES),
        targets=_following(tokens, _TARGETS),
        order=_order(clauses),
        parts=tuple(frozenset(part) for clause in clauses for part in clause.parts if part),
        heads=frozenset(word for clause in clauses for word in clause.heads),
        states=frozenset(word for clause in clauses for word in clause.states),
        placed=_following(tokens, _PREPOSITIONS),
        any_one=frozenset(
            stem(token)
            for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
            if before in ("a", "an") and _tells(after)
        ),
        needy=frozenset(stem(tokens[at - 1]) for at in range(len(tokens)) if _needs(tokens, at)),
        after=frozenset(pairwise(map(stem, tokens))),
        acting=frozenset(stem(tokens[at]) for at in range(len(tokens)) if _acts(tokens, at)),
        placing=placed_by(tokens),
    )


def _tokens(text: str) -> tuple[list[str], dict[str, str]]:
    """The words of a text, mended, and as what those were written that were no words."""
    plain = contractions(" ".join(text.casefold().split()).replace("\u2019", "'"))
    plain = phrases_mended(_WORD.sub(lambda found: mended(found[0]), plain))
    written = {corrected(word): word for word in _WORD.findall(plain)}
    plain = _WORD.sub(lambda found: corrected(found[0]), plain)
    plain = _PHRASE.sub(lambda found: PHRASES[found[0]], plain)
    plain = _WITH_UNIT.sub(lambda found: f"{found[1]} {UNITS[found[2]]}", plain)
    # "first read, then write" says "read before you write".
    plain = _FIRST_THEN.sub(r"\1 before ", plain)
    # "do not write until you have read" says "write after you have read".
    plain = _NOT_UNTIL.sub(r"\1 after ", plain)
    return _TOKEN.findall(plain), written


def _clauses(tokens: list[str]) -> tuple[list[_Clause], set[str]]:
    clauses = [_Clause("")]
    spelled: set[str] = set()
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        before = tokens[at - 1] if at else ""
        here = clauses[-1]
        if _breaks(token, following, here):
            here = _Clause(token, reason=_opens_reason(token, here))
            clauses.append(here)
        here.tokens += token not in STOPS
        if token in NEGATORS:
            here.before = here.before if here.negations else len(here.words)
            here.negations += 1
            continue
        if token in ("and", "or"):
            here.parts.append(set())
        number = NUMBERS.get(token)
        if number is None:
            _take(here, tokens, at)
        elif token != "one" or not (following in ("by", "of") or (at and before in _ONES)):  # noqa: S105
            spelled.add(number)
            here.take(number, token)
    return [clause for clause in clauses if not _remark(clause)], spelled


def _take(clause: _Clause, tokens: list[str], at: int) -> None:
    """Take a word into its clause, if it is one that carries advice."""
    token, before = tokens[at], tokens[at - 1] if at else ""
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if _describes(before, token, following):
        clause.take(stem(token), token)
    elif _tells(token) and not _needs(tokens, at):
        clause.take(stem(token), token)
        if _states(tokens, at):
            clause.states.add(stem(token))
        elif _heads(before, following):
            clause.heads.add(stem(token))


def _tells(token: str) -> bool:
    known = token in _EMPTY_STEMS or token in BREAKS or not token[0].isalnum()
    return not known and stem(token) not in _EMPTY_STEMS


def _describes(before: str, token: str, following: str) -> bool:
    return token in DESCRIBING and before in DETERMINERS and bool(following) and _tells(following)


def _states(tokens: list[str], at: int) -> bool:
    """Whether a word stands where a verb does between what it is said of and what it is done to."""
    before, early = (tokens[at - back] if at >= back else "" for back in (1, 2))
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    if before in _RELATIVE:
        return bool(early) and _tells(early)
    said_of = bool(before) and _tells(before) and at >= _SUBJECT and tokens[at] not in _HALVES
    return said_of and (following in _ARTICLES or following in _PRONOUNS)


def _needs(tokens: list[str], at: int) -> bool:
    """Whether a word is a verb of need between what needs and what it needs."""
    word = tokens[at]
    if word[0] not in _NEED_BEGINS or not at or at + 1 == len(tokens) or not _is_need(word):
        return False
    before, following = tokens[at - 1], tokens[at + 1]
    return _tells(before) and (following in _ARTICLES or _tells(following))


@lru_cache(maxsize=16384)
def _is_need(word: str) -> bool:
    """Whether a word is a verb of need, or no common word and a slip of one."""
    if word in NEEDING:
        return True
    return not is_word(word, common=True) and any(slipped(word, verb) for verb in NEEDING)


def _acts(tokens: list[str], at: int) -> bool:
    """Whether a word is the verb of an order, with what it is done to; a verb of making says nothing without that."""
    before, following = tokens[at - 1] if at else "", tokens[at + 1] if at + 1 < len(tokens) else ""
    if tokens[at] in MAKING:
        thing = next((token for token in tokens[at + 1 : at + 3] if token not in DETERMINERS), "")
        return bool(thing) and _tells(thing) and _heads(before, "")
    return following in _ARTICLES and _heads(before, following) and _tells(tokens[at])


def _heads(before: str, following: str) -> bool:
    """Whether a word stands where the verb of an order does, and describes nothing."""
    opens = not before or before in BREAKS or before in NEGATORS or before in ("and", "or", "to")
    opens = opens or (before in EMPTY and before not in DETERMINERS and before not in _PREPOSITIONS)
    return opens and (not following or following in BREAKS or following in EMPTY)


def _remark(clause: _Clause) -> bool:
    """Whether a clause says nothing but for a word that is a slip of such words: "that is what went wring"."""
    if len(clause.words) != 1 or clause.tokens < _REMARK:
        return False
    (word,), (written,) = clause.words, clause.written
    return word.isalpha() and any(
        one_off(each, whole, wrong_from=4)
        for each in {word, written}
        for whole in _EMPTY_LONG
        if whole[0] == word[0]
    )


def _breaks(token: str, following: str, clause: _Clause) -> bool:
    if token == "and":  # noqa: S105
        held = clause.negations or clause.opened_by in ("before", "after")
        return bool(held) and following not in DETERMINERS
    if token == "once":  # noqa: S105
        return following not in _PREPOSITIONS and following not in ("every", "each", "a", "more")
    return token in BREAKS or (token == "to" and following in PURPOSES)  # noqa: S105


def _opens_reason(token: str, before: _Clause) -> bool:
    return token in REASONS or token == "to" or (before.reason and token not in STOPS)  # noqa: S105


def _pairs(words: list[str]) -> set[tuple[str, str]]:
    found = set()
    for at, word in enumerate(words):
        for other in words[at + 1 : at + 1 + _NEAR]:
            found.add((word, other) if word <= other else (other, word))
    return found


def _bound(clauses: list[_Clause], numbers: frozenset[str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for clause in clauses:
        for word, number in zip(clause.words, clause.words[1:], strict=False):
            if number in numbers and word not in numbers:
                found.setdefault(word, set()).add(number)
    return {word: frozenset(with_it) for word, with_it in found.items()}


def _directed(tokens: list[str]) -> frozenset[tuple[str, str, str]]:
    found = set()
    for at in range(1, len(tokens) - 1):
        if tokens[at] in DIRECTED:
            after = next((t for t in tokens[at + 1 : at + 4] if t not in DETERMINERS), "")
            if after and tokens[at - 1] not in _EMPTY_STEMS and after not in _EMPTY_STEMS:
                found.add((stem(tokens[at - 1]), tokens[at], stem(after)))
    return frozenset(found)


def _following(tokens: list[str], heads: frozenset[str]) -> frozenset[str]:
    """Return what follows such a word, as a stem, past articles."""
    found = set()
    for at, token in enumerate(tokens):
        if token in heads:
            after = next((t for t in tokens[at + 1 : at + 4] if t not in DETERMINERS), "")
            if after and after not in _EMPTY_STEMS:
                found.add(stem(after))
    return frozenset(found)


def _order(clauses: list[_Clause]) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the words of what comes first and of what comes later, by the first "before" or "after" with both."""
    for at, clause in enumerate(clauses):
        if clause.opened_by not in ("before", "after") or not clause.words:
            continue
        earlier = [c for c in clauses[:at] if c.words and c.opened_by not in ("before", "after")]
        later = [c for c in clauses[at + 1 :] if c.words]
        other = earlier[-1] if earlier else later[0] if later else None
        if other is not None:
            mine, others = frozenset(clause.words), frozenset(other.words)
            return (mine, others) if clause.opened_by == "after" else (others, mine)
    return None


def _names(text: str) -> frozenset[str]:
    """Return the stems of words written as names: capitals within, or a capital where no sentence begins."""
    if text.isupper():
        return frozenset()
    found = set()
    words = text.split()
    for before, word in zip([".", *words], words, strict=False):
        bare = word.strip(".,;:!?()\"'`")
        inside = bare[1:] != bare[1:].lower() or "_" in bare
        if bare and (inside or (bare[0].isupper() and before[-1] not in ".:,!?-")):
            root = stem(bare.casefold())
            if inside or not in_a_table(root):
                found.add(root)
    return frozenset(found)
