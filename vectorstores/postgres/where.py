"""Filters ready for a statement, compiled once for each that is in use."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vectorstores.filters import And, Exists, Not, OneOf, Or, Ordered
from vectorstores.postgres.filters import compile_filter

if TYPE_CHECKING:
    from vectorstores.base import JSON
    from vectorstores.filters import Node

_KEPT: Final = 512
_LONG: Final = 1000


@dataclass(frozen=True, slots=True)
class Where:
    """A condition over a row of ``chunks``, its parameters, and a name for it in tables of this process."""

    sql: bytes
    parameters: tuple[object, ...]
    name: str


EVERYTHING: Final = Where(b"true", (), "")


class Filters:
    """Compiles filters for a store; forgets those that were not used for the longest time."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._known: OrderedDict[str, Where] = OrderedDict()

    def compile(self, node: Node | None) -> Where:
        """Return the condition of a filter; None admits everything."""
        if node is None:
            return EVERYTHING
        name = _name(node)
        found = self._known.get(name)
        if found is None:
            condition, parameters = compile_filter(node, self._columns)
            found = Where(f"({condition.as_string(None)})".encode(), tuple(parameters), name)
            self._known[name] = found
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(name)
        return found


def _name(node: Node) -> str:
    """Return a text that two filters share only if they are the same."""
    # Not repr(): a class derived from str may show all its values alike.
    text = json.dumps(_listed(node), ensure_ascii=False)
    return text if len(text) <= _LONG else hashlib.sha256(text.encode()).hexdigest()


def _listed(node: Node) -> JSON:
    match node:
        case And(parts):
            return ["and", *map(_listed, parts)]
        case Or(parts):
            return ["or", *map(_listed, parts)]
        case Not(part):
            return ["not", _listed(part)]
        case OneOf():
            return ["one of", node.key, node.negated, list(node.values)]
        case Ordered():
            return ["ordered", node.key, node.order, node.bound]
        case Exists():
            return ["exists", node.key, node.present]
