"""Figures and the page, of lanes written down by hand; and the memory for what the engine said."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.alfworld.games import Game
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool, Observation
from benchmarks.alfworld.requirements import require_engine
from benchmarks.peers import figures
from benchmarks.peers.__main__ import main
from benchmarks.peers.arms import ARMS, TIMED, Arm, arm_named
from benchmarks.peers.known_games import RememberingPool
from benchmarks.peers.play import Own, Played
from benchmarks.peers.referee import Try
from benchmarks.peers.report import Comparison
from benchmarks.peers.workarounds import ROWS, Shown
from jeeves_reflexion import ConfigurationError, MissingDependencyError

SELECTIVE, STORE = arm_named("selective"), arm_named("store, MiniLM")


def lane(arm: Arm, wins: dict[str, int], *, seconds: float = 0.01, seed: int = 0) -> Played:
    """Games won at the attempt given, of three at most; 0 for never."""
    tries = [
        Try(
            task,
            number,
            number == won,
            16,
            recalled=number - 1,
            same_game=number - 1,
            same_kind=number - 1,
            used=0,
        )
        for task, won in wins.items()
        for number in range(1, (won or 3) + 1)
    ]
    own = [Own(seconds * (won or 3), seconds * (won or 3) / 2, won or 3) for won in wins.values()]
    memory = {"ready": 40.0, "peak": 50.0 + seed}
    return Played(arm, seed, tries, own, written=2, kept=2, memory=memory, version="1.2")


@pytest.fixture
def comparison() -> Comparison:
    games = {f"game {number}": 1 for number in range(20)}
    others = {name: 2 if number % 2 else 0 for number, name in enumerate(games)}
    played = [lane(SELECTIVE, games), lane(STORE, others)]
    timed = [lane(TIMED[0], games, seconds=0.02), lane(TIMED[2], games, seconds=0.01)]
    shown = [Shown(ROWS[0], "a | b", holds=True), Shown(ROWS[1], "nothing", holds=False)]
    return Comparison(
        played, timed, shown, 3, 20, (0,), 16, "hashing", "python -m benchmarks.peers", 90.0, 0.2
    )


def test_a_game_won_late_counts_from_then_on() -> None:
    lanes = [lane(SELECTIVE, {"a": 1, "b": 3, "c": 0}), lane(SELECTIVE, {"a": 2, "b": 0, "c": 0}, seed=1)]
    assert [figures.share_by(lanes, trial).successes for trial in (1, 2, 3)] == [1, 2, 3]
    assert figures.share_by(lanes, 1).n == 6
    assert figures.solved_by(lanes, 2) == {"a": [1.0, 1.0], "b": [0.0, 0.0], "c": [0.0, 0.0]}


def test_recalls_are_shares_of_what_was_recalled() -> None:
    found = figures.recalls([lane(SELECTIVE, {"a": 3})])
    assert (found.per_attempt, found.most, found.same_kind, found.used, found.own) == (1.0, 2, 1.0, 0.0, 1.0)
    nothing = figures.recalls([lane(SELECTIVE, {"a": 1})])
    assert (nothing.same_kind, nothing.used, nothing.own) == (None, None, None)


def test_times_are_per_attempt_and_ratios_of_the_same_game() -> None:
    ours, theirs = (
        lane(SELECTIVE, {"a": 1, "b": 2}, seconds=0.02),
        lane(STORE, {"a": 3, "b": 1}, seconds=0.01),
    )
    found = figures.times(ours)
    assert found.wall.value == pytest.approx(0.02)
    assert found.cpu.value == pytest.approx(0.01)
    assert found.game.value == pytest.approx(0.03)
    assert figures.ratio(ours, theirs, cpu=False).value == pytest.approx(2.0)


def test_the_page_has_every_table(comparison: Comparison) -> None:
    page = comparison.as_markdown()
    assert "| jeeves-reflexion | selective | 20/20 = 100% (84% to 100%) |" in page
    assert "| jeevesagent | store, MiniLM | 0/20 = 0% (0% to 16%) | 10/20 = 50%" in page
    assert "success is lower: -100 points" in page
    assert "| 2.00 (2.00 to 2.00) | 2.00 (2.00 to 2.00) | 50 |" in page
    assert "a \\| b" in page
    assert page.count("**Not so in this version.**") == 1
    tables = [line for line in page.splitlines() if line.startswith("|")]
    for line, below in pairwise(tables):
        if below.startswith("| ---"):
            assert line.count("|") == below.count("|")


def test_the_json_has_what_the_page_says(comparison: Comparison) -> None:
    found = json.loads(json.dumps(comparison.as_json()))
    assert [arm["name"] for arm in found["arms"]] == ["selective", "store, MiniLM"]
    assert [point["solved"] for point in found["arms"][1]["solved"]] == [0, 10, 10]
    assert found["arms"][1]["minus_reference"][0]["value"] == -1.0
    assert found["own_time"][0]["wall_over_peer"]["median"] == pytest.approx(2.0)
    assert found["own_time"][1]["wall_over_peer"] is None
    assert found["workarounds"][0]["seen"] == "a | b"


def test_an_arm_that_is_none_is_refused() -> None:
    assert all(arm_named(arm.name) == arm for arm in ARMS)
    with pytest.raises(ConfigurationError, match="there is no arm 'best'"):
        arm_named("best")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing option '--peer-python'"),
        (["--peer-python", "README.md", "--seeds", "a"], "no list of whole"),
    ],
)
def test_wrong_options_are_refused(words: list[str], said: str) -> None:
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 2
    assert said in found.output


class Counting:
    """An episode that counts what it is asked."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked
        self._given: list[str] = []
        self.first = Observation("a room", won=False, admissible=("look",))

    async def step(self, command: str) -> Observation:
        self._asked.append(command)
        self._given.append(command)
        return Observation(" ".join(self._given), won=command == "win", admissible=("look",))


