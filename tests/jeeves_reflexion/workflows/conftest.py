"""What the tests of workflows share."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server

from jeeves_reflexion.sandbox import Ran
from jeeves_reflexion.sandbox.inside.python_code import execute


@pytest.fixture
def example() -> str:
    """The complete example of the contract, as printed."""
    return (Path(__file__).parents[3] / "examples" / "workflow_profile" / "profile.yaml").read_text(
        encoding="utf-8"
    )


# Without the extra 'workflows' there is nothing to test here.
if any(importlib.util.find_spec(name) is None for name in ("jinja2", "jsonschema", "yaml")):
    collect_ignore_glob = ["test_*.py"]


class HereRunner:
    """Stands in for the sandbox where isolation is not what is tested; keeps what it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(
        self,
        code: str,
        *,
        language: str = "python",
        inputs: Mapping[str, Any] | None = None,
        result: str = "result",
    ) -> Ran:
        self.ran.append(code)
        names: dict[str, Any] = {"__name__": "__workflow__", **copy.deepcopy(dict(inputs or {}))}
        value = execute(code, names)
        return Ran(names.get("result") if value is None else value, "", "", 0.0)


@pytest.fixture
def here() -> HereRunner:
    return HereRunner()


@dataclass
class Endpoint:
    """An OpenAI-compatible endpoint on loopback that gives its replies in turn, the last one for ever."""

    replies: list[str]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint(["{}"])

    def reply(body: dict[str, Any]) -> str:
        served.asked.append(body)
        return served.replies.pop(0) if len(served.replies) > 1 else served.replies[0]

    with chat_server(reply) as served.url:
        yield served
