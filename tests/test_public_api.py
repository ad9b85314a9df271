"""Every public name, parameter, command, option, event, stop reason and exit code is as it was written down."""

import json

import pytest
from public_api import FILE, flat, public_api


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    return dict(flat(public_api()))


def test_the_public_api_is_as_it_was_written_down(now: dict[str, str]) -> None:
    then = dict(flat(json.loads(FILE.read_text(encoding="utf-8"))))
    told = [f"missing: {path}" for path in then.keys() - now.keys()]
    told += [f"new: {path}" for path in now.keys() - then.keys()]
    told += [
        f"changed: {path}\n    then {then[path]}\n    now  {now[path]}"
        for path in then.keys() & now.keys()
        if then[path] != now[path]
    ]
    listed = "\n".join(sorted(told))
    assert not told, f"the public API changed; if that is meant, run python tests/public_api.py:\n{listed}"


def test_what_users_rely_on_most_is_among_it(now: dict[str, str]) -> None:
    for path in (
        "names jeeves_reflexion Reflexion ()",
        "names jeeves_reflexion Reflexion run",
        "names jeeves_reflexion EnsembleTask ()",
        "names jeeves_reflexion.types StopReason",
        "names jeeves_reflexion FaissVectorStore search",
        "commands jeeves-reflexion lessons rollback",
        "commands jeeves-reflexion bench alfworld",
        "events reflexion.run_finished",
        "exit_codes told 130",
    ):
        assert path in now, path
