"""The gate: what redaction finds in the labelled corpus, as in ``docs/results/lessons_redaction.md``."""

from __future__ import annotations

import pytest
from labelled_texts import Labelled, labelled, score

from jeeves_reflexion import redact

NEVER_LEAKED = {
    "api_key",
    "authorization",
    "aws_key",
    "github_token",
    "jwt",
    "password",
    "private_key",
    "slack_token",
}


@pytest.fixture(scope="module", params=[0, 1], ids="seed {}".format)
def halves(request):
    return {half: score(labelled(half, seed=request.param), redact) for half in ("dev", "heldout")}


def leaks(found):
    """The kinds that must never leak, of which a text did."""
    return [kind for kind, (whole, n) in found.kinds.items() if kind in NEVER_LEAKED and whole < n]


def test_a_part_of_a_value_that_survives_is_a_leak():
    row = Labelled("secret", "a hunter22 b c", ((2, 10),))
    assert score([row], lambda text: text.replace("hunter", "[REDACTED:x]")).found == 0
    hidden = score([row], lambda text: text.replace("hunter22 b", "[REDACTED:x]"))
    assert (hidden.found, hidden.right_marks, hidden.marks) == (1, 1, 1)
    with pytest.raises(ValueError, match="more than marks"):
        score([row], str.upper)


def test_a_seed_fills_the_corpus_the_same_way():
    assert labelled("dev", seed=3) == labelled("dev", seed=3) != labelled("dev", seed=4)
    assert all(row.text[start:end] for row in labelled("heldout") for start, end in row.spans)


def test_the_corpus_is_large_and_of_many_kinds(halves):
    both = halves.values()
    assert sum(half.positives for half in both) >= 300
    assert sum(half.negatives for half in both) >= 300
    assert len({kind for half in both for kind in half.kinds}) >= 15


def test_no_secret_of_the_developed_half_is_left(halves):
    dev = halves["dev"]
    assert leaks(dev) == []
    assert dev.found >= 0.98 * dev.positives


def test_the_whole_corpus_meets_its_figures(halves):
    both = halves.values()
    assert sum(half.found for half in both) >= 0.98 * sum(half.positives for half in both)
    assert sum(half.right_marks for half in both) >= 0.98 * sum(half.marks for half in both)
    assert sum(half.changed for half in both) <= 0.02 * sum(half.negatives for half in both)


@pytest.mark.parametrize("part", ["second", "third"])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_a_sceptical_reader_wrote_meets_the_same_figures(part, seed):
    later = score(labelled(part, seed=seed), redact)
    assert leaks(later) == []
    assert later.found >= 0.98 * later.positives
    assert later.right_marks >= 0.96 * later.marks
    assert later.changed <= 0.02 * later.negatives
