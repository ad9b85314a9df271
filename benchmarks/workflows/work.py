"""What is judged: outputs of three kinds, and the schemas that they are judged by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

PROFILE: dict[str, Any] = {
    "type": "object",
    "required": ["name", "email", "age"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "email": {"type": "string", "pattern": "^[^@]+@[^@]+\\.[^@]+$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
}
ORDERS: dict[str, Any] = {
    "type": "array",
    "items": {"$ref": "#/$defs/profile"},
    "$defs": {"profile": PROFILE},
}

GOOD: dict[str, Any] = {"name": "Ada", "email": "ada@example.org", "age": 36}
BAD: dict[str, Any] = {"name": "", "email": "nobody", "age": "old"}


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of output. ``plain`` is what raw jsonschema is given: the value, parsed before the clock starts."""

    title: str
    schema: dict[str, Any]
    output: Any
    plain: Any
    per_round: int


CASES = (
    Case("a valid object of three fields", PROFILE, GOOD, GOOD, 2000),
    Case("an object with three errors", PROFILE, BAD, BAD, 1000),
    Case(
        "the same valid object as JSON text in a fence",
        PROFILE,
        f"```json\n{json.dumps(GOOD)}\n```",
        GOOD,
        2000,
    ),
    Case("the same valid object, its age as a text", PROFILE, {**GOOD, "age": "36"}, GOOD, 2000),
    Case("an array of 1000 such objects, through $ref", ORDERS, [GOOD] * 1000, [GOOD] * 1000, 2),
)
