"""What the tests of this benchmark share."""

import gzip
import json
from pathlib import Path

import pytest

from jeeves_reflexion.sandbox import probe

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "humaneval"

DOUBLE = {
    "task_id": "Tiny/double",
    "prompt": 'import math\n\n\ndef double(n):\n    """Return twice n.\n\n    >>> double(2)\n    4\n    """\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(21) == 42, 'HIDDEN-42'\n    assert candidate(0) == 0\n",
}
SHOUT = {
    "task_id": "Tiny/shout",
    "prompt": "def shout(words):\n    '''Return the words in capitals, longest first.\n    '''\n",
    "entry_point": "shout",
    "test": "def check(candidate):\n    assert candidate(['a', 'bcd']) == ['BCD', 'A']  # HIDDEN-BCD\n",
}


@pytest.fixture
def shut_in():
    """Skip where code can't be run."""
    if not probe().complete:
        pytest.skip("this machine can't isolate code")


@pytest.fixture
def write(tmp_path):
    """Write records as JSON lines."""

    def write_now(name, *records):
        text = "".join(json.dumps(record) + "\n" for record in records)
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write_now


@pytest.fixture
def tiny(write):
    """Two problems."""
    return write("tiny.jsonl", DOUBLE, SHOUT)


@pytest.fixture
def shared():
    """The files of HumanEval and of a logged run."""
    data, logged = SHARED / "HumanEval.jsonl.gz", SHARED / "logged_simple_gpt4.jsonl"
    if not (data.exists() and logged.exists()):
        pytest.skip("the files of HumanEval are not beside this checkout (../shared/data/humaneval)")
    return data, logged
