"""The Python blocks of docs/adapters.md run as pasted, against a server on loopback."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def reply(body: dict[str, Any]) -> str:
    return "score: 1.0" if "score" in json.dumps(body) else "It is 397.80."


@pytest.mark.parametrize("block", BLOCKS, ids=["pydantic_ai", "agents", "langgraph", "scratch"])
def test_a_block_runs_as_pasted(
    block: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("pydantic_ai", "agents", "langgraph"):
        if f"from {package}" in block:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "nothing-secret")
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    with chat_server(reply) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        exec(compile(block, "adapters.md", "exec"), {"__name__": "pasted"})
    shown = capsys.readouterr().out
    assert "passed" in shown
    assert ("397.80" if "langgraph" not in block else "characters of advice") in shown
