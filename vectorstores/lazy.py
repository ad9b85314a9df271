"""Lazy imports of a package's public names, which its stub file ``__init__.pyi`` lists.

A type checker reads the stub; at run time :func:`attach` reads it too, so that each name is written once::

    from vectorstores.lazy import attach

    __getattr__, __dir__ = attach(__name__, __file__)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path


def attach(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package whose stub imports its public names.

    The stub consists of ``from module import Name as Name`` statements, and of annotations for attributes that the
    package defines itself.
    """

    @cache
    def homes() -> dict[str, str]:
        import ast  # noqa: PLC0415 - slow, and not needed to import the package alone

        found: dict[str, str] = {}
        for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                found |= {alias.name: str(node.module) for alias in node.names if alias.asname == alias.name}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = package
        return found

    def __getattr__(name: str) -> object:  # noqa: N807 - its name in the package
        if name == "__all__":
            return sorted(homes(), key=lambda name: (not name.isupper(), name))
        module = homes().get(name)
        if module is None or module == package:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807 - its name in the package
        return sorted(homes())

    return __getattr__, __dir__
