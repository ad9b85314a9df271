"""The interval of a difference of mean scores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.statistics import difference


def shares(successes, n):
    return [1.0] * successes + [0.0] * (n - successes)


@table(
    ("first", "second", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
    ],
)
def test_known_values(first, second, low, high):
    """Newcombe 1998, Table II, method 10: the first share less the second."""
    found = difference(shares(*second), shares(*first))
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


_SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=50)


@given(_SCORES, _SCORES)
def test_the_interval_holds_the_difference_and_turns_round(before, after):
    found, turned = difference(before, after), difference(after, before)
    assert -1.0000001 <= found.low <= found.value <= found.high <= 1.0000001
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))
    assert (found.worse, found.better) != (True, True)


def test_worse_and_better_are_said_where_the_interval_tells():
    assert difference([1.0] * 10, [0.0] * 10).worse
    assert difference([0.0] * 10, [1.0] * 10).better
    same = difference([0.5] * 10, [0.6] * 10)
    assert (same.worse, same.better) == (False, False)


@table(("before", "after"), [([], [1.0]), ([1.0], []), ([1.1], [1.0]), ([1.0], [-0.1])])
def test_what_is_no_score_is_refused(before, after):
    with pytest.raises(ValueError, match="no mean"):
        difference(before, after)
