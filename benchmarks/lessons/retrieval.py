"""``python -m benchmarks.lessons.retrieval``: which way of recall brings back the lessons that bear on a task?

Three parts, each of which may be run alone: ``set`` asks a labelled set, ``words`` holds BM25 against other libraries'
(where they are installed), ``play`` plays ALFWorld games. What is found is kept in ``lessons_retrieval.json``, and the
page is written from that.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import click

from benchmarks.lessons.retrieval_play import Field, play
from benchmarks.lessons.retrieval_report import page, play_rows
from benchmarks.lessons.retrieval_set import Paths, ask_everything
from benchmarks.lessons.retrieval_ways import PLAYED
from benchmarks.lessons.retrieval_words import against_peers
from benchmarks.results import out_option, write_result
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import CachedEmbedder, default_embedder

NAME: Final = "lessons_retrieval"
PARTS: Final = ("set", "words", "play")


async def _run(
    parts: Sequence[str], paths: Paths, field: Field, folder: Path, embedder: Embedder, *, limit: int | None
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with CachedEmbedder(embedder, folder / "embeddings.sqlite") as cached:
        if "set" in parts:
            found["set"] = await _timed(lambda: ask_everything(paths, cached, _say, limit=limit))
        if "words" in parts:
            found["words"] = against_peers(paths)
        if "play" in parts:
            found["play"] = await _timed(lambda: _play(folder, field, cached))
    return found


async def _play(folder: Path, field: Field, embedder: Embedder) -> dict[str, Any]:
    outcomes, attempts = await play(folder, field, PLAYED, embedder, _say)
    return {
        "games": field.count,
        "game_seed": field.game_seed,
        "seeds": list(field.seeds),
        "attempts": attempts,
        "rows": play_rows(outcomes),
    }


async def _timed(run: Callable[[], Any]) -> dict[str, Any]:
    began = time.monotonic()
    found: dict[str, Any] = await run()
    return {**found, "minutes": (time.monotonic() - began) / 60}


def _say(line: str) -> None:
    click.echo(line, err=True)


def _seeds(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    return tuple(int(part) for part in value.split(","))


@click.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, default=PARTS, show_default=True)
@click.option("--count", type=click.IntRange(min=2), default=60, show_default=True, help="Games played.")
@click.option("--game-seed", type=int, default=0, show_default=True)
@click.option("--seeds", callback=_seeds, default="0,1", show_default=True, help="Seeds of the player.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="Ask only so many queries of each set.")
@click.option(
    "--made", type=click.Path(file_okay=False, path_type=Path), help="Where games and embeddings are kept."
)
@click.option("--embedder", type=click.Choice(("minilm", "hashing")), default="minilm", show_default=True)
@out_option(f"{NAME}.md and .json")
def main(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Measure recall, and write the tables.

    DATA is a folder with alfworld/logged_reflections.jsonl, alfworld/valid_seen_140.tar.xz,
    hotpotqa/hotpotqa_replay_cot_no_context_reflexion.jsonl and humaneval/HumanEval.jsonl.gz.
    """
    field = Field(options["count"], options["game_seed"], options["seeds"], options["workers"])
    embedder: Embedder = HashingEmbedder() if options["embedder"] == "hashing" else default_embedder()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options["made"] or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        paths = Paths(options["data"])
        found = anyio.run(
            lambda: _run(options["parts"], paths, field, folder, embedder, limit=options["limit"])
        )
    kept = options["out"] / f"{NAME}.json"
    known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    known |= {"embedder": embedder.id, **found}
    text = page(known)
    write_result(options["out"], NAME, known, text)
    click.echo(text)


if __name__ == "__main__":
    main()
