"""The page of what was measured with paraphrases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Final

from jeeves_reflexion.types import JSON

_HEAD: Final = (
    (
        "| embedder | | seed | paraphrases | lessons left | after consolidation | base lessons lost | merged wrongly"
        " | purity | links | ms a write |"
    ),
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)
_INTRO: Final = Template(
    "Measured by `python -m benchmarks.lessons.paraphrases` (`--help` names the options, one of them for the file of"
    " logged reflections) on $machine. $bases lessons are said in other words: other orders of the clauses, active and"
    " passive, synonyms, contractions, phrases before and after, typing errors, casing. Most of them are near-pairs"
    " that must stay apart (fridge 1 and fridge 2, before and after, do and don't). Each paraphrase is a newcomer that"
    " looks at its five nearest lessons by the vectors of the texts. The word tables of the rules and this corpus were"
    " made by the same hand, and the rules were mended until they did well on it; most synonyms come from WordNet, by"
    " how often its senses were counted, the rest from the same hand. The $first lessons held out, the $later held out"
    " later, the $third held out third, the $last held out last and the $newest newest were each written before the"
    " rules were next changed, by the same hand too: what is left of those shows how much the rules owe to words that"
    " they know, what is merged wrongly shows whether they can be trusted with words that they don't. The first two"
    " were no longer"
    " unseen when the table of synonyms was made, although nothing was taken from them. What was left of the third was"
    " looked at when"
    ' stored lessons were first merged on writing: that words such as "remember" and "get" tell nothing apart, and that'
    ' "first A, then B" is an order, was seen there. Of those held out last only the counts were looked at. Each of the'
    " third has twelve free wordings and each of the last ten, several of which say less than the others or more, and"
    " stay apart for that. The $newest newest came before slips were judged by what a whole lesson keeps and before"
    " statements of need were read. The rules of that day merged two of them into one (wheels turned towards the kerb"
    " and away from it: 6 wrong in one seed, 123 in another); that was mended, and nothing else was changed for them."
)
_TERMS: Final = (
    "After consolidation: the rules of `lessons consolidate` over the whole library, again until they find nothing to"
    " do. A base lesson is lost when none of the lessons left is its own; purity is the share of the paraphrases that"
    " ended in a lesson of their own base. Links are pairs noted as contradictory. The milliseconds are of processor"
    " time, with the search and without the embedding; those of VectorLessonStore include redaction, screening and the"
    " history of each lesson, and it is not consolidated here."
)
_PAIRS: Final = (
    "Pairs of lessons from many fields that differ in one thing which matters, most often in a word that no table"
    " knows: tomato and potato, stdin and stdout, desert and dessert, the acid to the water and the water to the acid."
    " Merging one into the other loses it. A pair counts when it is merged in either order, for the same task. The"
    " rules merged 11 of the first 155 when these were written, and 61 of the other 91: the API and the old API, the"
    " rows and the empty rows, words that are synonyms elsewhere. They were mended until they merged none: what says"
    " which one is told by tables of adjectives (WordNet) and of other words, written with these pairs in sight."
    " This is why `max_within` stays 0 and `sure_similarity` 1.0: no similarity of a sentence tells a synonym from"
    " another thing of its kind."
    " By way of a third: one of a pair is stored, then a lesson that says what both say and lacks what they differ in"
    ' (the words are left out, or "it" stands there), then the other; it counts when that one ends in the same lesson.'
    " The rules merged 236 of 984 of these until a wording that a lesson keeps had to say what it is to explain."
    " Vague first: the one that lacks it is stored first, and both come after it; a lesson that says less takes in"
    " those that say a little more, and the second is kept apart where the first is known by a wording."
    " The 36 newer ones were written before the rules were last changed: what a thing needs and what it turns down,"
    " verbs of making, prepositions, slips that are words. The rules before that merged 5 of them on writing and 20 of"
    " 144 by way of a third (the valve needs oil, the valve leaks oil; make a request, block a request), because some"
    " verbs told nothing apart. They were mended with these pairs in sight."
)
_SETTINGS: Final = (
    "One setting changed at a time. `sure_similarity` lets one unknown word stand for another from there on. Writers"
    " at once look before any of them writes, as in many processes."
)
_LOGGED: Final = (
    "Each reflection counts as a base lesson of its own above, so that all merges look wrong there. Most are an agent's"
    " next reflection on the same game, in almost the same words. The command prints them: the stored text, the"
    " newcomer, and why. They are the log's, and not repeated here."
)
STORE: Final = "fifty lessons, by VectorLessonStore"
MAIN: Final = (
    "fifty lessons",
    "held out",
    "held out later",
    "held out third",
    "held out last",
    "held out newest",
    STORE,
    "logged reflections",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One run; ``milliseconds`` are of processor time for one write, without embedding, ``embedding`` for one text."""

    embedder: str
    what: str
    seed: int
    n: int
    written: Mapping[str, JSON]
    mended: Mapping[str, JSON]
    milliseconds: float
    links: int
    embedding: float


@dataclass(frozen=True, slots=True)
class PairRow:
    """How many of the near-pairs are merged in one way."""

    embedder: str
    how: str
    n: int
    merged: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All runs; ``bases`` and ``held_out`` are the numbers of base lessons."""

    machine: str
    bases: int
    held_out: tuple[int, ...]
    rows: tuple[Row, ...]
    pairs: tuple[PairRow, ...] = ()
    merged: tuple[str, ...] = ()


def page(figures: Figures) -> str:
    """Return the page in Markdown."""
    runs = [row for row in figures.rows if row.what in MAIN]
    settings = [row for row in figures.rows if row.what not in MAIN]
    held_out = dict(zip(("first", "later", "third", "last", "newest"), figures.held_out, strict=True))
    lines = [
        "# Paraphrases of a few lessons end as a few lessons",
        "",
        _INTRO.substitute(machine=figures.machine, bases=figures.bases, **held_out),
        "",
        _TERMS,
        "",
        *_HEAD,
        *map(_line, runs),
        "",
        "## Near-pairs",
        "",
        _PAIRS,
        "",
        "| embedder | | near-pairs | merged wrongly |",
        "| --- | --- | --- | --- |",
        *(f"| {each.embedder} | {each.how} | {each.n} | {each.merged} |" for each in figures.pairs),
        "",
        "## Settings",
        "",
        _SETTINGS,
        "",
        *_HEAD,
        *map(_line, settings),
        "",
    ]
    if any(row.what == "logged reflections" for row in runs):
        lines += ["## Logged reflections that were merged", "", _LOGGED, ""]
    return "\n".join(lines)


def _line(row: Row) -> str:
    written, mended = row.written, row.mended
    return (
        f"| {row.embedder} | {row.what} | {row.seed} | {row.n} | {written['left']} | {mended['left']} |"
        f" {mended['lost']} | {mended['wrong']} | {mended['pure']:.4f} | {row.links} | {row.milliseconds:.2f} |"
    )


def merges(figures: Figures) -> str:
    """Return the logged reflections that were merged, for a reader of the terminal."""
    return "\n".join(f"- {text}" for text in figures.merged) or "None was merged: all stayed distinct."
