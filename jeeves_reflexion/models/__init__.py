"""Language models behind one protocol, ``ChatModel``: ``OpenAIModel("gpt-4o-mini")``."""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
