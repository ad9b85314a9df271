"""The Python blocks of the pages on agents run as pasted, against a server on loopback."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "".join((DOCS / f"{page}.md").read_text("utf-8") for page in ("adapters", "middleware", "agents"))
BLOCKS = re.findall(r"```python\n(.*?)```", PAGES, re.DOTALL)

FIELDS = "[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\nIt is 397.80.\n\n[[ ## completed ## ]]"
NAMES = [
    "pydantic_ai",
    "agents",
    "langgraph",
    "dspy",
    "agno",
    "google.adk.models.lite_llm",
    "llama_index.llms.openai",
    "agent_framework_openai",
    "smolagents",
    "autogen_ext.models.openai",
    "crewai",
    "pydantic_ai",
    "langchain_openai",
    "agents",
    "inspect_ai",
    "jeeves_reflexion",
]


def reply(body: dict[str, Any]) -> str:
    asked = json.dumps(body)
    if "score" in asked:
        return "score: 1.0"
    return FIELDS if "[[ ## " in asked else "It is 397.80."


@pytest.mark.filterwarnings(
    "ignore:The 'initial' parameter:DeprecationWarning",  # Inspect's own, as the next
    "ignore:Unclosed <MemoryObject:ResourceWarning",
    "ignore:(function_calling_llm is )?deprecated( and will be removed in a future release\\.)?$:DeprecationWarning",
    "ignore::pydantic.warnings.PydanticDeprecationWarning",  # LlamaIndex's own
    "ignore:Resolved model mismatch:UserWarning",  # AutoGen's: the server is no real one
    "ignore:no sentence encoder is installed:UserWarning",
)
@pytest.mark.parametrize(
    ("block", "name"),
    [*zip(BLOCKS, NAMES, strict=True)],
    ids=[f"{name}-{place}" for place, name in enumerate(NAMES)],
)
def test_a_block_runs_as_pasted(
    block: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED"):
        monkeypatch.setenv(variable, "true")
    pytest.importorskip(name, exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "nothing-secret")
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    with chat_server(reply) as address:
        for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
            monkeypatch.setenv(variable, address)
        exec(compile(block, name, "exec"), {"__name__": "pasted"})
    shown = capsys.readouterr().out
    assert "passed" in shown or "Learner(" in block
    assert ("characters of advice" if name == "langgraph" else "397.80") in shown
