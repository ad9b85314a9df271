"""The simulation with known effects: its world, what it finds, and the page that it writes."""

from __future__ import annotations

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.lessons.credit import main
from benchmarks.lessons.credit_play import Player, Shares
from benchmarks.lessons.credit_rule import how_soon
from benchmarks.lessons.credit_world import KINDS, World
from vectorstores import HashingEmbedder, InMemoryVectorStore


def played(arm: str, share: float, attempts: int, lessons: int = 10, early: float = 0.0):
    async def play():
        async with InMemoryVectorStore(HashingEmbedder(), namespace="tests") as store:
            return await Player(World(1, lessons), arm, Shares(share, early), store).play(attempts)

    return anyio.run(play)


def test_a_world_has_its_shares_and_poses_the_same_tasks_again():
    world = World(3, 30)
    lessons = [each for topic in world.topics for each in topic]
    assert [sum(each.kind == kind for each in lessons) for kind in KINDS] == [6, 18, 6]
    assert world.task(5) == World(3, 30).task(5)
    assert world.task(5) != world.task(6)
    with pytest.raises(ValueError, match="in tens"):
        World(3, 25)


def test_a_task_is_solved_as_often_as_its_chance_says():
    world = World(3, 10)
    helpful = [each for each in world.topics[0] if each.kind == "helpful"]
    posed = [world.task(number) for number in range(3000)]
    for offered in ((), helpful[:1]):
        expected = sum(each.chance(offered) for each in posed) / 3000
        assert sum(each.solved(offered) for each in posed) / 3000 == pytest.approx(expected, abs=0.03)
    assert posed[0].chance(helpful[:1]) == pytest.approx(posed[0].base + 0.2)


def test_the_oracle_is_above_and_credit_between():
    none, credit, oracle = (sum(played(arm, 0.2, 1000).solved) for arm in ("none", "rank", "oracle"))
    assert none + 50 < credit < oracle


def test_the_ledgers_figures_hold_the_truth():
    run = played("measure", 0.2, 1200)
    known = [each for each in run.watched.values() if each.lift.value is not None]
    assert len(known) >= 8
    held = [each.lift.low <= each.true_lift <= each.lift.high for each in known]
    assert sum(held) >= len(known) - 2
    kinds = {each.taught.kind for each in run.watched.values() if each.retired_at is not None}
    # A useless one may be among them, with a chance of a twentieth each.
    assert "harmful" in kinds
    assert "helpful" not in kinds
    assert run.library.low <= run.library_truth <= run.library.high


def test_an_early_share_finds_harm_sooner_and_claims_no_more():
    run = played("measure", 0.05, 1200, early=0.5)
    known = [each for each in run.watched.values() if each.lift.value is not None]
    held = [each.lift.low <= each.true_lift <= each.lift.high for each in known]
    assert sum(held) >= len(known) - 2
    late, early = (
        {each.kind: each.retired_at for each in how_soon(shares, 40, recalls=100)}
        for shares in (Shares(0.05), Shares(0.05, 0.5))
    )
    retired = [sum(at is not None for at in found["harmful"]) for found in (late, early)]
    assert retired[0] + 3 < retired[1]
    assert not any(early["helpful"])
    assert len([at for at in early["useless"] if at]) <= 2


def test_the_rule_alone_retires_harmful_lessons_and_few_others():
    soon = {each.kind: each.retired_at for each in how_soon(Shares(0.2), 12, recalls=600)}
    retired = {kind: sum(at is not None for at in found) for kind, found in soon.items()}
    assert retired["harmful"] >= 9
    assert retired["useless"] <= 2
    assert retired["helpful"] == 0
    assert min(at for at in soon["harmful"] if at) > 20


def test_the_command_writes_its_page(tmp_path):
    out = tmp_path / "results" / "page.md"
    options = ["--lessons", "10", "--attempts", "100", "--seeds", "0", "--workers", "1", "--out", str(out)]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0, done.output
    page = out.read_text()
    assert "python -m benchmarks.lessons.credit --lessons 10 --attempts 100 --seeds 0" in page
    assert "whose results are the same" in page
    assert page.count("\n## ") == 5
