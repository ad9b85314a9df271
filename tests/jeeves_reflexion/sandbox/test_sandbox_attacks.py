"""Every attack once, by the way that this machine has; ``python -m benchmarks.sandbox.matrix`` runs them by all."""

import pytest

from benchmarks.sandbox import matrix
from benchmarks.sandbox.attacks import ATTACKS
from jeeves_reflexion.sandbox import probe


def test_every_attack_ends_within_its_limit_and_does_no_harm() -> None:
    if not probe().complete:
        pytest.skip(f"this machine isolates nothing: {probe().text}")
    found = matrix.attacked(probe().way)
    if isinstance(found, str):
        pytest.skip(found)
    assert {attack: wrong for attack, wrong in found.items() if wrong} == {}
    # Those in Lua and Prolog are there where their runtimes are installed.
    assert {*(attack.name for attack in ATTACKS), "host"} <= found.keys()
