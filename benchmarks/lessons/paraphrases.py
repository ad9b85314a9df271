"""``python -m benchmarks.lessons.paraphrases``: how many lessons are left of many paraphrases of a few.

Each paraphrase is written as a lesson would be: its nearest five by the vectors of the texts are looked at, and
:mod:`jeeves_reflexion.lessons.merging` decides. Half of the base lessons and more are near-pairs that must stay apart.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import anyio
import click
import numpy as np

from benchmarks.lessons.near_pairs import (
    HELD_OUT_PAIRS,
    bridges,
    merged_by_rules,
    merged_by_way,
    merged_by_wordings,
    merged_on_writing,
    near_pairs,
)
from benchmarks.lessons.paraphrase_play import Played, Vectors, play, record_all
from benchmarks.lessons.paraphrase_report import STORE, Figures, PairRow, Row, merges, page
from benchmarks.lessons.paraphrasing import Saying, base_lessons, sayings
from benchmarks.results import out_option, write_result
from jeeves_reflexion.lessons.merging import MergeSettings
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import default_embedder

HELD_OUT: Final = {
    "held out": "paraphrases_heldout",
    "held out later": "paraphrases_heldout2",
    "held out third": "paraphrases_heldout3",
    "held out last": "paraphrases_heldout4",
    "held out newest": "paraphrases_heldout5",
}
"""Corpora that nothing was adjusted to, by the name that they have in the tables."""
_HELD_OUT_SHARE: Final = 5
"""So many times fewer held-out paraphrases are written."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: paraphrases a run, seeds, how many for the tables of settings, and a file of reflections."""

    n: int
    seeds: tuple[int, ...]
    settings_n: int
    reflections: Path | None
    vectors: Path | None


@click.command()
@click.option(
    "--n", type=click.IntRange(min=50), default=10_000, show_default=True, help="Paraphrases of a run."
)
@click.option("--seeds", default="1,2,3", show_default=True, help="Seeds of the runs, by commas.")
@click.option("--settings-n", type=click.IntRange(min=50), default=2000, show_default=True)
@click.option("--embedders", default="minilm,hashing", show_default=True, help="minilm, hashing or both.")
@click.option(
    "--reflections",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON lines with the distinct reflections of logged runs, which should stay distinct.",
)
@click.option(
    "--vectors",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that keeps embeddings from run to run.",
)
@out_option("lessons_paraphrases.md and its JSON")
def main(
    n: int,
    seeds: str,
    settings_n: int,
    embedders: str,
    reflections: Path | None,
    vectors: Path | None,
    out: Path,
) -> None:
    """Write paraphrases of fifty lessons and count the lessons that are left."""
    plan = Plan(n, tuple(map(int, seeds.split(","))), settings_n, reflections, vectors)
    figures = anyio.run(measure, plan, tuple(embedders.split(",")))
    text = page(figures)
    kept = {**asdict(figures), "merged": len(figures.merged)}
    write_result(out, "lessons_paraphrases", kept, text)
    click.echo(text)
    if reflections is not None:
        click.echo(merges(figures))


