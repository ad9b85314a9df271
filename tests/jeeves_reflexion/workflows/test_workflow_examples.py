"""The examples of workflows run as they stand, in an empty folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("workflow_profile", "Created profile for Ada Lovelace (ada@example.org, 37 next year)"),
        ("workflow_own_steps", "2 Hello, Ada and Ada"),
    ],
)
def test_an_example_comes_to_what_it_promises(name, last, tmp_path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name / "main.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == last
