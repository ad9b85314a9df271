"""Every attack once, by the way that this machine has; ``python -m benchmarks.sandbox.matrix`` runs them by all."""

from benchmarks.sandbox import matrix
from benchmarks.sandbox.attacks import ATTACKS


def test_each_attack_ends_within_its_limit(results: matrix.Wrong) -> None:
    # Those without a runtime here, or without what they attack, are left out of the results.
    assert {attack.name for attack in ATTACKS} & results.keys()
    assert {name: wrong for name, wrong in results.items() if wrong} == {}
