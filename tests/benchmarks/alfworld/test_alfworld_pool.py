"""The workers of a pool: how many there are, which game goes to which, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from benchmarks.alfworld.failures import EngineError
from benchmarks.alfworld.pool import EnginePool

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.usefixtures("engine")]


def workers_of(pool):
    return [process.pid for process in pool._idle]


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_more_games_than_workers_are_played_side_by_side(made_games):
    now = 0
    two_at_once = anyio.Event()
    won = []
    played_by = set()

    async def play(game):
        nonlocal now
        async with pool.episode(game) as episode:
            now += 1
            assert now <= 2
            if now == 2:
                two_at_once.set()
            await two_at_once.wait()
            for command in json.loads(game.path.read_text())["walkthrough"]:
                assert not episode.won
                observation = await episode.step(command)
                assert observation.text != "Nothing happens."
            won.append(observation.won)
            played_by.add(episode._process.pid)
            now -= 1

    async with EnginePool(2) as pool:
        async with anyio.create_task_group() as group:
            for game in made_games[:3]:
                group.start_soon(play, game)
        pids = workers_of(pool)
    assert won == [True] * 3
    assert len(pids) == 2
    assert played_by == set(pids)
    assert not any(running(pid) for pid in pids)


async def test_a_worker_that_hangs_is_replaced(made_games):
    game = made_games[0]
    async with EnginePool(1, step_timeout=0.3) as pool:
        async with pool.episode(game) as episode:
            pid = episode._process.pid
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(EngineError, match=rf"{game.id}, command 'look': no answer .* within 0\.3 s"):
                await episode.step("look")
        assert not running(pid)
        async with pool.episode(game) as episode:
            assert (await episode.step("look")).text


PARENT = """
import sys, anyio
from pathlib import Path
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.pool import EnginePool

async def main():
    async with EnginePool(1) as pool:
        async with pool.episode(Game("a/b", "k", Path(sys.argv[1]), "s")) as episode:
            print(episode._process.pid, flush=True)
            await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_workers_do_not_outlive_a_killed_parent(made_games, backend):
    command = [sys.executable, "-c", PARENT, str(made_games[0].path), backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert running(pid)
        parent.kill()
    deadline = time.monotonic() + 60
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(pid)


async def test_a_pool_that_is_not_open_plays_nothing(made_games):
    pool = EnginePool(1)
    for _ in range(2):
        with pytest.raises(EngineError, match="the pool is not open"):
            async with pool.episode(made_games[0]):
                pass
        async with pool:
            pass
