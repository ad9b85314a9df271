"""Playing: what a lane keeps, that workers change nothing, and both frameworks over the same referee."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.peers.arms import ARMS, PEER, TIMED, Arm
from benchmarks.peers.child import ChildError
from benchmarks.peers.play import Played, Sides, play_all, take_turns
from benchmarks.peers.referee import Lane, Referee
from jeeves_reflexion import Task

pytestmark = pytest.mark.anyio
SidesFactory = Callable[..., Sides]
STEPS = [["I look.", "go to cabinet 1", "You arrive at cabinet 1. In it, you see nothing."]]


def named(name: str) -> Arm:
    return next(arm for arm in (*ARMS, *TIMED) if arm.name == name)


def numbers(played: Played) -> list[tuple[str, int, bool]]:
    return [(each.task, each.number, each.won) for each in played.tries]


async def learn(lane: Lane, task: Task) -> str:
    lane.begin(task)
    answer = await lane.answer({"ask": "reflect", "steps": STEPS, "won": False})
    return str(answer["lesson"])


async def test_a_lane_tells_where_recalled_lessons_come_from(referee: Referee, anyio_backend: str) -> None:
    lane = Lane(referee, 0)
    mug = referee.tasks[1]
    lessons = [await learn(lane, task) for task in referee.tasks]
    lane.begin(mug)
    answer = await lane.answer({"ask": "play", "block": "\n".join(f"- {lesson}" for lesson in lessons)})
    assert answer["won"]
    last = lane.tries[-1]
    assert (last.recalled, last.same_game, last.same_kind, last.used) == (3, 1, 2, 1)
    assert lane.written == 3
    assert lane.unknown == 0


async def test_lessons_in_one_line_are_counted_one_by_one(referee: Referee, anyio_backend: str) -> None:
    lane = Lane(referee, 0)
    lessons = [await learn(lane, task) for task in referee.tasks]
    await lane.answer({"ask": "play", "block": "".join(f"- {lesson}" for lesson in lessons)})
    assert lane.tries[-1].recalled == 3
    await lane.answer({"ask": "play", "block": "- Nobody wrote this."})
    assert (lane.tries[-1].recalled, lane.unknown) == (0, 1)


async def test_attempts_are_counted_for_each_game(referee: Referee, anyio_backend: str) -> None:
    lane = Lane(referee, 0)
    for task in referee.tasks[:2]:
        lane.begin(task)
        for _ in range(2):
            await lane.answer({"ask": "play", "block": ""})
    assert [each.number for each in lane.tries] == [1, 2, 1, 2]
    assert lane.made == 2


async def test_an_attempt_that_a_framework_cuts_is_not_won(referee: Referee, anyio_backend: str) -> None:
    lane = Lane(referee, 0)
    lesson = await learn(lane, referee.tasks[0])
    await lane.answer({"ask": "play", "block": f"- {lesson}"})
    lane.cut(0)
    assert lane.tries[-1].won
    lane.cut(1)
    assert (lane.tries[-1].won, lane.tries[-1].steps) == (False, 1)


async def test_vectors_are_made_once_and_are_those_of_the_embedder(
    referee: Referee, anyio_backend: str
) -> None:
    first = await referee.embed(["a mug", "a plate", "a mug"])
    assert first[0] == first[2] != first[1]
    assert (await referee.embedder.embed(["a plate"])).tolist() == [first[1]]
    assert await referee.embed(["a plate"]) == [first[1]]


async def test_an_unknown_question_is_an_error(referee: Referee, anyio_backend: str) -> None:
    with pytest.raises(ChildError, match="no answer to 'what'"):
        await Lane(referee, 0).answer({"ask": "what"})
    with pytest.raises(ChildError, match="no game has begun"):
        await Lane(referee, 0).answer({"ask": "play", "block": ""})


async def test_a_peer_is_played_and_what_it_cut_is_taken_back(
    fake_sides: SidesFactory, referee: Referee, anyio_backend: str
) -> None:
    said: list[str] = []
    arm = next(arm for arm in ARMS if arm.side == PEER)
    (played,) = await play_all(referee, fake_sides(), [arm], [0], workers=1, say=said.append)
    two = [(thing, number, number == 2) for thing in ("tomato", "mug") for number in (1, 2)]
    assert numbers(played) == [*two, ("plate", 1, False), ("plate", 2, False)]
    assert (played.written, played.kept, played.cut, played.version) == (3, 3, 1, "0.0")
    assert [own.attempts for own in played.own] == [2, 2, 2]
    assert all(own.seconds > 0 for own in played.own)
    assert said == [f"{arm.title}, seed 0: 2 of 3"]


async def test_ours_learns_from_a_failed_attempt_whatever_the_store(
    fake_sides: SidesFactory, referee: Referee
) -> None:
    arms = [named(name) for name in ("retry", "own", "selective", "selective, FAISS folder")]
    played = await play_all(referee, fake_sides(), arms, [0], workers=2, say=lambda _: None)
    retry, own, selective, durable = played
    assert [won for *_, won in numbers(retry)] == [False] * 9
    assert (retry.written, retry.kept) == (0, 0)
    for lane in (own, selective, durable):
        assert [(number, won) for _, number, won in numbers(lane)] == [(1, False), (2, True)] * 3
        assert lane.written == lane.kept == 3
        assert lane.unknown == 0
    assert [each.same_game for each in own.tries] == [each.recalled for each in own.tries] == [0, 1] * 3


async def test_workers_change_no_result(fake_sides: SidesFactory, referee: Referee) -> None:
    arms = [named("own"), named("block")]
    results = []
    for workers in (1, 3):
        played = await play_all(referee, fake_sides(), arms, [0, 1], workers=workers, say=lambda _: None)
        results.append([(lane.arm.name, lane.seed, lane.tries) for lane in played])
    assert results[0] == results[1]
    assert [name for name, *_ in results[0]] == ["own", "own", "block", "block"]


async def test_timed_arms_play_the_same_games(fake_sides: SidesFactory, referee: Referee) -> None:
    played = await take_turns(referee, fake_sides(), [named("selective"), named("store, MiniLM")], 0)
    assert [len(lane.own) for lane in played] == [3, 3]
    assert [each.task for each in played[0].tries] == [each.task for each in played[1].tries]


@pytest.mark.parametrize("name", [arm.name for arm in (*ARMS, *TIMED) if arm.side == PEER])
async def test_the_real_peer_plays_every_arm(real_sides: SidesFactory, referee: Referee, name: str) -> None:
    (played,) = await play_all(referee, real_sides(), [named(name)], [0], workers=1, say=lambda _: None)
    assert [(number, won) for _, number, won in numbers(played)][:2] == [(1, False), (2, True)]
    assert played.written == 3
    assert played.kept == (None if named(name).store == "block" else 3)
    assert played.unknown == 0
    assert played.version


async def test_the_real_peers_default_limit_of_turns_cuts_a_run(
    real_sides: SidesFactory, referee: Referee
) -> None:
    class Losing:
        async def __call__(self, task: Task, session: object) -> object:
            attempt = await type(referee).agent(referee, 0)(task, session)  # type: ignore[arg-type]
            return type(attempt)(steps=attempt.steps * 8, metadata={"won": False, "lessons_used": []})

    referee.agent = lambda seed: Losing()  # type: ignore[assignment, method-assign, return-value]
    referee.tasks = referee.tasks[:1]
    (played,) = await play_all(referee, real_sides(5), [named("block")], [0], workers=1, say=lambda _: None)
    assert [each.steps for each in played.tries] == [16, 16, 12]
    assert played.cut == 1
