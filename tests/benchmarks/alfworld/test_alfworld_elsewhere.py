"""What playing on other machines asks of the engines."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.alfworld.games import read_game_data
from benchmarks.alfworld.pool import EnginePool

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.usefixtures("engine")]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_process_is_started_while_one_is_idle_and_a_game_needs_no_file(made_games):
    here = made_games[0]
    elsewhere = replace(here, path=Path("/of/another/machine"), data=read_game_data(here.path))
    async with EnginePool(3) as pool:
        openings = []
        for game in (here, elsewhere):
            async with pool.episode(game) as episode:
                openings.append(episode.opening)
        assert openings[0] == openings[1]
        (process,) = pool._idle
        await pool.rest()
        assert not process.alive
        assert not pool._idle
