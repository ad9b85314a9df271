"""Agents of other frameworks as agents of ours: ``adapt(agent)``, one module per framework.

A framework's module is imported only for an object that comes from it, so none is needed by this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jeeves_reflexion.adapters.base import Adapter as Adapter
from jeeves_reflexion.adapters.base import Trace as Trace
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError

# By the package that defines an agent's class, or a class that it derives from: our module, and the extra.
_FRAMEWORKS = {
    "agents": ("openai_agents", "openai-agents"),
    "langchain_core": ("langgraph", "langgraph"),
    "langgraph": ("langgraph", "langgraph"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
}


def adapt(agent: object, **options: Any) -> Adapter:  # noqa: ANN401 - those of the adapter
    """Return an agent of LangGraph, LangChain, OpenAI Agents or pydantic-ai as one that a loop can run.

    ``options`` go to the framework's own call; see the adapter of each. ``Reflexion(base=agent)`` does the same
    without options. Raises :class:`ConfigurationError` for an object of no framework that is known.
    """
    found = adapter_of(agent, **options)
    if found is None:
        raise ConfigurationError(
            f"{type(agent).__name__} comes from no framework with an adapter (langchain, langgraph, openai-agents, "
            "pydantic-ai): wrap it in a function, `async def agent(prompt): ...`"
        )
    return found


def adapter_of(agent: object, **options: Any) -> Adapter | None:  # noqa: ANN401 - as above
    """Return the adapter of an agent; None for an object of no framework that is known."""
    packages = {kind.__module__.partition(".")[0] for kind in type(agent).__mro__}
    for package in sorted(packages & _FRAMEWORKS.keys()):
        module, extra = _FRAMEWORKS[package]
        try:
            found: Adapter | None = import_module(f"{__name__}.{module}").adapter(agent, **options)
        except ImportError as error:
            # A module of the user's own may have the name of a framework, and an older framework lacks names.
            if package == "agents" and getattr(error, "name", "") in {"agents", "agents.items"}:
                continue
            raise MissingDependencyError(f"an agent of {package} ({error})", extra) from error
        if found is not None:
            return found
    return None
