"""The matrix of attacks: every one as the user of the tests and as nobody, by each way that shuts the sandbox."""

import pytest
from attacks import ATTACKS
from attacks_lua_prolog import LUA, PROLOG
from conftest import results

EVERY = [attack.name for attack in [*ATTACKS, *LUA, *PROLOG]]


@pytest.mark.parametrize("way", ["namespaces", "landlock"])
@pytest.mark.parametrize("user", ["ours", "nobody"])
@pytest.mark.parametrize("attack", [*EVERY, "host"])
def test_the_attack_ends_within_its_limit(attack: str, user: str, way: str) -> None:
    found = results(user, way)
    if attack not in found:
        pytest.skip("its runtime is not installed, or this way does not offer what it attacks")
    assert not found[attack]
