"""The overhead benchmark measures what it says, with the peer and without."""

import importlib.util
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.overhead.__main__ import main
from benchmarks.overhead.measure import Memory, Speed, measure_memory, measure_speed
from benchmarks.overhead.ours import OURS
from benchmarks.overhead.peer import load_peer
from benchmarks.overhead.report import Report
from benchmarks.overhead.work import CASES, SCORE, Case, Observed, Side
from jeeves_reflexion import ConfigurationError

PEER_INSTALLED = importlib.util.find_spec("jeevesagent") is not None


@pytest.mark.anyio
async def test_our_side_does_the_work_it_is_compared_on(anyio_backend: str) -> None:
    off, block = CASES
    assert await OURS.observe(off) == Observed((SCORE,), model_calls=2)
    assert await OURS.observe(block) == Observed((SCORE,) * 3, model_calls=9)


@pytest.mark.skipif(not PEER_INSTALLED, reason="the peer jeevesagent is not installed")
@pytest.mark.anyio
async def test_the_peer_does_the_same_work() -> None:
    off, block = CASES
    peer = load_peer()
    assert await peer.observe(off) == await OURS.observe(off)
    assert (await peer.observe(block)).scores == (await OURS.observe(block)).scores
    assert (await peer.observe(block)).model_calls == 8


@pytest.mark.skipif(PEER_INSTALLED, reason="the peer jeevesagent is installed")
def test_a_missing_peer_says_how_to_install_it() -> None:
    with pytest.raises(ConfigurationError, match=r"pip install jeevesagent==0\.9\.7"):
        load_peer()


@pytest.mark.usefixtures("cheap_collections")
@pytest.mark.anyio
async def test_sides_take_turns_each_going_first_every_other_time(anyio_backend: str) -> None:
    order: list[str] = []
    sides = [_side(name, order) for name in ("a", "b")]
    speed = await measure_speed(sides, CASES[0], runs=1, repetitions=4)
    assert "".join(order[-8:]) == "abbaabba"
    assert {name: len(rates) for name, rates in speed.rates.items()} == {"a": 4, "b": 4}


@pytest.mark.anyio
async def test_a_side_that_does_other_work_is_refused(anyio_backend: str) -> None:
    with pytest.raises(ValueError, match="judged 1 attempts, not 3"):
        await measure_speed([_side("a", [])], CASES[1], runs=1, repetitions=1)


def test_the_ratio_is_taken_between_neighbours() -> None:
    speed = Speed(CASES[0], {"a": (10.0, 30.0, 40.0), "b": (5.0, 10.0, 20.0)}, {})
    assert speed.ratios("a", "b") == (2.0, 3.0, 2.0)
    assert speed.median("a") == 30.0


@pytest.mark.usefixtures("cheap_collections")
@pytest.mark.anyio
async def test_memory_does_not_grow_with_the_number_of_runs(anyio_backend: str) -> None:
    memory = await measure_memory(OURS, CASES[0], runs=1200)
    assert memory.runs == 1200
    assert memory.second_half < 100


@pytest.mark.anyio
async def test_memory_that_grows_is_seen(anyio_backend: str) -> None:
    kept: list[bytes] = []

    async def run() -> None:
        kept.append(bytes(1000))

    leaky = Side("leaky", "1", lambda case: run, _observe)
    assert (await measure_memory(leaky, CASES[0], runs=100)).second_half > 1000


def test_the_page_and_its_json_hold_both_sides() -> None:
    speed = Speed(
        CASES[0],
        {"ours": (40.0, 44.0), "peer": (20.0, 20.0)},
        {s: Observed((0.1,), 2) for s in ("ours", "peer")},
    )
    report = Report({"ours": "1", "peer": "2"}, 5, [speed], [Memory("ours", 10, 3.0, 0.0)])
    assert report.as_json()["cases"][0]["ratio"] == pytest.approx(2.1)
    assert "| ours 1 | 2 | 42 (40 to 44) | 2.10 (2.00 to 2.20) |" in report.as_markdown()


@pytest.mark.usefixtures("cheap_collections")
def test_the_command_writes_both_files_and_reports_ours_in_any_case(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["--runs", "2", "--repetitions", "2", "--memory-runs", "2", "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    figures = json.loads((tmp_path / "overhead.json").read_text())
    assert [len(case["attempts_per_second"]["jeeves-reflexion"]) for case in figures["cases"]] == [2, 2]
    assert (tmp_path / "overhead.md").read_text() in done.output
    assert PEER_INSTALLED or "pip install jeevesagent==0.9.7" in figures["missing"]


def _side(name: str, order: list[str]) -> Side:
    def prepare(case: Case) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            order.append(name)

        return run

    return Side(name, "1", prepare, _observe)


async def _observe(case: Case) -> Observed:
    return Observed((SCORE,), model_calls=2)
