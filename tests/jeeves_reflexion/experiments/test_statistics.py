import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.statistics import clustered_share, wilson


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_stays_within_bounds(pair):
    successes, n = pair
    share = wilson(successes, n)
    assert 0.0 <= share.low <= share.value <= share.high <= 1.0


def test_known_values():
    """Newcombe 1998, Table I, method 3: 81 of 263 and 15 of 148."""
    assert (round(wilson(81, 263).low, 4), round(wilson(81, 263).high, 4)) == (0.2553, 0.3662)
    assert (round(wilson(15, 148).low, 4), round(wilson(15, 148).high, 4)) == (0.0624, 0.1605)
    assert wilson(0, 20).low == 0.0
    assert round(wilson(0, 20).high, 4) == 0.1611


@given(st.lists(st.booleans(), min_size=2, max_size=60), st.integers(2, 10))
def test_the_same_outcome_again_tells_nothing_more(outcomes, seeds):
    alone = clustered_share([[each] for each in outcomes])
    again = clustered_share([[each] * seeds for each in outcomes])
    assert alone == wilson(sum(outcomes), len(outcomes))
    assert again.value == alone.value
    assert again.low <= alone.low + 1e-9
    assert again.high >= alone.high - 1e-9


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 3), (4, 3)])
def test_a_share_of_nothing_is_no_zero(successes, n):
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, n)
