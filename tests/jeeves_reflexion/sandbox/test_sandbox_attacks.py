"""Every attack once, by the way that this machine has; ``python -m benchmarks.sandbox.matrix`` runs them by all."""

import pytest

from benchmarks.sandbox import matrix
from benchmarks.sandbox.attacks import ATTACKS, LUA, PROLOG

EVERY = [attack.name for attack in [*ATTACKS, *LUA, *PROLOG]]


@pytest.mark.parametrize("attack", [*EVERY, "host"])
def test_the_attack_ends_within_its_limit(results: matrix.Wrong, attack: str) -> None:
    if attack not in results:
        pytest.skip("its runtime is not installed, or this way does not offer what it attacks")
    assert not results[attack]
