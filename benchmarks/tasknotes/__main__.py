"""``python -m benchmarks.tasknotes``: success over runs of the same games, with task notes on and off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio
import click

from benchmarks.alfworld.agent import tasks_for
from benchmarks.alfworld.experiment import STEP_LIMIT
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.tasknotes.play import ARMS, Played, Setting, play
from benchmarks.tasknotes.report import table


async def measure(
    folder: Path, count: int, game_seed: int, seeds: Sequence[int], setting: Setting
) -> list[Played]:
    """Make the games and play them in both arms."""
    games = await generate_games(folder, count=count, seed=game_seed, workers=setting.workers)
    by_id = {game.id: game for game in games}
    played: list[Played] = []
    async with EnginePool(setting.workers) as pool:
        tasks = await tasks_for(pool, games, workers=setting.workers)
        for seed in seeds:
            for arm in ARMS:
                click.echo(f"seed {seed}, notes {arm} ...", err=True)
                played += await play(pool, by_id, tasks, arm, seed, setting)
    return played


@click.command()
@click.option("--count", type=click.IntRange(min=1), default=134, show_default=True, help="Games.")
@click.option("--game-seed", type=int, default=0, show_default=True)
@click.option("--seeds", default="0,1,2", show_default=True, help="Seeds of the player, by commas.")
@click.option("--runs", type=click.IntRange(min=2), default=5, show_default=True, help="Runs of each game.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--made-games", type=click.Path(path_type=Path), default=Path("runs/games"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="A file for one JSON line per game played.")
def main(
    *, count: int, game_seed: int, seeds: str, runs: int, workers: int, made_games: Path, out: Path | None
) -> None:
    """Play and print the table."""
    setting = Setting(runs, workers, STEP_LIMIT)
    played = anyio.run(
        measure, made_games, count, game_seed, [int(seed) for seed in seeds.split(",")], setting
    )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in played), encoding="utf-8")
    click.echo(table(played))


if __name__ == "__main__":
    main()
