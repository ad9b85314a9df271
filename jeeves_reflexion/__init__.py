"""jeeves-reflexion: makes any agent learn from its own attempts.

Its public names are listed in ``__init__.pyi`` and loaded when they are first used, so that importing the package costs
next to nothing.
"""

try:
    from vectorstores.lazy import attach
except ModuleNotFoundError as error:
    import vectorstores

    raise ImportError(
        f"the package vectorstores that comes with jeeves-reflexion is hidden by another one at "
        f"{getattr(vectorstores, '__file__', None) or list(vectorstores.__path__)}: rename that one, or run elsewhere"
    ) from error

__version__ = "0.2.0"

__getattr__, __dir__ = attach(__name__, __file__)
