"""Agents: the default one (ReAct) and its tools, and ``as_agent(function)``, which makes one of any callable."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
