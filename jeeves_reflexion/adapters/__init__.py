"""Agents of other frameworks as agents of ours: ``adapt(agent)``, one module per framework.

A module is imported only for an object of its framework, so this package requires none of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from jeeves_reflexion.adapters.base import Adapter as Adapter
from jeeves_reflexion.adapters.base import Trace as Trace
from jeeves_reflexion.callables import signature_of
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError

# The package that defines an agent's class or one of its bases, with our module and extra for it.
_FRAMEWORKS = {
    "agent_framework": ("agent_framework", "agent-framework"),
    "agents": ("openai_agents", "openai-agents"),
    "agno": ("agno", "agno"),
    "autogen_agentchat": ("autogen", "autogen"),
    "crewai": ("crewai", "crewai"),
    "dspy": ("dspy", "dspy"),
    "google.adk": ("google_adk", "google-adk"),
    "langchain_core": ("langgraph", "langgraph"),
    "langgraph": ("langgraph", "langgraph"),
    "llama_index.core": ("llama_index", "llama-index"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "smolagents": ("smolagents", "smolagents"),
}
_NAMES = ", ".join(sorted({extra for _, extra in _FRAMEWORKS.values()}))


def adapt(agent: object, **options: Any) -> Adapter:  # noqa: ANN401 - those of the adapter
    """Return an adapter that lets a loop run an agent of another framework.

    ``options`` go to the framework's own call; see its adapter. ``Reflexion(base=agent)`` does the same without
    options. If the framework's agents take their instructions at construction, pass a function with a parameter
    ``lessons``, which makes a new agent for each attempt::

        adapt(lambda lessons: CodeAgent(tools, model, instructions=lessons))

    Raises :class:`ConfigurationError` for an object of an unknown framework.
    """
    function: Callable[..., object] | None = None
    if inspect.isroutine(agent) or isinstance(agent, functools.partial):
        function = agent
    if function is not None and "lessons" in signature_of(function, "the function").parameters:
        return _Factory(function, options)
    found = adapter_of(agent, **options)
    if found is None:
        raise ConfigurationError(
            f"there is no adapter for a {type(agent).__name__} ({type(agent).__module__}), only for agents of "
            f"{_NAMES}: wrap it in a function, `async def agent(prompt): ...`"
        )
    return found


def adapter_of(agent: object, **options: Any) -> Adapter | None:  # noqa: ANN401 - as above
    """Return the adapter of an agent; None for an object of an unknown framework.

    Raises :class:`ConfigurationError` for an agent that has to be made for each attempt.
    """
    found = _find(agent, options)
    if found is not None and found.made_per_attempt:
        raise ConfigurationError(
            f"a {type(agent).__name__} takes its instructions when it is made: pass a function that makes one, "
            f"adapt(lambda lessons: {type(agent).__name__}(...)), with the lessons among its instructions"
        )
    return found


def _find(agent: object, options: Mapping[str, Any]) -> Adapter | None:
    defined = {f"{kind.__module__}." for kind in type(agent).__mro__}
    for package, (module, extra) in _FRAMEWORKS.items():
        if not any(name.startswith(f"{package}.") for name in defined):
            continue
        try:
            found: Adapter | None = import_module(f"{__name__}.{module}").adapter(agent, **options)
        except ImportError as error:
            # "agents" may be a module of the user's own. Otherwise the framework is too old and lacks names.
            if package == "agents" and getattr(error, "name", "") in {"agents", "agents.items"}:
                continue
            raise MissingDependencyError(f"an agent of {package} ({error})", extra) from error
        if found is not None:
            return found
    return None


class _Factory(Adapter):
    """Makes an agent for each attempt, with the lessons in its instructions."""

    def __init__(self, make: Callable[..., object], options: Mapping[str, Any]) -> None:
        super().__init__(make)
        self.name = getattr(make, "__name__", "agent").strip("<>")
        self._options = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Make an agent and run it once."""
        made = self.agent(lessons=lessons)
        if inspect.isawaitable(made):
            made = await made
        found = _find(made, self._options)
        if found is None:
            raise ConfigurationError(
                f"{self.name} made a {type(made).__name__} ({type(made).__module__}), for which there is no adapter, "
                f"only for agents of {_NAMES}"
            )
        return await found.attempt(prompt, "", trace)