async def measure(plan: Plan, embedders: Sequence[str]) -> Figures:
    """Measure everything with each embedder."""
    rows: list[Row] = []
    examples: list[str] = []
    pairs: list[PairRow] = []
    for name in embedders:
        embedder = HashingEmbedder() if name == "hashing" else default_embedder()
        for seed in plan.seeds:
            said = sayings(plan.n, seed=seed)
            vectors = await _vectors(plan, name, embedder, said)
            rows.append(
                row(name, "fifty lessons", seed, len(said), await play(said, vectors, MergeSettings()))
            )
            for label, corpus in HELD_OUT.items():
                n = max(plan.n // _HELD_OUT_SHARE, len(base_lessons(corpus)))
                few = sayings(n, seed=seed, corpus=corpus)
                vectors = await _vectors(plan, name, embedder, few)
                rows.append(row(name, label, seed, n, await play(few, vectors, MergeSettings())))
        said = sayings(plan.settings_n, seed=plan.seeds[0])
        vectors = await _vectors(plan, name, embedder, said)
        rows.append(row(name, STORE, plan.seeds[0], len(said), await record_all(said, vectors)))
        for label, settings, at_once in _variants():
            played = await play(said, vectors, settings, at_once=at_once)
            rows.append(row(name, label, plan.seeds[0], len(said), played))
        pairs += await _pairs(plan, name, embedder)
        if plan.reflections is not None:
            texts = logged(plan.reflections)
            vectors = await _vectors(plan, name, embedder, texts)
            played = await play(texts, vectors, MergeSettings())
            rows.append(row(name, "logged reflections", 0, len(texts), played))
            examples += [f"{name}: {a} | {b} ({why})" for a, b, why in played.library.wrong]
    machine = f"Python {platform.python_version()}, {platform.machine()}"
    held_out = tuple(len(base_lessons(corpus)) for corpus in HELD_OUT.values())
    return Figures(machine, len(base_lessons()), held_out, tuple(rows), tuple(pairs), tuple(examples))


def row(embedder: str, what: str, seed: int, n: int, played: Played) -> Row:
    """Return the figures of one run."""
    vectors = played.library.vectors
    return Row(
        embedder,
        what,
        seed,
        n,
        asdict(played.written),
        asdict(played.mended),
        1000 * played.seconds / n,
        len(played.library.links),
        1000 * vectors.seconds / len(vectors.by_text),
    )


async def _pairs(plan: Plan, name: str, embedder: Embedder) -> list[PairRow]:
    """How many near-pairs of the adversarial corpus are merged, on writing by several settings and by rules."""
    pairs = near_pairs()
    texts = [Saying(0, text, text) for each in pairs for text in (each.one, each.other)]
    vectors = await _vectors(plan, name, embedder, texts)
    rows = []
    for within in (1, 2):
        merged = merged_on_writing(pairs, MergeSettings(max_within=within), vectors)
        rows.append(PairRow(name, f"on writing, max_within {within}", len(pairs), len(merged)))
    for sure in (MergeSettings().sure_similarity, 0.95, 0.9, 0.8, 0.7):
        merged = merged_on_writing(pairs, MergeSettings(sure_similarity=sure), vectors)
        rows.append(PairRow(name, f"on writing, sure_similarity {sure}", len(pairs), len(merged)))
    rows.append(PairRow(name, "by consolidation", len(pairs), len(await merged_by_rules(pairs))))
    ways = 2 * sum(len(bridges(each)) for each in pairs)
    rows.append(PairRow(name, "by way of a third", ways, len(merged_by_way(pairs))))
    vague = merged_by_way(pairs, vague_first=True)
    rows.append(PairRow(name, "by way of a third, vague first", ways, len(vague)))
    rows.append(PairRow(name, "by their wordings", len(pairs), len(merged_by_wordings(pairs))))
    return rows + await _newer_pairs(name)


async def _newer_pairs(name: str) -> list[PairRow]:
    """How many of the near-pairs that were written later are merged, whatever the embedder says."""
    pairs = near_pairs(HELD_OUT_PAIRS)
    ways = 2 * sum(len(bridges(each)) for each in pairs)
    return [
        PairRow(name, "newer ones, on writing", len(pairs), len(merged_on_writing(pairs))),
        PairRow(name, "newer ones, by consolidation", len(pairs), len(await merged_by_rules(pairs))),
        PairRow(name, "newer ones, by way of a third", ways, len(merged_by_way(pairs))),
        PairRow(name, "newer ones, by their wordings", len(pairs), len(merged_by_wordings(pairs))),
        PairRow(name, "newer ones, vague first", ways, len(merged_by_way(pairs, vague_first=True))),
    ]


def logged(path: Path) -> list[Saying]:
    """Return the distinct reflections of a log, each a base lesson of its own; the task is the environment."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        for reflection in entry["reflections"]:
            found.setdefault(" ".join(reflection["text"].split()), f"{entry['run']} {entry['env']}")
    return [Saying(number, text, task) for number, (text, task) in enumerate(found.items())]


def _variants() -> Iterator[tuple[str, MergeSettings, int]]:
    chosen = MergeSettings()
    yield "as chosen", chosen, 1
    for similarity in (0.0, 0.3, 0.4, 0.5, 0.6):
        yield f"min_similarity {similarity}", replace(chosen, min_similarity=similarity), 1
    for likeness in (0.4, 0.5, 0.7, 0.8):
        yield f"min_likeness {likeness}", replace(chosen, min_likeness=likeness), 1
    for sure in (0.7, 0.8, 0.85, 0.9, 0.95):
        if sure != chosen.sure_similarity:
            yield f"sure_similarity {sure}", replace(chosen, sure_similarity=sure), 1
    for added in (0, 1, 3, 20):
        yield f"max_added {added}", replace(chosen, max_added=added), 1
    for within in (1, 2):
        yield f"max_within {within}", replace(chosen, max_within=within), 1
    for wordings in (0, 4, 16):
        yield f"wordings {wordings}", replace(chosen, wordings=wordings), 1
    for at_once in (8,):
        yield f"{at_once} writers at once", chosen, at_once


async def _vectors(plan: Plan, name: str, embedder: Embedder, said: Sequence[Saying]) -> Vectors:
    """Embed texts and tasks, but for those that the folder of vectors has already."""
    texts = sorted({text for each in said for text in (each.text, each.task)})
    if plan.vectors is None or name == "hashing":
        return await Vectors.of(embedder, texts)
    file = anyio.Path(plan.vectors) / f"{name}.npz"
    known = {}
    seconds = 0.0
    if await file.exists():
        kept = np.load(str(file), allow_pickle=False)
        known = dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))
        seconds = float(kept["seconds"])
    missing = [text for text in texts if text not in known]
    if missing:
        made = await Vectors.of(embedder, missing)
        seconds = made.seconds / len(missing)
        known.update(made.by_text)
        await anyio.Path(plan.vectors).mkdir(parents=True, exist_ok=True)
        np.savez(
            str(file), texts=np.array(list(known)), vectors=np.stack(list(known.values())), seconds=seconds
        )
    return Vectors(embedder.id, embedder.dim, {text: known[text] for text in texts}, seconds * len(texts))


if __name__ == "__main__":
    main()
