"""Agents: the default base (ReAct), its tools, and any callable as an agent: ``as_agent(function)``."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
