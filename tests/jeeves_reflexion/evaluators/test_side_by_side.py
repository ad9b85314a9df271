"""Calls side by side: their order, and which error comes out."""

from __future__ import annotations

import anyio
import pytest

from jeeves_reflexion import BudgetExceededError
from jeeves_reflexion.callables import side_by_side

pytestmark = pytest.mark.anyio


def call(value, *, after=0.0):
    async def answer():
        await anyio.sleep(after)
        if isinstance(value, BaseException):
            raise value
        return value

    return answer


async def test_results_keep_their_order():
    assert await side_by_side([call(1, after=0.02), call(2), call(3, after=0.01)]) == [1, 2, 3]
    assert await side_by_side([]) == []


@pytest.mark.parametrize("error", [OSError("gone"), SystemExit(3)])
async def test_an_error_cancels_the_others_and_comes_out_as_itself(error):
    with anyio.fail_after(60), pytest.raises(type(error)) as caught:
        await side_by_side([call(1, after=60), call(error)])
    assert caught.value is error


async def test_what_ends_a_run_comes_before_other_errors():
    gone = BudgetExceededError("tokens", "gone")

    async def both():
        try:
            await anyio.sleep(60)
        finally:
            raise gone

    with anyio.fail_after(60), pytest.raises(BudgetExceededError):
        await side_by_side([call(OSError("first")), both])
    with pytest.raises(BudgetExceededError):
        await side_by_side([call(ExceptionGroup("g", [OSError("x"), ExceptionGroup("h", [gone])]))])


async def test_a_cancelled_caller_cancels_the_calls():
    ended = []

    async def long():
        try:
            await anyio.sleep(60)
        finally:
            ended.append(True)

    with anyio.move_on_after(0.05) as scope:
        await side_by_side([long, long])
    assert scope.cancelled_caught
    assert len(ended) == 2
