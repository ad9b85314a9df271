"""The notebooks come to the outputs that they show, in a kernel of their own; seconds aside."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed")
NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
RUN = """
import json, sys
import nbclient, nbformat
book = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(book)
shown = [cell.get("outputs") for cell in book.cells]
nbclient.NotebookClient(book, timeout=100).execute()
for cell, before in zip(book.cells, shown):
    if before is not None:
        print(*(json.dumps(each, sort_keys=True) for each in (before, cell["outputs"])), sep="\\0", end="\\0\\0")
"""


@pytest.mark.parametrize("name", ["first_lesson", "reading_a_report"])
def test_a_notebook_comes_to_what_it_shows(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(NOTEBOOKS / f"{name}.ipynb")],
        cwd=tmp_path,
        env={**os.environ, "JUPYTER_PLATFORM_DIRS": "1", "JUPYTER_CONFIG_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cells = [cell.split("\0") for cell in done.stdout.split("\0\0")[:-1]]
    assert len(cells) > 3
    for shown, now in cells:
        assert without_seconds(now) == without_seconds(shown)


def without_seconds(text):
    return re.sub(r"\b\d+\.\d( s\b|  )", r"S\1", text)
