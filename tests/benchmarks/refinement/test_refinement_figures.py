"""The five figures of runs made by hand."""

from benchmarks.refinement.figures import BOUNDS, figures, holds
from benchmarks.refinement.measure import Grid
from benchmarks.refinement.play import Judged, Record
from benchmarks.report import share_of
from jeeves_reflexion.statistics import wilson


def judged(state: str, named: str = "", base: int | None = None) -> Judged:
    """A draft of five requirements of equal weight: ``"1101."``, where 1 holds; ``named`` as places."""
    held = tuple(letter == "1" for letter in state)
    return Judged(held, sum(held) / len(held), frozenset(map(int, named)), base)


def run(*drafts: Judged, returned: int, **more: float) -> Record:
    return Record(drafts, returned, **more)


BETTER = run(judged("11000", "234"), judged("11110", "", 1), returned=2)
"""Two of three real faults mended; passed, and truly good."""

WORSE = run(
    judged("11000", "02"),
    judged("01100", "0", 1),
    judged("10000", "3", 1),
    returned=3,
    further=0.2,
    spread=0.3,
)
"""A false alarm broke something, and once more; a lesser text was returned, and more work would have helped."""

FOOLED = run(judged("10000", ""), returned=1, further=0.0)
"""Passed at once, and not good; the judge would never have seen it."""

GOOD = run(judged("11110", "4"), judged("11111", "", 1), returned=2, spread=0.1)
"""Good at first, and better then: the judge could not know."""

RUNS = [BETTER, WORSE, FOOLED, GOOD]


def test_each_figure_counts_what_it_says():
    for name, successes, n in [
        ("better", 2, 4),
        ("better_where_short", 1, 3),
        ("satisfactory", 2, 4),
        # BETTER: 3 real, 2 mended. WORSE: from draft 1, place 2 is real (mended, then not); GOOD: place 4.
        ("resolved", 4, 6),
        ("consistent", 3, 4),
        # FOOLED is not good, but more work by these two would not have helped.
        ("stopped", 3, 4),
        ("went_on_past_good", 1, 4),
    ]:
        share = figures(RUNS)[name]
        assert (share.successes, share.n) == (successes, n)


def test_what_came_too_late_is_not_within_three_revisions():
    drafts = [judged("10000", "1", base) for base in (None, 1, 1, 1)]
    late = run(*drafts, judged("11111", "", 4), returned=5)
    soon = run(*drafts[:3], judged("11111", "", 3), returned=4)
    assert [figures([one])["satisfactory"].successes for one in (late, soon)] == [0, 1]


def test_nothing_to_count_is_no_share_and_holds_nowhere():
    found = figures([run(judged("11111"), returned=1)])["resolved"]
    assert found is None
    assert not holds(found, 0.0)
    assert share_of([]) is None


def test_a_bound_holds_where_the_whole_interval_lies_above_it():
    assert holds(wilson(95, 100), 0.85)
    assert not holds(wilson(88, 100), 0.85)


def test_the_region_ends_at_the_first_place_where_the_bound_fails():
    bound = BOUNDS[0]
    ups = {0.0: 100, 0.1: 99, 0.2: 60, 0.3: 99}
    cells = {(judge, 0.0): {one.figure: wilson(ups[judge], 100) for one in BOUNDS} for judge in ups} | {
        (judge, 0.5): {one.figure: wilson(1, 100) for one in BOUNDS} for judge in ups
    }
    grid = Grid(tuple(ups), (0.0, 0.5), cells)
    assert grid.reach(bound, 0.0) == 0.1
    assert grid.reach(bound, 0.5) is None
    assert grid.count(bound) == 3
    assert grid.all_hold() == [(0.0, 0.0), (0.1, 0.0), (0.3, 0.0)]


def test_all_but_one_bound():
    shares = {one.figure: wilson(1 if one.id == "S04" else 100, 100) for one in BOUNDS}
    grid = Grid((0.1,), (0.2,), {(0.1, 0.2): shares})
    assert grid.all_hold() == []
    assert grid.all_hold(but="S04") == [(0.1, 0.2)]
