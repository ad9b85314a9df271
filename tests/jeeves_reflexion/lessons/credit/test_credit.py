"""Credit: lifts, what to do with a lesson, the draw."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.lessons.credit.effects import (
    MIN_EACH,
    NO_DRAW,
    RANK_EACH,
    Cell,
    Draw,
    Prior,
    Withholding,
    freshness,
    judge,
    lift,
    prior_of,
    recall_key,
    shrunken,
    standard_error,
    utility,
)
from jeeves_reflexion.lessons.credit.tally import Credits, Tally
from jeeves_reflexion.statistics import Z95, difference
from jeeves_reflexion.types import Lift

IDS = [f"lesson{n}" for n in range(2000)]
HARMFUL = {(0.2,): Cell(60, 12.0, 15, 14.0)}
SAME = {(0.2,): Cell(60, 30.0, 15, 7.5)}

scores = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=MIN_EACH, max_size=30)


def cell(with_it: list[float], without: list[float]) -> Cell:
    return Cell(len(with_it), math.fsum(with_it), len(without), math.fsum(without))


@settings(deadline=None)
@given(scores, scores)
def test_the_lift_of_one_stratum_is_newcombes_difference(with_it, without):
    found = lift({(0.1,): cell(with_it, without)})
    expected = difference(without, with_it)
    assert (found.value, found.low, found.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )
    assert (found.n_with, found.n_without) == (len(with_it), len(without))


@pytest.mark.parametrize(
    "cells",
    [
        {},
        {(0.1,): Cell(100, 50.0, MIN_EACH - 1, 2.0)},
        {(0.1,): Cell(MIN_EACH - 1, 2.0, 100, 50.0)},
        # Never drawn alike: with it under one share, without under another.
        {(0.1,): Cell(n_with=100, sum_with=50.0), (0.2,): Cell(n_without=100, sum_without=90.0)},
    ],
)
def test_too_little_data_claims_nothing(cells):
    found = lift(cells)
    assert (found.value, found.low, found.high) == (None, None, None)
    assert found.n_with == sum(c.n_with for c in cells.values())
    verdict = judge(cells)
    assert verdict.kind == "unknown"
    assert "not enough data" in verdict.reason


def test_strata_keep_a_change_of_the_agent_from_looking_like_an_effect():
    # No effect in either; the agent got better when the share was raised.
    cells = {(0.1,): Cell(900, 90.0, 100, 10.0), (0.5,): Cell(500, 450.0, 500, 450.0)}
    assert lift(cells).value == pytest.approx(0.0)
    pooled = Cell(1400, 540.0, 600, 460.0)
    assert lift({(0.0,): pooled}).high < 0


def test_what_was_expected_of_attempts_takes_their_difficulty_out_of_the_noise():
    # The lesson saves a tenth of the attempts at hard tasks; easy ones succeed, whatever is recalled.
    hard, easy = Cell(400, 60.0, 100, 3.0), Cell(400, 396.0, 100, 99.0)
    apart, together = {(0.2, 0.0): hard, (0.2, 4.0): easy}, {(0.2,): Cell(800, 456.0, 200, 102.0)}
    assert lift(apart).value == pytest.approx(lift(together).value)
    assert standard_error(lift(apart)) < 0.5 * standard_error(lift(together))
    assert (judge(apart).kind, judge(together).kind) == ("helps", "keep")


def test_a_stratum_without_any_difference_is_not_taken_for_certainty():
    found = lift({(0.2, 4.0): Cell(20, 20.0, 5, 5.0), (0.2, 0.0): Cell(3, 0.0, 1, 0.0)})
    assert found.value == 0.0
    assert found.high - found.low > 0.1


def test_a_harmful_lesson_is_retired_with_the_reason_in_words():
    verdict = judge(HARMFUL)
    assert verdict.kind == "retire"
    assert "-73 points" in verdict.reason
    assert "60 scored attempts with it, 15 without" in verdict.reason


@pytest.mark.parametrize(("cells", "kind"), [(SAME, "keep"), ({(0.2,): Cell(60, 60.0, 15, 3.0)}, "helps")])
def test_a_lesson_without_shown_harm_is_kept(cells, kind):
    assert judge(cells).kind == kind


def test_looking_again_and_again_retires_few_harmless_lessons():
    rng = random.Random(4)

    def ever_retired() -> tuple[bool, bool]:
        """By the rule, and by the interval for one look."""
        n, s = [0, 0], [0.0, 0.0]
        ruled = once = False
        for look in range(800):
            lacks = rng.random() < 0.2
            n[lacks] += 1
            s[lacks] += rng.random() < 0.5
            if look % 4 == 0:
                cells = {(0.2,): Cell(n[0], s[0], n[1], s[1])}
                high = lift(cells).high
                once = once or (high is not None and high < 0)
                ruled = ruled or judge(cells).kind == "retire"
        return ruled, once

    runs = [ever_retired() for _ in range(120)]
    # 5 % of 120 are 6; the interval for one look retires three times as many and more.
    assert sum(ruled for ruled, _ in runs) <= 9
    assert sum(once for _, once in runs) >= 18


def test_utility_lies_between_the_data_and_the_prior():
    prior = Prior(0.05, 0.1)
    assert utility(Lift(), prior) == 0.05
    little, much = lift({(0.5,): Cell(5, 1.0, 5, 4.0)}), lift({(0.5,): Cell(500, 100.0, 500, 400.0)})
    assert little.value == much.value == pytest.approx(-0.6)
    assert -0.6 < utility(much, prior) < -0.5 < utility(little, prior) < 0.05


def test_a_lift_is_shown_as_it_is_reckoned_with():
    """The posterior of a normal effect, worked by hand: precisions add up, the mean is weighed by them."""
    prior = Prior(0.0, 0.1)
    seen = Lift(0.3, 0.3 - Z95 * 0.1, 0.3 + Z95 * 0.1, 40, 20)
    found = shrunken(seen, prior)
    assert (found.value, found.n_with, found.n_without) == (pytest.approx(0.15), 40, 20)
    assert (found.low, found.high) == pytest.approx(
        (0.15 - Z95 * 0.1 / math.sqrt(2), 0.15 + Z95 * 0.1 / math.sqrt(2))
    )
    assert utility(seen, prior) == found.value
    assert shrunken(Lift(n_with=3), prior) == Lift(n_with=3)
    cells = {(0.2,): Cell(60, 45.0, 15, 7.5)}
    known = Credits({"a": Tally(cells)}, prior=prior)
    assert known.lift("a") == shrunken(lift(cells), prior)
    assert 0 < known.lift("a").value < lift(cells).value


@settings(deadline=None)
@given(scores, scores, st.floats(-0.3, 0.3), st.floats(0.02, 0.3))
def test_a_shown_lift_lies_between_the_middle_of_what_was_seen_and_the_prior_and_is_no_less_sure(
    with_it, without, mean, spread
):
    seen = lift({(0.1,): cell(with_it, without)})
    found = shrunken(seen, Prior(mean, spread))
    low, high = sorted(((seen.low + seen.high) / 2, mean))
    assert low - 1e-9 <= found.value <= high + 1e-9
    assert found.low <= found.value <= found.high
    assert found.high - found.low <= seen.high - seen.low


def test_the_prior_is_what_lessons_of_the_library_do():
    rng = random.Random(2)
    lifts = []
    for _ in range(400):
        effect = rng.gauss(0.1, 0.15)
        with_it = sum(rng.random() < 0.5 + effect for _ in range(200))
        without = sum(rng.random() < 0.5 for _ in range(200))
        lifts.append(lift({(0.5,): Cell(200, with_it, 200, without)}))
    prior = prior_of([*lifts, Lift(n_with=3)])
    assert prior.mean == pytest.approx(0.1, abs=0.03)
    assert prior.spread == pytest.approx(0.15, abs=0.03)
    assert prior_of(lifts[:9]) == Prior()


def test_lessons_that_are_all_alike_leave_a_little_spread():
    same = lift({(0.5,): Cell(50, 25.0, 50, 25.0)})
    prior = prior_of([same] * 20)
    assert prior.mean == pytest.approx(0.0)
    assert 0 < prior.spread < 0.05
    assert standard_error(same) > 0


def test_what_is_known_fades():
    day = 86400.0
    assert freshness(0) == 1.0
    assert freshness(90 * day) == 0.5
    assert freshness(-5) == 1.0


# -- the draw


def drawn(drawing: Withholding, key: str, ids) -> Draw:
    return drawing.draw(key, dict.fromkeys(ids, drawing.share))


def test_nothing_is_withheld_by_default():
    assert Credits().draw(Withholding(), "key", IDS) == NO_DRAW


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_share_withheld_is_the_share_asked_for(share):
    drawing = Withholding(share, seed=3, whole_share=0.0)
    withheld = sum(len(drawn(drawing, recall_key("run", n, "task"), IDS[:3]).withheld) for n in range(4000))
    assert withheld / 12000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 12000))


def test_recalls_are_withheld_as_a_whole_at_a_share_of_their_own():
    drawing = Withholding(0.1, seed=3)
    draws = [drawn(drawing, str(n), IDS[:3]) for n in range(6000)]
    whole = [draw for draw in draws if draw.whole]
    assert len(whole) / 6000 == pytest.approx(0.02, abs=0.008)
    assert all(draw.withheld == frozenset(IDS[:3]) for draw in whole)
    assert {draw.share for draw in draws} == {0.1}
    assert {draw.whole_share for draw in draws} == {0.1 * 0.2}


@settings(max_examples=30, deadline=None)
@given(st.text(), st.lists(st.text(), max_size=6), st.randoms())
def test_a_draw_depends_on_seed_key_and_lesson_alone(key, ids, shuffler):
    drawing = Withholding(0.5, seed=1, whole_share=0.0)
    withheld = drawn(drawing, key, ids).withheld
    others = [*ids, "another"]
    shuffler.shuffle(others)
    assert drawn(drawing, key, others).withheld - {"another"} == withheld - {"another"}


def test_lessons_of_one_recall_are_drawn_apart_and_seeds_differ():
    a, b = Withholding(0.5, seed=1, whole_share=0.0), Withholding(0.5, seed=2, whole_share=0.0)
    of_a, of_b = drawn(a, "key", IDS).withheld, drawn(b, "key", IDS).withheld
    assert 900 < len(of_a) < 1100
    assert 400 < len(of_a & of_b) < 600
    assert 400 < len(of_a & drawn(a, "other", IDS).withheld) < 600


def test_an_early_share_halves_with_the_attempts_and_ends_at_the_share():
    drawing = Withholding(0.05, early=0.5)
    shares = [drawing.share_for(n) for n in (0, 9, 10, 29, 30, 69, 70, 149, 150, 10**6)]
    assert shares == [0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625, 0.05, 0.05]
    assert Withholding(0.1).share_for(0) == Withholding(0.1, early=0.1).share_for(0) == 0.1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"share": 0.2, "early": 0.1}, "0.1 is below share 0.2"),
        ({"share": 0.2, "early": 0.0}, "0.0 is below share 0.2"),
        ({"early": 0.5}, "give a share above 0"),
        ({"early": 0.5, "whole_share": 0.1}, "give a share above 0"),
        ({"share": 0.1, "early": 0.6}, "early must lie in"),
    ],
)
def test_an_early_share_that_would_do_nothing_is_refused(given, said):
    with pytest.raises(ConfigurationError, match=said):
        Withholding(**given)


def test_lessons_of_one_recall_are_drawn_by_shares_of_their_own():
    drawing = Withholding(0.1, seed=3, whole_share=0.0, early=0.5)
    shares = {IDS[0]: 0.5, IDS[1]: 0.25, IDS[2]: 0.1}
    draws = [drawing.draw(str(n), shares) for n in range(4000)]
    for lesson_id, share in shares.items():
        withheld = sum(lesson_id in draw.withheld for draw in draws) / 4000
        assert withheld == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 4000))
    # Only what differs from the share is noted.
    assert draws[0].shares == {IDS[0]: 0.5, IDS[1]: 0.25}
    assert [draws[0].share_of(each) for each in IDS[:3]] == [0.5, 0.25, 0.1]
    assert drawing.draw("key", {IDS[2]: 0.1}).shares == {}


def test_few_attempts_move_the_rank_and_claim_nothing():
    few = {(0.5,): Cell(RANK_EACH, 0.0, RANK_EACH, float(RANK_EACH))}
    known = Credits({"few": Tally(few), "one": Tally({(0.5,): Cell(1, 0.0, 1, 1.0)})})
    assert known.utility("few", 0.0) < known.utility("one", 0.0) == 0.0
    assert known.lift("few").value is None
    assert known.judge("few").kind == "unknown"


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": -0.1},
        {"share": 0.6},
        {"share": None},
        {"share": "0.1"},
        {"share": True},
        {"share": 0.1, "whole_share": 0.7},
        {"early": math.nan},
    ],
)
def test_a_share_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigurationError, match=rf"{[*wrong][-1]} must (lie in|be a number)"):
        Withholding(**wrong)


def test_keys_of_recalls_are_told_apart():
    assert recall_key("a", 1, "b") != recall_key("a", 11, "b")
    assert recall_key('a", 1', 1, "b") != recall_key("a", 1, '1, "b')
