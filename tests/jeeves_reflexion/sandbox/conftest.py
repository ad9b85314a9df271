"""The attacks, run once."""

import json
from pathlib import Path

import filelock
import pytest

from benchmarks.sandbox import matrix
from jeeves_reflexion.sandbox import probe


@pytest.fixture(scope="session")
def results(folder_of_all_workers: Path) -> matrix.Wrong:
    """What is wrong with each attack, by the way that this machine has: run once in the whole run of the tests."""
    if not probe().complete:
        pytest.skip(f"this machine isolates nothing: {probe().text}")
    file = folder_of_all_workers / "attacks.json"
    with filelock.FileLock(file.with_suffix(".lock"), timeout=175):
        if not file.exists():
            file.write_text(json.dumps(matrix.attacked(probe().way)))
    wrong: matrix.Wrong | str = json.loads(file.read_text())
    if isinstance(wrong, str):
        pytest.skip(wrong)
    return wrong
