"""``python -m benchmarks.peers``: plays, prints the page and writes it with its JSON beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import click

from benchmarks.alfworld.agent import tasks_for
from benchmarks.alfworld.experiment import STEP_LIMIT
from benchmarks.alfworld.generator import generate_games
from benchmarks.peers.arms import ARMS, TIMED, Arm
from benchmarks.peers.known_games import RememberingPool
from benchmarks.peers.play import Sides, play_all, take_turns
from benchmarks.peers.referee import Referee
from benchmarks.peers.report import Comparison
from benchmarks.peers.workarounds import show_all
from benchmarks.results import out_option, write_result
from jeeves_reflexion.errors import ReflexionError
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import default_embedder


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run plays."""

    sides: Sides
    embedder: Embedder
    count: int
    seeds: tuple[int, ...]
    game_seed: int
    made_games: Path
    workers: int
    step_limit: int = STEP_LIMIT
    arms: tuple[Arm, ...] = ARMS
    timed: tuple[Arm, ...] = TIMED


def _numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in value.split(",")))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of whole numbers such as 0,1,2") from None


@click.command()
@click.option(
    "--peer-python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The interpreter of an environment with jeevesagent and faiss-cpu.",
)
@click.option("--count", type=click.IntRange(min=1), default=134, show_default=True, help="Games.")
@click.option("--seeds", callback=_numbers, default="0,1,2", show_default=True, help="Seeds of the player.")
@click.option("--trials", type=click.IntRange(min=1), default=5, show_default=True, help="Attempts a game.")
@click.option("--game-seed", type=int, default=0, show_default=True, help="Seed of the games that are made.")
@click.option(
    "--made-games",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/games"),
    show_default=True,
    help="Where made games are kept.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1, help="Lanes at a time."
)
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@out_option("peers.json and peers.md")
def main(  # noqa: PLR0913 - the options of a command
    *,
    peer_python: Path,
    count: int,
    seeds: tuple[int, ...],
    trials: int,
    game_seed: int,
    made_games: Path,
    workers: int,
    embedder: str,
    out: Path,
) -> None:
    """Play the same ALFWorld games through jeevesagent's Reflexion and through ours."""
    setting = Setting(
        # Not resolved: the name of an environment's interpreter decides the environment.
        Sides(peer_python.absolute(), trials),
        HashingEmbedder() if embedder == "hashing" else default_embedder(),
        count,
        seeds,
        game_seed,
        made_games,
        workers,
    )
    try:
        found = anyio.run(compare, setting, partial(click.echo, err=True))
    except* ReflexionError as group:
        raise click.ClickException(str(_first(group))) from group
    page = found.as_markdown()
    write_result(out, "peers", found.as_json(), page)
    click.echo(page)


async def compare(setting: Setting, say: Callable[[str], None]) -> Comparison:
    """Show what had to be worked around, play for success, then for time."""
    started = time.monotonic()
    sides = setting.sides
    shown = await show_all(sides)
    say(f"{sum(each.holds for each in shown)} of {len(shown)} workarounds are needed in this version")
    games = await generate_games(
        setting.made_games, count=setting.count, seed=setting.game_seed, workers=setting.workers
    )
    async with RememberingPool(setting.workers) as pool:
        tasks = await tasks_for(pool, games, workers=setting.workers)
        by_id = {game.id: game for game in games}
        referee = Referee(pool, by_id, tasks, setting.embedder, setting.step_limit)
        played = await play_all(referee, sides, setting.arms, setting.seeds, workers=setting.workers, say=say)
        timed = await take_turns(referee, sides, setting.timed, setting.seeds[0])
    seeds = ",".join(map(str, setting.seeds))
    return Comparison(
        played,
        timed,
        shown,
        trials=sides.trials,
        games=len(games),
        seeds=setting.seeds,
        step_limit=setting.step_limit,
        embedder=setting.embedder.id,
        command=f"python -m benchmarks.peers --peer-python PYTHON --count {setting.count} --seeds {seeds} "
        f"--trials {sides.trials} --game-seed {setting.game_seed}",
        seconds=time.monotonic() - started,
        engine=pool.seconds / max(pool.asked, 1),
    )


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    main()
