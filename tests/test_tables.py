"""A table of rows is checked whole, and each row that fails is told."""

import inspect

import pytest
from tables import table


def test_every_row_is_checked_and_those_that_fail_are_told():
    seen = []

    @table("other", "ab")
    @table(("number", "wanted"), [(1, True), (2, False), (3, True), (4, False)])
    def odd(number, wanted, other, extra):
        seen.append((number, other, extra))
        assert (number % 2 == 1) is wanted
        if number == 3:
            with pytest.raises(ValueError, match="never"):
                pass
        if number == 4:
            raise OSError("gone")

    assert list(inspect.signature(odd).parameters) == ["extra"]
    with pytest.raises(ExceptionGroup, match="2 of 2 rows fail") as caught:
        odd(extra=7)
    inner = caught.value.exceptions[0]
    assert [type(error).__name__ for error in inner.exceptions] == ["AssertionError", "OSError"]
    assert "'number': 3" in inner.exceptions[0].__notes__[0]
    assert seen == [(number, other, 7) for other in "ab" for number in (1, 2, 3, 4)]


def test_a_test_keeps_its_name_and_marks():
    @pytest.mark.anyio
    @table("number", [1])
    def named(number):
        """Say."""

    assert (named.__name__, named.__doc__) == ("named", "Say.")
    assert [mark.name for mark in named.pytestmark] == ["anyio"]


@pytest.mark.anyio
async def test_an_async_test_is_awaited_for_each_row():
    @table("number", [1, 2, 3])
    async def small(number):
        assert number < 2

    with pytest.raises(ExceptionGroup, match="2 of 3 rows fail"):
        await small()


def test_a_table_without_rows_is_refused():
    with pytest.raises(AssertionError, match="without rows"):
        table("number", [])
