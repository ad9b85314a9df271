"""The Python blocks of the pages run as pasted, in the order of their page; a script stands in for the model."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import jeeves_reflexion
from jeeves_reflexion import ScriptedModel

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


ELSEWHERE = {"adapters", "middleware", "agents", "first-experiment", "sharing", "postgresql-roles"}
"""These have tests of their own, but the last one, which wants a server with roles."""
PAGES = {page.stem: BLOCK.findall(page.read_text(encoding="utf-8")) for page in sorted(DOCS.glob("*.md"))}


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks and page not in ELSEWHERE])
def test_each_block_of_the_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        jeeves_reflexion, "OpenAIModel", lambda *_, **__: ScriptedModel(lambda _: "score: 1.0")
    )
    names: dict[str, object] = {}
    for block in PAGES[page]:
        if "from transformers" not in block:  # wants a classifier, which is the reader's own
            exec(compile(block, f"{page}.md", "exec"), names)


def test_one_program_sees_what_another_one_learns(tmp_path):
    pytest.importorskip("faiss")
    for block in PAGES["sharing"]:
        (tmp_path / block.split()[1]).write_text(block, encoding="utf-8")
    environment = {**os.environ, "LESSONS": str(tmp_path / "lessons")}

    with ExitStack() as started:

        def start(name):
            told = [sys.executable, name]
            process = subprocess.Popen(told, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
            started.enter_context(process)
            started.callback(process.kill)
            return process

        watch = start("watch.py")
        assert watch.stdout.readline() == "[]\n"
        assert start("work.py").communicate(timeout=60)[0] == "2026-11-21 after 2 attempts\n"
        assert "Write dates in ISO 8601" in watch.communicate(timeout=60)[0]
        assert start("again.py").communicate(timeout=60)[0] == "2026-11-21 after 1 attempt\n"
