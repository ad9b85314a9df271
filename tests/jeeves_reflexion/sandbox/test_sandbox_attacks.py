"""Every attack once, by the way that this machine has; ``python -m benchmarks.sandbox.matrix`` runs them by all."""

from benchmarks.sandbox import matrix
from benchmarks.sandbox.attacks import ATTACKS
from jeeves_reflexion.sandbox import probe


def test_each_attack_ends_within_its_limit(results: matrix.Wrong) -> None:
    # Left out are those without a runtime here, and those on what a weaker way than namespaces does not offer.
    left_out = {attack.name for attack in ATTACKS} - results.keys()
    assert not left_out or probe().way != "namespaces"
    assert "host" in results
    assert {name: wrong for name, wrong in results.items() if wrong} == {}
