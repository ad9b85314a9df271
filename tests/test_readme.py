"""What the README shows is run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_first_example_learns_and_remembers_across_processes(tmp_path):
    said = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", BLOCKS[0]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert said == ["2026-11-21 passed 2\n", "2026-11-21 passed 1\n"]


def test_every_other_example_names_things_that_exist():
    for block in BLOCKS[1:]:
        imports = "\n".join(re.findall(r"^from .+ import .+$", block, re.MULTILINE))
        done = subprocess.run([sys.executable, "-c", imports], check=False, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_every_link_leads_somewhere():
    root = Path(__file__).parents[1]
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("http"):
            assert (root / link).exists(), link
