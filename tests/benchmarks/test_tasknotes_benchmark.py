"""The benchmark of task notes: its player, its table, and a few real games."""

import anyio
import pytest

from benchmarks.tasknotes import Played, play, player, table
from jeeves_reflexion import Session, Task
from jeeves_reflexion.tasknotes import TaskReflection, prompt_with

OPENING = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a drawer 1, a fridge 1, and a"
    " sinkbasin 1.\n\nYour task is to: put some apple in sinkbasin."
)


def test_the_player_reads_notes_as_advice_and_the_task_after_them_as_the_opening():
    sentence = "To put an apple in the sinkbasin, take apple 1 from drawer 1: that took 5 steps."
    prompt = prompt_with(Task(OPENING), TaskReflection.of_first_run(sentence, ""))
    for seed in range(5):
        made = player(Task(prompt), Session(attempt=1), seed=seed)
        assert anyio.run(made.next, OPENING).command == "go to drawer 1"


def test_without_notes_the_player_searches_in_an_order_of_its_own():
    first = {
        anyio.run(player(Task(OPENING), Session(attempt=1), seed=seed).next, OPENING).command
        for seed in range(20)
    }
    assert len(first) > 1


def test_the_table_has_a_row_for_each_kind_and_arm_and_the_gain():
    played = [
        Played(arm, 0, run, f"game {n}", kind, won=arm == "on" and run == 2)
        for arm in ("off", "on")
        for run in (1, 2)
        for n, kind in enumerate(["clean", "heat"] * 10)
    ]
    lines = table(played).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| clean"] * 2 + ["| heat"] * 2 + [
        "| all kinds"
    ] * 2
    assert "0/20 = 0%" in lines[-1]
    assert "20/20 = 100%" in lines[-1]
    assert "+100 points (+77 to +100)" in lines[-1]


@pytest.mark.engine
def test_real_games_are_won_again_with_notes(made_games):
    from benchmarks.alfworld.agent import tasks_for
    from benchmarks.alfworld.pool import EnginePool

    async def measure():
        games = made_games[:2]
        async with EnginePool(1) as pool:
            tasks = await tasks_for(pool, games, workers=1)
            return await play(pool, {g.id: g for g in games}, tasks, "on", 0, 3, 30)

    played = anyio.run(measure)
    assert [(each.run, each.game) for each in played] == [
        (run, game) for run in (1, 2, 3) for game in [each.game for each in played[:2]]
    ]
    for game in {each.game for each in played}:
        won = [each.won for each in played if each.game == game]
        assert won == sorted(won), "what was won once is won again"
    assert any(each.won for each in played)
