"""How many commands an attempt of the offline player should have.

Run ``python -m benchmarks.alfworld.choose_step_limit``. The limit is chosen so that the first attempt, without
any lesson, solves about half of the games: with more there is nothing left to learn, with fewer nothing can be
solved. The games are of seeds that no reported figure uses. A limit does not change what the player does before
it, so each attempt is played once, to the longest limit; each game with several search orders.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import click

from benchmarks.alfworld.agent import WON, GameAgent, OfflinePlayer, tasks_for
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool
from jeeves_reflexion import Session, Task
from jeeves_reflexion.statistics import wilson

SEEDS = (101, 102, 103)
ORDERS = 5
LONGEST = 50


async def commands_needed(folder: Path, seed: int, count: int, workers: int) -> list[int | None]:
    """Return for each first attempt the commands until the game was won; None where the limit was too short."""
    games = await generate_games(folder, count=count, seed=seed, workers=workers)
    needed: dict[tuple[str, int], int | None] = {}
    limiter = anyio.CapacityLimiter(workers)
    async with EnginePool(workers) as pool:

        async def play(task: Task, order: int) -> None:
            player = partial(OfflinePlayer, room_for=0, seed=order)
            agent = GameAgent(pool, {game.id: game for game in games}, player, step_limit=LONGEST)
            async with limiter:
                attempt = await agent(task, Session(attempt=1))
            needed[task.id, order] = len(attempt.steps) if attempt.metadata[WON] else None

        async with anyio.create_task_group() as group:
            for task in await tasks_for(pool, games, workers=workers):
                for order in range(ORDERS):
                    group.start_soon(play, task, order)
    return [needed[game.id, order] for game in games for order in range(ORDERS)]


@click.command()
@click.option(
    "--count", type=click.IntRange(min=1), default=60, show_default=True, help="Games of each seed."
)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--made-games", type=click.Path(path_type=Path), default=Path("runs/games"), show_default=True)
def main(count: int, workers: int, made_games: Path) -> None:
    """Print the share of games solved by the first attempt for each limit."""
    needed: list[int | None] = []
    for seed in SEEDS:
        needed += anyio.run(commands_needed, made_games, seed, count, workers)
    click.echo(
        f"{count} games of each seed {', '.join(map(str, SEEDS))}, {ORDERS} orders each: first attempt, no lessons"
    )
    for limit in (*range(10, 31), 40, LONGEST):
        share = wilson(sum(n is not None and n <= limit for n in needed), len(needed))
        click.echo(f"{limit:>3} commands: {share.value:.0%} solved ({share.low:.0%} to {share.high:.0%})")


if __name__ == "__main__":
    main()
