"""Agents: the default base (ReAct), its tools, and any callable as an agent. Names are imported when used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jeeves_reflexion.agents.function import FunctionAgent, as_agent
    from jeeves_reflexion.agents.react import ReAct
    from jeeves_reflexion.agents.tools import Tool, as_tool, tool

__all__ = ["FunctionAgent", "ReAct", "Tool", "as_agent", "as_tool", "tool"]

_HOMES = {
    "FunctionAgent": "function",
    "ReAct": "react",
    "Tool": "tools",
    "as_agent": "function",
    "as_tool": "tools",
    "tool": "tools",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
