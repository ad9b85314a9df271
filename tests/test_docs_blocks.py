"""Every Python block of these pages runs as pasted, in the order of its page; a script stands in for the model."""

import ast
import inspect
import re
from pathlib import Path
from types import CodeType

import anyio
import pytest

import jeeves_reflexion
from jeeves_reflexion import ScriptedModel

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def run(code: CodeType, names: dict[str, object]) -> None:
    """Run a block, in an event loop of its own where it awaits something at its top level."""
    if not code.co_flags & inspect.CO_COROUTINE:
        exec(code, names)
        return

    async def awaiting() -> None:
        await eval(code, names)

    anyio.run(awaiting)


@pytest.mark.parametrize(
    "page",
    ["tasknotes", "reflections", "refinement", "experiments", "learner", "models", "tools", "sharing"],
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
        run(compile(block, f"{page}.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