@pytest.mark.anyio
async def test_the_engine_is_asked_once(monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> None:
    asked: list[str] = []
    opened: list[str] = []

    @asynccontextmanager
    async def episode(self: EnginePool, game: Game) -> AsyncIterator[Counting]:
        opened.append(game.id)
        yield Counting(asked)
        opened.append("closed")

    monkeypatch.setattr("benchmarks.alfworld.pool.require_engine", lambda: None)
    monkeypatch.setattr(EnginePool, "episode", episode)
    pool, game = RememberingPool(1), Game("a", "kind", Path("a"), "win")
    for commands in (["look", "win"], ["look", "win"], ["look", "wait", "win"]):
        async with pool.episode(game) as playing:
            assert playing.opening == "a room"
            texts = [(await playing.step(command)).text for command in commands]
            assert texts == [" ".join(commands[: n + 1]) for n in range(len(commands))]
            assert playing.won
    # Once to open it, once for the first line of play, and once more where another line leaves it.
    assert asked == ["look", "win", "look", "wait", "win"]
    assert opened == ["a", "closed"] * 3
    assert pool.asked == 2
    assert pool.seconds > 0


@pytest.mark.engine
@pytest.mark.anyio
async def test_what_is_remembered_is_what_the_engine_says(tmp_path: Path) -> None:
    try:
        require_engine()
    except (ConfigurationError, MissingDependencyError) as error:
        pytest.skip(str(error))
    (game,) = await generate_games(tmp_path, count=1, seed=0, workers=1)
    lines = [
        ["look", "go to shelf 1", "inventory"],
        ["look", "go to shelf 1", "examine shelf 1", "look"],
        ["help"],
    ]
    async with EnginePool(1) as engine, RememberingPool(1) as memory:
        told = [await _play(engine, game, line) for line in lines]
        for _ in range(2):
            assert [await _play(memory, game, line) for line in lines] == told
    assert memory.asked == len(lines)


async def _play(pool: EnginePool, game: Game, commands: list[str]) -> list[tuple[str, bool]]:
    async with pool.episode(game) as episode:
        seen = [episode.first, *[await episode.step(command) for command in commands]]
    return [(each.text, each.won) for each in seen]
