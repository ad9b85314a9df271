"""What sharing lessons takes is measured: a small round, with eight clients at once."""

import pytest
from click.testing import CliRunner

sharing = pytest.importorskip("benchmarks.sharing", exc_type=ImportError)


def test_a_round_measures_trips_a_crowd_and_delays(monkeypatch):
    monkeypatch.setattr(sharing, "_LESSONS", 5)
    given = ["--store", "folder", "--number", "2", "--repetitions", "1", "--clients", "8", "--calls", "1"]
    done = CliRunner().invoke(sharing.main, given, catch_exceptions=False)
    rows = [line.split(" | ")[0].strip("| ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [each for each in rows if each != "---"] == [
        *("recall of 3", "the store's own", "stdio", "HTTP"),
        *("clients", "8"),
        *("another's lesson is", "told", "recalled"),
    ]
