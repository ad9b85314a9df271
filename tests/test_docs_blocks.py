"""The Python blocks of these pages run as pasted, in the order of their page; a script stands in for the model."""

import re
from pathlib import Path

import pytest

import jeeves_reflexion
from jeeves_reflexion import ScriptedModel

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [
        *("tasknotes", "reflections", "refinement", "learner", "models", "tools", "sharing"),
        *("lessons", "recall", "credit", "review", "recordings", "sandbox", "security"),
        *("first-agent", "first-experiment", "evaluators", "reflectors", "benchmarks"),
    ],
)
def test_each_block_of_the_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        jeeves_reflexion, "OpenAIModel", lambda *_, **__: ScriptedModel(lambda _: "score: 1.0")
    )
    blocks = BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        if "from transformers" not in block:  # wants a classifier, which is the reader's own
            exec(compile(block, f"{page}.md", "exec"), names)
