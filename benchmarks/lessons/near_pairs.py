"""Pairs of lessons that differ in one thing which matters, and how many of them are taken for copies all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.lessons.paraphrase_play import newcomer_of
from benchmarks.lessons.paraphrasing import Saying
from jeeves_reflexion.lessons.consolidation.consolidators import RuleConsolidator
from jeeves_reflexion.lessons.merging import MergeSettings, Neighbour, decide

if TYPE_CHECKING:
    from benchmarks.lessons.paraphrase_play import Vectors

NEAR_PAIRS: Final = Path(__file__).with_name("near_pairs.txt")
_TASK: Final = "Do what the lesson is about."


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two lessons of one field that must both be kept."""

    field: str
    one: str
    other: str


def near_pairs() -> tuple[NearPair, ...]:
    """Read the pairs."""
    lines = NEAR_PAIRS.read_text(encoding="utf-8").splitlines()
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


async def merged_by_rules(pairs: Sequence[NearPair]) -> list[NearPair]:
    """Return the pairs that consolidation by rules would merge, learned equally often."""
    found = []
    for each in pairs:
        cluster = [newcomer_of(Saying(0, text, _TASK), n) for n, text in enumerate((each.one, each.other))]
        proposals = await RuleConsolidator()(cluster)
        if any(operation.kind == "merge" for operation in proposals.operations):
            found.append(each)
    return found
