"""Pairs of lessons that differ in one thing which matters, and how many of them are taken for copies all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.lessons.paraphrase_play import newcomer_of
from benchmarks.lessons.paraphrasing import Saying
from jeeves_reflexion.lessons.consolidation.consolidators import RuleConsolidator
from jeeves_reflexion.lessons.deciding import decide
from jeeves_reflexion.lessons.merging import WORDINGS, MergeSettings
from jeeves_reflexion.lessons.sameness import Neighbour, interleaved

if TYPE_CHECKING:
    from benchmarks.lessons.paraphrase_play import Vectors

HELD_OUT_PAIRS: Final = "near_pairs_heldout"
_TASK: Final = "Do what the lesson is about."


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two lessons of one field that must both be kept."""

    field: str
    one: str
    other: str


def near_pairs(corpus: str = "near_pairs") -> tuple[NearPair, ...]:
    """Read the pairs of a corpus."""
    lines = Path(__file__).with_name(f"{corpus}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(NearPair(*line.split(" | ")) for line in lines if line and not line.startswith("#"))


def merged_on_writing(
    pairs: Sequence[NearPair], settings: MergeSettings | None = None, vectors: Vectors | None = None
) -> list[NearPair]:
    """Return the pairs of which one is merged into the other, whichever comes first, for the same task.

    Without vectors the texts count as equal to the embedder, which hides nothing that the words don't tell.
    """

    def merged(old: str, new: str) -> bool:
        similarity = 1.0 if vectors is None else vectors.similarity(old, new)
        stored, newcomer = (newcomer_of(Saying(0, text, _TASK), n) for n, text in enumerate((old, new)))
        return decide(newcomer, [Neighbour(stored, similarity, 1.0)], settings).kind == "merge"

    return [each for each in pairs if merged(each.one, each.other) or merged(each.other, each.one)]


def bridges(pair: NearPair) -> tuple[str, ...]:
    """Return what both lessons of a pair say, without the words that they differ in, and with "it" in their place."""
    one, other = pair.one.rstrip(".").split(), pair.other.rstrip(".").split()
    lacking: list[str] = []
    with_it: list[str] = []
    for kind, start, end, _, _ in SequenceMatcher(None, one, other).get_opcodes():
        lacking += one[start:end] if kind == "equal" else []
        with_it += one[start:end] if kind == "equal" else ["it"]
    return tuple(dict.fromkeys(f"{' '.join(words)}." for words in (lacking, with_it)))


def merged_by_way(pairs: Sequence[NearPair], *, vague_first: bool = False) -> list[tuple[str, str, str]]:
    """Return what ends in one lesson with its near-pair by way of a third: three texts, in the order of writing.

    The third comes between the two, or before both.
    """
    found = []
    for pair in pairs:
        for bridge in bridges(pair):
            for one, other in ((pair.one, pair.other), (pair.other, pair.one)):
                texts = (bridge, one, other) if vague_first else (one, bridge, other)
                stored, *newcomers = (newcomer_of(Saying(0, text, _TASK), n) for n, text in enumerate(texts))
                merges = 0
                for newcomer in newcomers:
                    decision = decide(newcomer, [Neighbour(stored, 1.0, 1.0)])
                    merges += decision.kind == "merge"
                    stored = decision.lesson if decision.kind == "merge" else stored
                if merges == len(newcomers):
                    found.append(texts)
    return found


def merged_by_wordings(pairs: Sequence[NearPair]) -> list[NearPair]:
    """Return the pairs that would be one by what several wordings share, all of which lack what the two differ in."""
    found = []
    for each in pairs:
        lacking = bridges(each)
        said = {WORDINGS: [*lacking, *(f"Remember: {text}" for text in lacking)]}
        one, other = (
            replace(newcomer_of(Saying(0, text, _TASK), n), metadata=said)
            for n, text in enumerate((each.one, each.other))
        )
        if interleaved(one, other):
            found.append(each)
    return found


async def merged_by_rules(pairs: Sequence[NearPair]) -> list[NearPair]:
    """Return the pairs that consolidation by rules would merge, learned equally often."""
    found = []
    for each in pairs:
        cluster = [newcomer_of(Saying(0, text, _TASK), n) for n, text in enumerate((each.one, each.other))]
        proposals = await RuleConsolidator()(cluster)
        if any(operation.kind == "merge" for operation in proposals.operations):
            found.append(each)
    return found
