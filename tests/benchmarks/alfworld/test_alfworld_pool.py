from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from benchmarks.alfworld.failures import EngineError, GameFileError
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.pool import EnginePool

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.usefixtures("engine")]

# A worker takes a second to start: what can't depend on the event loop is tested on one.
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"])

OPENING = re.compile(
    r"You are in the middle of a room\. Looking quickly around you, you see "
    r"(a [a-z]+ \d+, )+and a [a-z]+ \d+\.\n\nYour task is to: (?P<sentence>.*)"
)


def workers_of(pool):
    return [slot.process.pid for slot in pool._slots if slot.process is not None]


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def broken_copy(game, folder, **changes):
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps({**json.loads(game.path.read_text()), **changes}))
    return Game("broken/game", game.kind, path, game.sentence)


@one_backend
async def test_openings_are_those_of_alfworld(genuine_games, made_games):
    async with EnginePool(1) as pool:
        for game in (genuine_games[0], made_games[0]):
            async with pool.episode(game) as episode:
                found = OPENING.fullmatch(episode.opening)
                assert found is not None, episode.opening
                assert found["sentence"] == game.sentence
                assert not episode.won


@one_backend
async def test_more_games_than_workers_are_played_side_by_side(made_games):
    now = 0
    two_at_once = anyio.Event()
    won = []

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
            now -= 1

    async with EnginePool(2) as pool:
        async with anyio.create_task_group() as group:
            for game in made_games[:4]:
                group.start_soon(play, game)
        pids = workers_of(pool)
    assert won == [True] * 4
    assert len(pids) == 2
    assert not any(running(pid) for pid in pids)


@one_backend
async def test_both_dialects_are_played(genuine_games, made_games):
    async with EnginePool(1) as pool:
        for game, put, other, said in (
            (genuine_games[40], "put {} in/on {}", "move {} to {}", "You put the"),
            (made_games[1], "move {} to {}", "put {} in/on {}", "You move the"),
        ):
            async with pool.episode(game) as episode:
                take = await find_something_to_take(episode)
                thing, place = take.removeprefix("take ").split(" from ")
                held = await episode.step(take)
                assert put.format(thing, place) in held.admissible
                assert (await episode.step(other.format(thing, place))).text == "Nothing happens."
                assert (await episode.step(put.format(thing, place))).text.startswith(said)


async def find_something_to_take(episode):
    for command in [command for command in episode.first.admissible if command.startswith("go to ")]:
        observation = await episode.step(command)
        for take in observation.admissible:
            if take.startswith("take "):
                return take
    raise AssertionError("no place in the room has anything in sight")


async def test_a_worker_that_dies_is_replaced(made_games):
    game = made_games[0]
    async with EnginePool(1) as pool:
        async with pool.episode(game) as episode:
            os.kill(workers_of(pool)[0], signal.SIGKILL)
            with pytest.raises(EngineError, match=rf"{game.id}, command 'look': .*ended with code -9"):
                await episode.step("look")
            with pytest.raises(EngineError, match="is over"):
                await episode.step("look")
        async with pool.episode(game) as episode:
            assert (await episode.step("look")).text


@one_backend
async def test_a_worker_that_hangs_is_replaced(made_games):
    game = made_games[0]
    async with EnginePool(1, step_timeout=0.3) as pool:
        async with pool.episode(game) as episode:
            pid = workers_of(pool)[0]
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(EngineError, match=rf"{game.id}, command 'look': no answer .* within 0\.3 s"):
                await episode.step("look")
        assert not running(pid)
        async with pool.episode(game) as episode:
            assert (await episode.step("look")).text


async def test_a_cancelled_command_leaves_the_pool_usable(made_games):
    first, second = made_games[:2]
    async with EnginePool(1) as pool:
        with anyio.move_on_after(20) as scope:
            async with pool.episode(first) as episode:
                os.kill(workers_of(pool)[0], signal.SIGSTOP)
                scope.deadline = anyio.current_time() + 0.1
                await episode.step("look")
        assert scope.cancelled_caught
        async with pool.episode(second) as episode:
            assert second.sentence in episode.opening


async def test_one_that_gives_up_waiting_leaves_the_queue(made_games):
    async with EnginePool(1) as pool:
        async with pool.episode(made_games[0]) as episode:
            with anyio.move_on_after(0.05) as scope:
                async with pool.episode(made_games[1]):
                    raise AssertionError("there is one worker only")
            assert scope.cancelled_caught
            assert (await episode.step("look")).text
        async with pool.episode(made_games[1]) as episode:
            assert made_games[1].sentence in episode.opening
            assert len(workers_of(pool)) == 1


@one_backend
async def test_games_that_cannot_be_opened_are_named_and_do_no_harm(made_games, tmp_path):
    good = made_games[0]
    missing = Game("missing/game", good.kind, tmp_path / "missing", good.sentence)
    async with EnginePool(1) as pool:
        with pytest.raises(GameFileError, match=r"opening game missing/game: .* can't be read"):
            async with pool.episode(missing):
                pass
        broken = broken_copy(good, tmp_path, grammar='grammar :: """{ oops """;')
        with pytest.raises(EngineError, match="opening game broken/game: "):
            async with pool.episode(broken):
                pass
        broken = broken_copy(good, tmp_path, pddl_problem="(define (problem oops")
        with pytest.raises(EngineError, match="opening game broken/game: "):
            async with pool.episode(broken):
                pass
        async with pool.episode(good) as episode:
            assert good.sentence in episode.opening


async def test_commands_are_given_one_at_a_time_and_only_inside(made_games):
    async with EnginePool(1) as pool:
        async with pool.episode(made_games[0]) as episode, anyio.create_task_group() as group:
            os.kill(workers_of(pool)[0], signal.SIGSTOP)
            group.start_soon(episode.step, "look")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(EngineError, match="one command at a time"):
                await episode.step("look")
            os.kill(workers_of(pool)[0], signal.SIGCONT)
        with pytest.raises(EngineError, match="is over"):
            await episode.step("look")
    with pytest.raises(EngineError, match="the pool is not open"):
        async with pool.episode(made_games[0]):
            pass


@one_backend
async def test_a_game_goes_to_the_worker_that_knows_it(made_games):
    async with EnginePool(2) as pool:
        seen = {}
        for _ in range(2):
            for game in made_games[:4]:
                async with pool.episode(game) as episode:
                    assert seen.setdefault(game.id, episode._process.pid) == episode._process.pid
        assert len(set(seen.values())) == 2


@one_backend
async def test_interrupts_from_the_terminal_are_left_to_the_parent(made_games):
    async with EnginePool(1) as pool, pool.episode(made_games[0]) as episode:
        os.kill(workers_of(pool)[0], signal.SIGINT)
        assert (await episode.step("look")).text


PARENT = """
import sys, anyio
from pathlib import Path
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.pool import EnginePool

async def main():
    async with EnginePool(1) as pool:
        async with pool.episode(Game("a/b", "k", Path(sys.argv[1]), "s")):
            print(pool._slots[0].process.pid, flush=True)
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
    deadline = time.monotonic() + 5
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(pid)
