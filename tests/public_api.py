"""What users rely on by name, read off the code: ``public_api.json`` holds it as it is to be.

``python tests/public_api.py`` writes that file anew. Its diff then shows what was renamed, added or taken away.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from jeeves_reflexion import events
from jeeves_reflexion.cli.failures import exit_code
from jeeves_reflexion.cli.program import program

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_name("public_api.json")
PACKAGES = ("jeeves_reflexion", "vectorstores")
NAMED = (
    ("jeeves_reflexion.types", "StopReason"),
    ("jeeves_reflexion.types", "LessonState"),
    ("jeeves_reflexion.types", "Trust"),
    ("jeeves_reflexion.types", "Outcome"),
    ("jeeves_reflexion.types", "Role"),
)
"""Values that pages tell of by their words, without an import."""


def public_api() -> dict[str, Any]:
    """Return names with their parameters, commands with their options, events with their fields, and exit codes."""
    return {
        "names": names(),
        "commands": dict(commands(program, "jeeves-reflexion")),
        "events": dict(map(event, get_args(events.Event))),
        "exit_codes": exit_codes(),
    }


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each leaf with its path, so that a difference can be named."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from flat(each, f"{path} {key}".strip())
    else:
        yield path, json.dumps(value, ensure_ascii=False)


# -- names


def names() -> dict[str, dict[str, Any]]:
    """Return every name that README, docs or examples import, and all that the rooms they import from list as theirs.

    What is there under two names is described once: "= package.name" stands for the other.
    """
    found: dict[str, set[str]] = {package: set() for package in PACKAGES}
    for module, name in (*imported(), *NAMED):
        found.setdefault(module, set()).add(name)
    known: dict[int, str] = {}
    told: dict[str, dict[str, Any]] = {}
    for module in sorted(found):
        room = importlib.import_module(module)
        told[module] = {}
        for name in sorted(found[module] | set(getattr(room, "__all__", ()))):
            value = getattr(room, name)
            here = f"{module}.{name}"
            where = (
                known.setdefault(id(value), here)
                if inspect.isclass(value) or inspect.isroutine(value)
                else here
            )
            told[module][name] = described(value) if where == here else f"= {where}"
    return told


def imported() -> Iterator[tuple[str, str]]:
    """Yield what README, docs and examples import from the packages."""
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "examples").glob("*/*.py")),
    ):
        text = path.read_text(encoding="utf-8")
        blocks = [text] if path.suffix == ".py" else re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for block in blocks:
            for node in ast.walk(ast.parse(block)):
                if not isinstance(node, ast.ImportFrom) or not node.module:
                    continue
                # A module of adapters/ needs its framework, which is not installed everywhere.
                if node.module.startswith("jeeves_reflexion.adapters."):
                    continue
                if node.module.split(".")[0] in PACKAGES:
                    yield from ((node.module, alias.name) for alias in node.names)


def described(value: Any) -> Any:
    """Return the parameters of a function, and of a class also its methods; values to choose from; else "value"."""
    if inspect.isclass(value) and issubclass(value, Enum):
        return [each.value for each in value]
    if inspect.isclass(value):
        return {"()": made_with(value), **dict(sorted(methods(value)))}
    if get_origin(value) is Literal:
        return list(get_args(value))
    return parameters(value) if inspect.isroutine(value) else "value"


def made_with(kind: type) -> str:
    """Return what a class takes, or what is called of a protocol; "..." where another library says so."""
    if getattr(kind, "_is_protocol", False):
        return parameters(kind.__call__) if "__call__" in vars(kind) else "a protocol"
    written_here = any("__init__" in vars(each) for each in kind.__mro__ if ours(each))
    return parameters(kind) if written_here or is_dataclass(kind) else "..."


def methods(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties of a class."""
    for name in {name for each in kind.__mro__ if ours(each) for name in vars(each)}:
        attribute = inspect.getattr_static(kind, name)
        if name.startswith("_"):
            continue
        if isinstance(attribute, property):
            yield name, "property"
        elif callable(getattr(kind, name, None)) and not inspect.isclass(attribute):
            yield name, parameters(getattr(kind, name))


def ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] in PACKAGES


def parameters(value: Any) -> str:
    """Return the names of a callable's parameters in order; one with a default ends in "="."""
    shown, starred = [], False
    for name, each in inspect.signature(value).parameters.items():
        if name == "self" or name.startswith("_"):
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        starred |= each.kind is each.VAR_POSITIONAL
        mark = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        shown.append(f"{mark}{name}{'' if each.default is each.empty else '='}")
    return f"({', '.join(shown)})"


# -- events and the command


def event(kind: type) -> tuple[str, list[str]]:
    """Return an event's kind and the names of its fields."""
    known = {field.name: field.default for field in fields(kind)}
    return str(known["kind"]), list(known)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each command and group with its arguments and options."""
    shown = [each.name.upper() for each in command.params if isinstance(each, click.Argument) and each.name]
    options = [option(each) for each in command.params if isinstance(each, click.Option)]
    yield path, [*shown, *sorted(options)]
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None, name
                yield from commands(found, f"{path} {name}")


def option(given: click.Option) -> str:
    """Return the names of an option, and what there is to choose from."""
    choices = f" {'|'.join(map(str, given.type.choices))}" if isinstance(given.type, click.Choice) else ""
    return " ".join((*given.opts, *given.secondary_opts)) + choices


def exit_codes() -> dict[str, Any]:
    """Return what the command says of its exit codes, and the one of each public error."""
    told = dict(re.findall(r"^ +(\d+) +(.+)$", program.epilog or "", re.MULTILINE))
    errors = {
        f"{package}.{name}": exit_code(error.__new__(error))
        for package in PACKAGES
        for name in importlib.import_module(package).__all__
        if inspect.isclass(error := getattr(importlib.import_module(package), name))
        and issubclass(error, Exception)
    }
    return {"told": told, "errors": dict(sorted(errors.items()))}


if __name__ == "__main__":
    FILE.write_text(json.dumps(public_api(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
