"""Scripts in a process of their own, without a network for models."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def printed_by(script: str, *arguments: object, options: tuple[str, ...] = ()) -> str:
    """Run a script; return what it printed. It must end well and write nothing to stderr."""
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(script), *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
