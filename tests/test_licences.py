"""The page of licences names every package that the extras bring."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def names(table: str) -> set[str]:
    return set(re.findall(r"`([\w.-]+)` \(", table))


def test_every_package_that_an_extra_brings_is_on_the_page():
    printed = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "licences")], capture_output=True, text=True, check=True
    ).stdout
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    assert names(printed)
    assert names(printed) <= names(page)
