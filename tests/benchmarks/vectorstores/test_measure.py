"""The clocks measure what they say."""

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.timing import (
    Here,
    Together,
    differences,
    in_turn,
    median,
    ratios,
)

SECONDS = st.floats(0, 10)


@settings(max_examples=30, deadline=None)
@given(st.lists(SECONDS, min_size=1, max_size=30))
def test_the_interval_holds_the_median_and_lies_within_the_values(values: list[float]) -> None:
    figure = median(values)
    assert min(values) <= figure.low <= figure.value <= figure.high <= max(values)
    assert figure == median(values)


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no repetitions"):
        median([])


def test_more_repetitions_make_the_interval_narrower() -> None:
    few, many = [1.0, 2.0, 3.0], [1.0, 2.0, 3.0] * 20
    assert median(many).high - median(many).low < median(few).high - median(few).low


def test_neighbours_are_compared_with_each_other() -> None:
    assert ratios([10.0, 30.0, 40.0], [5.0, 10.0, 20.0]).each == (2.0, 3.0, 2.0)
    assert differences([10.0, 30.0], [5.0, 10.0]).each == (5.0, 20.0)


class _Noted:
    def __init__(self, name: str, order: list[str], made: list[int], seconds: float) -> None:
        self._name, self._order, self._made, self._seconds = name, order, made, seconds

    async def burst(self, calls: range) -> list[float]:
        self._order.append(self._name)
        self._made.extend(calls)
        return [self._seconds, self._seconds, 100.0]


@pytest.mark.usefixtures("cheap_collections")
@pytest.mark.anyio
async def test_sides_take_turns_make_the_same_calls_and_the_first_round_is_not_counted(
    anyio_backend: str,
) -> None:
    order: list[str] = []
    made: dict[str, list[int]] = {"a": [], "b": []}
    sides = {name: _Noted(name, order, made[name], at) for name, at in (("a", 1.0), ("b", 2.0))}
    taken = await in_turn(sides, repetitions=3, calls=2, first=10)
    assert taken == {"a": (1.0,) * 3, "b": (2.0,) * 3}
    assert sorted(order) == ["a"] * 4 + ["b"] * 4
    assert {order[0], order[2]} == {order[1], order[3]} == {"a", "b"}
    assert made["a"] == made["b"] == list(range(10, 18))


@pytest.mark.anyio
async def test_a_burst_times_every_call(anyio_backend: str) -> None:
    async def call(number: int) -> None:
        await anyio.sleep(number / 50)

    taken = await Here(call).burst([0, 1, 2])
    assert len(taken) == 3
    assert taken[1] >= 0.02
    assert taken[2] >= 0.04


@pytest.mark.anyio
async def test_calls_together_overlap_and_each_is_made_once(anyio_backend: str) -> None:
    made: list[int] = []
    most = running = 0

    async def call(number: int) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await anyio.sleep(0.002)
        running -= 1
        made.append(number)

    taken = await Together(call, 4).burst(range(12))
    assert sorted(made) == list(range(12))
    assert most == 4
    assert len(taken) == 12
    assert sum(taken) >= 0.006
