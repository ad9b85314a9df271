"""Curves at several limits: what is played once, and what the table says."""

import pytest

from benchmarks.alfworld import transfer
from benchmarks.alfworld.agent import LESSONS_BLOCK, WON
from benchmarks.alfworld.curves import SharedAttempts, figures, page
from jeeves_reflexion import Attempt, Evaluation, Session, Step, Task, Trial
from jeeves_reflexion.experiments import Results, Tried

pytestmark = pytest.mark.anyio


class Counting:
    """Wins at its ``wins``-th command, or stops at its limit; counts how often it played."""

    def __init__(self, limit, wins=18):
        self.limit, self.wins, self.played = limit, wins, 0

    async def __call__(self, task, session):
        self.played += 1
        steps = tuple(Step("", f"go to desk {n}", "") for n in range(1, min(self.wins, self.limit) + 1))
        return Attempt("", steps, metadata={WON: self.wins <= self.limit})


async def test_a_first_attempt_is_played_once_for_all_limits_and_cut():
    agents, played = {limit: Counting(limit) for limit in (16, 18, 50)}, {}
    task, session = Task("Find it.", id="a"), Session()
    for _ in range(2):
        found = {limit: await SharedAttempts(agents, limit, played)(task, session) for limit in agents}
    assert {limit: agent.played for limit, agent in agents.items()} == {16: 0, 18: 0, 50: 1}
    assert {limit: each.metadata[WON] for limit, each in found.items()} == {16: False, 18: True, 50: True}
    assert {limit: len(each.steps) for limit, each in found.items()} == {16: 16, 18: 18, 50: 18}
    with_lessons = session.for_attempt(2, {LESSONS_BLOCK: "- Look into desk 3."})
    assert len((await SharedAttempts(agents, 16, played)(task, with_lessons)).steps) == 16
    assert agents[16].played == 1


def test_the_table_holds_arms_against_controls_by_room_and_by_type():
    tasks = tuple(Task(f"Room {n % 4}.\n\nFind {n}.", id=str(n), kind="ab"[n % 2]) for n in range(8))

    def tries(arm, task, seed):
        for number in (1, 2):
            passed = number == 2 and (arm == "own" or int(task.id) < 2)
            yield Tried(arm, seed, task, Trial(number, Attempt(""), Evaluation(None), passed=passed))

    arms = ("retry", "own")
    rows = [row for arm in arms for task in tasks for seed in (0, 1) for row in tries(arm, task, seed)]
    found = figures({16: Results(tasks, arms, (0, 1), 2, rows, cluster="opening")})
    assert (found["games"], found["rooms"], found["types"]) == (8, 4, 2)
    text = page(found)
    assert "| 16 | retry | 0.0% (0.0% to 49.0%) | 25.0% (" in text
    assert "| 16 | own - retry | +75.0 points (" in text


def test_rooms_never_seen_are_held_against_the_placebo_in_pairs_by_room():
    tasks = tuple(Task("Find it.", id=str(n), metadata={"room": str(n // 2)}) for n in range(16))
    part, *_ = transfer.parts((0, 1), 1)

    def tried(way, seed):
        held = tasks[8 * seed : 8 * seed + 8]
        solved = {"no lessons": 0, "placebo": 2, "selective": 8}[way.name]
        rows = [
            Tried(
                way.arm, seed, task, Trial(1, Attempt(""), Evaluation(None), passed=at < solved), "held-out"
            )
            for at, task in enumerate(held)
        ]
        return Results(tasks[:8], (way.arm,), (seed,), 2, rows, held_out=held)

    runs = {way.name: [tried(way, seed) for seed in part.plan.seeds] for way in part.ways}
    rooms = {task.id: task.metadata["room"] for task in tasks}
    text = transfer.report(part, runs, rooms, 16)
    assert "## rooms: 16 games of 8 rooms, 2 seeds, 16 commands" in text
    assert "| placebo | 4/16 = 25.0% |" in text
    assert "| selective - placebo | +75.0 points (" in text
    by_game = transfer.report(part, runs, {task.id: task.id for task in tasks}, 16)
    assert by_game.splitlines()[-1] != text.splitlines()[-1]  # fewer rooms than games tell less
