"""The matrix of attacks: every one as the user of the tests and as nobody, by each way that shuts the sandbox."""

import pytest
from attacks import ATTACKS
from attacks_lua_prolog import LUA, PROLOG
from conftest import Results

EVERY = [attack.name for attack in [*ATTACKS, *LUA, *PROLOG]]


# The first varies fastest: workers that share these tests begin with other users and ways.
@pytest.mark.parametrize("attack", [*EVERY, "host"])
@pytest.mark.parametrize("user", ["ours", "nobody"])
@pytest.mark.parametrize("way", ["namespaces", "landlock"])
def test_the_attack_ends_within_its_limit(results: Results, attack: str, user: str, way: str) -> None:
    found = results(user, way)
    if attack not in found:
        pytest.skip("its runtime is not installed, or this way does not offer what it attacks")
    assert not found[attack]
