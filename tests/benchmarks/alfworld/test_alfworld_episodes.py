"""Episodes, all played by one worker, which is replaced where a test takes it away.

Pools are tried on trio by the tests of the generator.
"""

from __future__ import annotations

import json
import os
import re
import signal

import anyio
import pytest

from benchmarks.alfworld.failures import EngineError, GameFileError
from benchmarks.alfworld.games import Game

pytestmark = [pytest.mark.anyio, pytest.mark.engine]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


OPENING = re.compile(
    r"You are in the middle of a room\. Looking quickly around you, you see "
    r"(a [a-z]+ \d+, )+and a [a-z]+ \d+\.\n\nYour task is to: (?P<sentence>.*)"
)


def broken_copy(game, folder, **changes):
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps({**json.loads(game.path.read_text()), **changes}))
    return Game("broken/game", game.kind, path, game.sentence)


async def test_openings_are_those_of_alfworld(pool, genuine_games, made_games):
    for game in (genuine_games[0], made_games[0]):
        async with pool.episode(game) as episode:
            found = OPENING.fullmatch(episode.opening)
            assert found is not None, episode.opening
            assert found["sentence"] == game.sentence
            assert not episode.won


async def test_both_dialects_are_played(pool, genuine_games, made_games):
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


async def test_a_worker_that_dies_is_replaced(pool, made_games):
    game = made_games[0]
    async with pool.episode(game) as episode:
        os.kill(episode._process.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match=rf"{game.id}, command 'look': .*ended with code -9"):
            await episode.step("look")
        with pytest.raises(EngineError, match="is over"):
            await episode.step("look")
    async with pool.episode(game) as episode:
        assert (await episode.step("look")).text


async def test_a_cancelled_command_leaves_the_pool_usable(pool, made_games):
    first, second = made_games[:2]
    with anyio.move_on_after(20) as scope:
        async with pool.episode(first) as episode:
            os.kill(episode._process.pid, signal.SIGSTOP)
            scope.deadline = anyio.current_time() + 0.1
            await episode.step("look")
    assert scope.cancelled_caught
    async with pool.episode(second) as episode:
        assert second.sentence in episode.opening


async def test_one_that_gives_up_waiting_leaves_the_queue(pool, made_games):
    async with pool.episode(made_games[0]) as episode:
        with anyio.move_on_after(0.05) as scope:
            async with pool.episode(made_games[1]):
                raise AssertionError("there is one worker only")
        assert scope.cancelled_caught
        assert (await episode.step("look")).text
        only = episode._process.pid
    async with pool.episode(made_games[1]) as episode:
        assert made_games[1].sentence in episode.opening
        assert episode._process.pid == only


async def test_games_that_cannot_be_opened_are_named_and_do_no_harm(pool, made_games, tmp_path):
    good = made_games[0]
    missing = Game("missing/game", good.kind, tmp_path / "missing", good.sentence)
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


async def test_commands_are_given_one_at_a_time_and_only_inside(pool, made_games):
    async with pool.episode(made_games[0]) as episode, anyio.create_task_group() as group:
        os.kill(episode._process.pid, signal.SIGSTOP)
        group.start_soon(episode.step, "look")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(EngineError, match="one command at a time"):
            await episode.step("look")
        os.kill(episode._process.pid, signal.SIGCONT)
    with pytest.raises(EngineError, match="is over"):
        await episode.step("look")


async def test_interrupts_from_the_terminal_are_left_to_the_parent(pool, made_games):
    async with pool.episode(made_games[0]) as episode:
        os.kill(episode._process.pid, signal.SIGINT)
        assert (await episode.step("look")).text
