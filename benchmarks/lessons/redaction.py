"""``python -m benchmarks.lessons.redaction``: recall and precision of redaction on the labelled corpus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from benchmarks.lessons.redaction_corpus import Half, load
from benchmarks.lessons.redaction_measures import Read, score
from benchmarks.report import counted_share, machine, out_option, table, write_result
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.statistics import wilson

_HALVES: Final[tuple[Half, ...]] = ("dev", "heldout", "second", "third")
_REFILLS: Final = 12
_LESSON: Final = (
    "In this environment, my plan was to find a plate then clean it with sinkbasin 1, then put it in countertop 2;"
    " next time look in cabinet 4 before 15 steps."
)
_PAGE: Final = """# Redaction: what is found, and what is hidden by mistake

Measured by `python -m benchmarks.lessons.redaction` on {machine}, fill seed {seed}. The corpus is ours
(`benchmarks/lessons/corpora/redaction_*.jsonl`): short texts as an agent or a log writes them, the values filled in
by a seeded generator. A text counts as found only if no character of a labelled value is left. The patterns were
developed on `dev`; `heldout` was written before them by the same author, `second` and `third` later, as a sceptical
reader would try the kinds. At first contact 235 of 301 texts of `second` were found and 6 of 271 without secrets
changed; then patterns were added; of `third`, written after that, 58 of 82 were found and 10 of 82 changed; then
these were mended too. **Those two counts, not the columns below, say what to expect of texts of strangers.**
Intervals are Wilson's, 95 %; those of the other fills count a text of the same words several times, and are too
narrow. Figures by kind are in the JSON beside this page. A lesson of {length} characters takes
{microseconds:.0f} microseconds.

{table}
{lists}"""


@click.command()
@click.option("--seed", type=int, default=0, show_default=True, help="Of what fills the corpus.")
@out_option("lessons_redaction.md and .json")
def main(seed: int, out: Path) -> None:
    """Measure redaction and write the page."""
    rows, lists = _recall(seed)
    page = _PAGE.format(
        machine=machine(),
        seed=seed,
        length=len(_LESSON),
        microseconds=_microseconds(),
        table=table(["found", *_HALVES], [each for each in rows if " " in each[0] or "*" in each[0]]),
        lists="\n".join(["", *lists]),
    )
    write_result(out, "lessons_redaction", rows, page)
    click.echo(page)


def _recall(seed: int) -> tuple[list[list[str]], list[str]]:
    parts = {half: score(load(half, seed=seed), redact) for half in _HALVES}
    shares: dict[str, list[tuple[int, int]]] = {
        kind: [part.kinds.get(kind, (0, 0)) for part in parts.values()]
        for kind in sorted({kind for part in parts.values() for kind in part.kinds})
    }
    shares["**all**"] = [(part.found, part.positives) for part in parts.values()]
    shares[f"all, with {_REFILLS} other fills"] = again = []
    for half in _HALVES:
        fills = [score(load(half, seed=seed + each), redact) for each in range(1, _REFILLS + 1)]
        again.append((sum(one.found for one in fills), sum(one.positives for one in fills)))
    shares["nothing else hidden in these"] = [(part.kept, part.positives) for part in parts.values()]
    shares["marks on a labelled value (precision)"] = [(p.right_marks, p.marks) for p in parts.values()]
    shares["texts without secrets that were changed"] = [(p.hit, p.negatives) for p in parts.values()]
    rows = [
        [name, *(counted_share(wilson(*one), 1) if one[1] else "-" for one in each)]
        for name, each in shares.items()
    ]
    lists: list[str] = []
    for half, part in parts.items():
        wrong = [f"- not found ({one.row.kind}): {_code(one)}" for one in part.misses]
        wrong += [f"- changed by mistake: {_code(one)}" for one in part.mistakes]
        lists += [f"Left in {half}:", "", *wrong, ""] if wrong else []
    return rows, lists


def _code(one: Read) -> str:
    plain = one.clean.replace("`", "'").replace("\n", " ")
    return f"`{plain[:140]}`"


def _microseconds(calls: int = 200) -> float:
    redact(_LESSON)
    started = time.perf_counter()
    for _ in range(calls):
        redact(_LESSON)
    return 1e6 * (time.perf_counter() - started) / calls


if __name__ == "__main__":
    main()
