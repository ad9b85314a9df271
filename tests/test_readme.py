"""What the README shows is run as it stands; a server on loopback stands in for the model's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chat_server import chat_server

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def paste(block, folder, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_example_learns_and_remembers_across_processes(tmp_path):
    first, second = (paste(BLOCKS[0], tmp_path).splitlines() for _ in range(2))
    assert first[0].startswith("passed (2 attempts")
    assert second[0].startswith("passed (1 attempt,")
    assert first[1] == second[1] == "answer: 2026-11-21"


@pytest.mark.parametrize("block", BLOCKS[1:], ids=range(2, len(BLOCKS) + 1))
def test_every_other_example_runs_as_pasted(block, tmp_path):
    def reply(body):
        return "score: 1.0" if body["messages"][0]["content"].startswith("You judge") else "Titan"

    with chat_server(reply) as url:
        said = paste(block, tmp_path, OPENAI_BASE_URL=url, OPENAI_API_KEY="no-key")
    assert "answer: Titan" in said


def test_every_link_leads_somewhere():
    root = Path(__file__).parents[1]
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("http"):
            assert (root / link).exists(), link


def test_the_readme_is_short():
    assert len(README.split()) <= 700
