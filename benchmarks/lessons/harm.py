"""``python -m benchmarks.lessons.harm``: what do planted harmful lessons cost, without credit and with?

The ALFWorld games and the offline player of :mod:`benchmarks.alfworld`. A fifth of the library is planted: sentences in
the words of true lessons that send the player elsewhere and call the right place empty. The same games are played round
after round, in the real engine, over the real lesson store. Writes ``docs/results/lessons_harm.md``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.alfworld.agent import tasks_for
from benchmarks.alfworld.experiment import STEP_LIMIT
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.lessons.harm_kept import Kept
from benchmarks.lessons.harm_lessons import PLANTED_SHARE
from benchmarks.lessons.harm_play import K, Library, Played, Setting, Table, play
from benchmarks.lessons.harm_report import tables
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import default_embedder

RESULT: Final = Path("docs/results/lessons_harm.md")

_PAGE: Final = """\
# Planted lessons: what they cost, without credit and with

{games} generated ALFWorld games (game seed {game_seed}), played {rounds} times by the offline player ({steps}
commands a try, one try a round, k = {k}, {embedder} embeddings) with a library of the lessons of two first tries at
each game. {planted:.0%} of the library are planted: in the words of a true lesson, they send the player to wrong places
and call the right one empty. Nothing is learned during the rounds. With credit, a lesson of which nothing is known is
withheld from {early:.0%} of its recalls, and from fewer the more is known, down to {share:.0%} (a quarter of that once
it is shown to help); lessons are ranked by similarity plus utility, and those shown to harm are retired; what
withholding costs is in the figures. In each round the player searches a game in one of {orders} orders, the same in all
arms; an attempt with the same order and the same lessons is the same, and played once. Intervals at 95 %, by a
bootstrap over games ({seeds}; a game is one cluster).

```
{command}
```
{played} attempts in the engine, of which {kept} were kept from earlier runs; {minutes:.0f} minutes for the others.

{tables}
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What one seed came to: attempts in the engine, those of them kept from earlier, and minutes for the others."""

    played: list[Played]
    library: Library
    attempts: int
    kept: int
    minutes: float


@dataclass(frozen=True, slots=True)
class Games:
    """Which games are played, where they are made, and where finished seeds are kept, if anywhere."""

    folder: Path
    count: int
    seed: int
    keep: Path | None


async def measure(chosen: Games, seeds: Sequence[int], setting: Setting) -> list[Result]:
    """Make the games and play all arms for each seed; a seed that was kept with the same settings is read instead."""
    games = await generate_games(chosen.folder, count=chosen.count, seed=chosen.seed, workers=setting.workers)
    results: list[Result] = []
    store = Kept(chosen.keep / f"{chosen.count}-{chosen.seed}") if chosen.keep else None
    async with EnginePool(setting.workers) as pool:
        tasks = await tasks_for(pool, games, workers=setting.workers)
        for seed in seeds:
            kept = _kept_at(chosen, seed, setting)
            result = _read(kept)
            if result is None:
                begun = time.perf_counter()
                table = Table(pool, {game.id: game for game in games}, tasks, store)
                played, library = await play(table, seed, setting)
                minutes = (time.perf_counter() - begun) / 60
                result = Result(played, library, table.played, table.kept, minutes)
                _write(kept, result)
            results.append(result)
            click.echo(f"seed {seed}: {result.attempts} attempts in the engine, {result.library}", err=True)
    return results


def _kept_at(chosen: Games, seed: int, setting: Setting) -> Path | None:
    if chosen.keep is None:
        return None
    shares = f"{setting.share:g}-{setting.early:g}"
    played = f"{setting.rounds}-{setting.orders}-{shares}-{setting.embedder.dim}"
    return chosen.keep / f"{chosen.count}-{chosen.seed}-{played}-seed-{seed}.json"


def _read(file: Path | None) -> Result | None:
    if file is None or not file.exists():
        return None
    kept = json.loads(file.read_text(encoding="utf-8"))
    played = [Played(*row) for row in kept["played"]]
    return Result(played, Library(**kept["library"]), kept["attempts"], kept["kept"], kept["minutes"])


def _write(file: Path | None, result: Result) -> None:
    if file is None:
        return
    rows = [[each.arm, each.seed, each.round, each.game, each.won] for each in result.played]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**asdict(result), "played": rows}), encoding="utf-8")


@click.command()
@click.option("--count", type=click.IntRange(min=6), default=36, show_default=True, help="Games.")
@click.option("--game-seed", type=int, default=0, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--orders", type=click.IntRange(min=1), default=4, show_default=True, help="Search orders.")
@click.option("--share", type=click.FloatRange(0.0, 0.5), default=0.05, show_default=True, help="Withheld.")
@click.option(
    "--early", type=click.FloatRange(0.0, 0.5), default=0.5, show_default=True, help="Withheld at first."
)
@click.option("--seeds", default="0,1", show_default=True, help="Seeds of the player, by commas.")
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@click.option("--made-games", type=click.Path(path_type=Path), default=Path("runs/games"), show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Folder of what was played, to go on from.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULT, show_default=True)
def main(  # noqa: PLR0913 - one for each option
    *,
    count: int,
    game_seed: int,
    rounds: int,
    orders: int,
    share: float,
    early: float,
    seeds: str,
    workers: int,
    embedder: str,
    made_games: Path,
    keep: Path | None,
    out: Path,
) -> None:
    """Play all arms, print the tables and write them to a file."""
    with_model: Embedder = HashingEmbedder() if embedder == "hashing" else default_embedder()
    setting = Setting(
        rounds, orders, share, early, workers, with_model, lambda line: click.echo(line, err=True)
    )
    numbers = [int(seed) for seed in seeds.split(",")]
    results = anyio.run(measure, Games(made_games, count, game_seed, keep), numbers, setting)
    options = f"--count {count} --game-seed {game_seed} --rounds {rounds} --orders {orders}"
    text = _PAGE.format(
        games=count,
        game_seed=game_seed,
        rounds=rounds,
        orders=orders,
        steps=STEP_LIMIT,
        k=K,
        embedder={"minilm": "MiniLM", "hashing": "hashing"}[embedder],
        planted=PLANTED_SHARE,
        share=share,
        early=max(early, share),
        seeds=f"seed {seeds}" if len(numbers) == 1 else f"seeds {seeds} pooled",
        command=f"python -m benchmarks.lessons.harm {options} --share {share:g} --early {early:g} --seeds {seeds}",
        minutes=sum(each.minutes for each in results),
        played=sum(each.attempts for each in results),
        kept=sum(each.kept for each in results),
        tables=tables([row for each in results for row in each.played], [each.library for each in results]),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    click.echo(text)


if __name__ == "__main__":
    main()
